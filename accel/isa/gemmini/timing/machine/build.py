"""A machine of a configuration, with the registers that earlier instructions have left."""

import numpy as np

from accel.isa.gemmini.document import rocc_encoding as rocc
from accel.isa.gemmini.document.gemmini_parameters import LINE_BYTES, Core, GemminiParameters, MemoryHierarchy
from accel.isa.gemmini.stream import kernel_layout as isa
from accel.isa.gemmini.stream.launch_context import LaunchContext
from accel.isa.gemmini.timing.machine import places as at
from accel.isa.gemmini.timing.machine.machine import prepare
from accel.util.arrays import Int64

UNLIMITED = 1 << 20
TRANSLATIONS = 4  # pages that the translation buffer holds (GemminiConfigs.scala ``tlb_size``)
ROWS_AHEAD = 2  # of a store, beside those that a bank is behind with (Scratchpad.scala ``write_norm_q``)


def new_machine(
    parameters: GemminiParameters,
    context: LaunchContext,
    *,
    spacing: int = 0,
    open_requests: int = UNLIMITED,
    walk_latency: int = -1,
) -> Int64:
    """Returns the machine's array (SIZE,): idle, at cycle 0.

    Args:
        parameters: of the accelerator.
        context: what earlier instructions have left.
        spacing: least cycles from one instruction that is accepted to the next that is offered; 0: the processor's.
        open_requests: requests that the memory takes before it has answered.
        walk_latency: cycles of a page walk; -1: addresses are not translated.
    """
    memory = parameters.memory
    m = np.zeros(at.SIZE + (0 if memory is None else _cache_places(memory)), np.int64)
    dim = parameters.dim
    m[at.DIM], m[at.BUS], m[at.MAX_BYTES] = dim, parameters.dma_bus_bytes, parameters.dma_max_bytes
    m[at.LATENCY], m[at.MEMORY_IN_FLIGHT] = parameters.memory_latency, open_requests
    m[at.READS] = m[at.WRITES] = parameters.requests_in_flight
    m[at.LOAD_ENTRIES], m[at.STORE_ENTRIES] = parameters.load_entries, parameters.store_entries
    m[at.EXECUTE_ENTRIES] = parameters.execute_entries
    m[at.LOAD_COMMANDS] = m[at.STORE_COMMANDS] = parameters.commands_tracked
    m[at.SPAD_BANKS], m[at.SPAD_ROWS] = parameters.scratchpad_banks, parameters.scratchpad_rows
    m[at.SPAD_BANK_ROWS] = parameters.scratchpad_rows // parameters.scratchpad_banks
    m[at.ACC_BANKS], m[at.ACC_ROWS] = parameters.accumulator_banks, parameters.accumulator_rows
    m[at.ACC_BANK_ROWS] = parameters.accumulator_rows // parameters.accumulator_banks
    m[at.SPAD_DELAY], m[at.ACC_LATENCY] = parameters.scratchpad_read_delay, parameters.accumulator_latency
    m[at.ACC_SCALE], m[at.MVIN_SCALE] = parameters.accumulator_scale_latency, parameters.mvin_scale_latency
    m[at.SCALE_UNITS] = parameters.mvin_scale_units
    m[at.MESH_LATENCY] = 2 * dim * (parameters.tile_latency + 1) + parameters.mesh_output_delay - 1
    m[at.STORES_ORDERED], m[at.NORMALISES] = parameters.stores_in_order, parameters.normalizations
    _set_core(m, parameters.core, spacing)
    if memory is not None:
        _set_memory(m, memory)
    m[at.BLOCKS] = max(parameters.dma_max_bytes // dim, 1)
    m[at.BLOCKS_ACC] = max(parameters.dma_max_bytes // (4 * dim), 1)
    m[at.ROWS_AHEAD] = ROWS_AHEAD
    m[at.LOAD_COMMAND_QUEUE], m[at.STORE_COMMAND_QUEUE] = parameters.load_queue, parameters.store_queue
    m[at.EXECUTE_COMMAND_QUEUE] = parameters.execute_queue
    for place, value in (
        (at.SPAD_BANK_SHIFT, m[at.SPAD_BANK_ROWS]), (at.ACC_BANK_SHIFT, m[at.ACC_BANK_ROWS]), (at.DIM_SHIFT, dim),
    ):  # fmt: skip
        power = value & (value - 1) == 0
        m[place] = int(value).bit_length() - 1 if power else -1
    m[at.WALK_LATENCY], m[at.TLB_SECTORS] = walk_latency, TRANSLATIONS
    _restore(m, context)
    prepare(m)
    return m


def _set_core(m: Int64, core: Core | None, spacing: int) -> None:
    sent = Core() if core is None else core
    m[at.COMMAND_CYCLES : at.PARAMETERS] = spacing or sent.issue_cycles
    m[at.COMMAND_CYCLES + rocc.FENCE] = 0 if spacing or core is None else core.issue_cycles
    if not spacing:
        for loop in (rocc.LOOP_WS, rocc.LOOP_CONV):
            m[at.COMMAND_CYCLES + loop] += sent.loop_cycles
        m[at.START_AT] = sent.start_cycles
    m[at.SPACING] = m[at.START_AT] + m[at.COMMAND_CYCLES : at.PARAMETERS].max()  # at most


def _cache_places(memory: MemoryHierarchy) -> int:
    return at.MOST_MISSES + memory.sets * (memory.l2_ways * at.LINE_WIDTH + 1) + memory.llc_sets * memory.llc_ways


def _set_memory(m: Int64, memory: MemoryHierarchy) -> None:
    m[at.L2_SETS], m[at.L2_WAYS] = memory.sets, memory.l2_ways
    m[at.L2_LATENCY], m[at.L2_MISSES] = memory.l2_latency, memory.misses_in_flight
    m[at.L2_BUS], m[at.L2_WRITE] = memory.l2_bus_bytes, memory.l2_write_cycles
    m[at.LLC_SETS], m[at.LLC_WAYS], m[at.LLC_LATENCY] = memory.llc_sets, memory.llc_ways, memory.llc_latency
    m[at.LLC_LINES] = at.LINES + memory.sets * (memory.l2_ways * at.LINE_WIDTH + 1)
    m[at.LATENCY] = memory.l2_latency + memory.l2_write_cycles + memory.dram_latency  # of a request by itself, at most
    m[at.DRAM_LATENCY], m[at.DRAM_CYCLES] = memory.dram_latency, memory.dram_line_cycles
    m[at.LLC_MISSES], m[at.LLC_BUS] = memory.llc_misses_in_flight, memory.llc_bus_bytes
    m[at.LLC_LINE] = memory.llc_line_bytes // LINE_BYTES
    m[at.DRAM_ROW], m[at.DRAM_BANKS] = memory.dram_row_cycles, memory.dram_banks
    m[at.DRAM_ROW_LINES] = memory.dram_row_bytes // LINE_BYTES


def _restore(m: Int64, context: LaunchContext) -> None:
    state = context.state
    for target, source in ((at.LD_STRIDE, isa.LD_STRIDE), (at.LD_SHRINK, isa.LD_SHRUNK), (at.LD_PIXELS, isa.LD_PIXELS)):
        m[target : target + 3] = state[source : source + 3]
    m[at.LD_BLOCK : at.LD_BLOCK + 3] = m[at.RS_BLOCK : at.RS_BLOCK + 3] = state[isa.LD_BLOCK : isa.LD_BLOCK + 3]
    m[at.RS_PIXELS : at.RS_PIXELS + 3] = state[isa.LD_PIXELS : isa.LD_PIXELS + 3]
    m[at.LD_SCALE : at.LD_SCALE + 3] = context.bits[:3].astype(np.int64) & 0xFFFFFFFF
    m[at.EX_WS], m[at.EX_A_TRANSPOSE], m[at.EX_B_TRANSPOSE] = (
        state[isa.WS], state[isa.A_TRANSPOSE], state[isa.B_TRANSPOSE],
    )  # fmt: skip
    m[at.UNROLL_TRANSPOSED] = state[isa.WS] and state[isa.B_TRANSPOSE]
    m[at.RS_A_TRANSPOSE] = state[isa.A_TRANSPOSE]
    m[at.EX_A_STRIDE] = m[at.RS_A_STRIDE] = state[isa.A_STRIDE]
    m[at.EX_C_STRIDE] = m[at.RS_C_STRIDE] = state[isa.C_STRIDE]
    m[at.ST_STRIDE], m[at.ST_POOL_STRIDE] = state[isa.ST_STRIDE], state[isa.POOL_STRIDE]
    m[at.RS_POOLING] = state[isa.POOL_STRIDE]
    m[at.ST_POOL_SIZE], m[at.ST_OUT_DIM] = state[isa.POOL_SIZE], state[isa.POOL_OUT]
    m[at.ST_POROWS], m[at.ST_POCOLS] = state[isa.POROWS], state[isa.POCOLS]
    m[at.ST_OROWS], m[at.ST_OCOLS] = state[isa.OROWS], state[isa.OCOLS]
    m[at.ST_UPAD], m[at.ST_LPAD] = state[isa.UPAD], state[isa.LPAD]
    m[at.ST_STATISTICS] = state[isa.STAT]
    for number in range(2):  # a loop's bounds and addresses stay, whichever of the two loops is next
        loop = at.MATMUL_LOOPS + number * at.L_WIDTH
        for target, source in _LOOP_REGISTERS:
            m[loop + target] = context.loops[source]


_LOOP_REGISTERS = (
    (at.L_K, isa.L_K), (at.L_J, isa.L_J), (at.L_I, isa.L_I),
    (at.L_PAD_K, isa.L_PAD_K), (at.L_PAD_J, isa.L_PAD_J), (at.L_PAD_I, isa.L_PAD_I),
    (at.L_A, isa.L_A), (at.L_B, isa.L_B), (at.L_D, isa.L_D), (at.L_C, isa.L_C),
    (at.L_A_STRIDE, isa.L_A_STRIDE), (at.L_B_STRIDE, isa.L_B_STRIDE),
    (at.L_D_STRIDE, isa.L_D_STRIDE), (at.L_C_STRIDE, isa.L_C_STRIDE),
)  # fmt: skip
