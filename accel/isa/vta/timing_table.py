"""VTA's instructions as the clock takes them: cycles, reads and tokens of each.

The costs of single instructions are here, each with its source in the Chisel design (tvm-vta ``hardware/chisel``,
``core/`` and ``shell/``) in cycles of that design; what depends on the other units is in
:mod:`accel.isa.vta.timing_kernel`. ``docs/timing.md`` says which recordings each was compared with.
"""

import numpy as np
import numpy.typing as npt

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import AnyInstruction, Compute, Copy
from accel.accelerator.synchronisation import TokenSync
from accel.isa.argument_types import MATRIX, SCALAR, VECTOR
from accel.isa.compiled import compile_now
from accel.isa.decode import Decoded
from accel.isa.vta import timing_fill as role
from accel.isa.vta import timing_kernel as kernel
from accel.isa.vta import timing_layout as layout
from accel.isa.vta.parameters import VtaParameters, parameters_of
from accel.isa.vta.view import Vta, view

Int64 = npt.NDArray[np.int64]

_SYNC = 2  # Compute, Load, Store: idle -> sync -> idle; finish: idle -> execute -> idle
_PIPELINE = 7  # TensorGemm, TensorAlu: start register, index generator, read, multiply or operate, write back
_STORE_START = 1  # Store: idle -> execute
_STORE_BURST = 3  # TensorStoreNarrowVME, VME: write command, address, acknowledge
_STORE_ELEMENT = 1  # TensorStoreNarrowVME: sReadMem, before the element's beats
_COMMAND = 2  # from an instruction's start to its first command at the bus: command generator, client queue
_DATA = 3  # from the cycle after the last beat to the instruction's end: VME, data pipe, block count
_DATA_WIDE = 2  # TensorLoad: TensorLoadWideVME loads elements that fit a beat, and has no data pipe
_ZEROS = 2  # from the start to the first zero written: ZeroPadding starts from a register
_ZEROS_WIDE = 1  # TensorLoadWideVME has no such register
_FETCH_COMMAND = 1  # from launch, or from the cycle after the last dispatch, to the read command (FetchVME64 sReadCmd)
_FETCH_DATA = 2  # from the cycle after the burst's last beat to the unit's first sight of it: sDrain, its queue
_RESPONSE = 2  # from a read command to the first beat, with a latency of 0: the memory of the recordings


def token_queues(accelerator: Accelerator) -> list[tuple[str, str]]:
    """The (producer, consumer) pairs of the document, in the order in which its instructions name them."""
    pairs: dict[tuple[str, str], None] = {}
    for instruction in accelerator.instructions:
        pairs.update({(instruction.unit, other): None for other in instruction.tokens.push})
        pairs.update({(other, instruction.unit): None for other in instruction.tokens.pop})
    return list(pairs)


def _sort(accelerator: Accelerator, vta: Vta, parameters: VtaParameters, instruction: AnyInstruction) -> Int64:
    """What is the same for all instructions of a sort; queues are filled in by :func:`_tokens`."""
    sort = np.zeros(role.SORT, np.int64)
    sort[role.UNIT] = accelerator.units.index(instruction.unit)
    sort[role.SYNC] = _SYNC
    if isinstance(instruction, Compute):
        sort[role.ACTION] = role.PASSES
        sort[role.PIPELINE] = _PIPELINE
        each = (1, 1)
        if instruction.name == vta.alu.instruction.name:
            each = (parameters.immediate_pass_cycles, parameters.two_operand_pass_cycles)
        sort[[role.WITH_IMMEDIATE, role.TWO_OPERANDS]] = each
    elif isinstance(instruction, Copy):
        size = instruction.dram_bytes(accelerator.memory(instruction.memory))
        sort[role.ELEMENT] = size
        if instruction.direction == "store":
            beats = -(-size // accelerator.dram.bus_bytes)
            sort[[role.ACTION, role.STORE, role.STORE_BURST, role.STORE_ELEMENT]] = (
                role.STORES, _STORE_START, _STORE_BURST, _STORE_ELEMENT + beats
            )  # fmt: skip
        else:
            # the memory engine's clients after fetch, first served first
            sort[[role.ACTION, role.PRIORITY]] = role.LOADS, 1 + vta.memories.index(instruction.memory)
            wide = size <= accelerator.dram.bus_bytes
            sort[[role.TAIL, role.ZEROS_LEAD]] = (_DATA_WIDE, _ZEROS_WIDE) if wide else (_DATA, _ZEROS)
    return sort


def _fields(vta: Vta, instruction: AnyInstruction) -> dict[int, str | None]:
    """The field of each role that the instruction has."""
    fields: dict[int, str | None] = {}
    if isinstance(instruction, Copy):
        copy = instruction.copy_fields
        fields = {
            role.DRAM: copy.dram,
            role.ROWS: copy.rows,
            role.COLUMNS: copy.columns,
            role.STRIDE: copy.row_stride,
            role.TOP: copy.pad_top,
            role.BOTTOM: copy.pad_bottom,
            role.LEFT: copy.pad_left,
            role.RIGHT: copy.pad_right,
        }
    elif isinstance(instruction, Compute) and instruction.microops is not None:
        outer, inner = instruction.loops
        fields = {
            role.BEGIN: instruction.microops.begin,
            role.END: instruction.microops.end,
            role.OUTER: outer.extent,
            role.INNER: inner.extent,
        }
        if instruction.name == vta.alu.instruction.name:
            fields[role.IMMEDIATE] = vta.alu.use_immediate
    return fields


def _tokens(accelerator: Accelerator, instruction: AnyInstruction, sort: Int64) -> dict[int, str | None]:
    """The fields of its tokens by role; puts their queues into ``sort``."""
    queues = token_queues(accelerator)
    sort[role.QUEUES : role.QUEUES + 4] = -1
    fields: dict[int, str | None] = {}
    for offset, (other, field) in enumerate(instruction.tokens.pop.items()):
        fields[role.POP_A + offset] = field
        sort[role.QUEUES + offset] = queues.index((other, instruction.unit))
    for offset, (other, field) in enumerate(instruction.tokens.push.items()):
        fields[role.PUSH_A + offset] = field
        sort[role.QUEUES + 2 + offset] = queues.index((instruction.unit, other))
    return fields


def instruction_table(decoded: Decoded) -> Int64:
    """The kernel's table (n, 16): costs, reads and tokens of each instruction."""
    accelerator = decoded.accelerator
    table = np.empty((len(decoded), layout.TABLE), np.int64)
    absent = np.zeros(len(decoded), np.int64)
    vta, parameters = view(accelerator), parameters_of(accelerator)
    for instruction in accelerator.instructions:
        rows = decoded.rows(instruction)
        if not len(rows):
            continue
        sort = _sort(accelerator, vta, parameters, instruction)
        fields = _fields(vta, instruction) | _tokens(accelerator, instruction, sort)
        names = [fields.get(number) for number in range(role.ROLES)]
        columns = tuple(absent if name is None else decoded.columns.get(name, absent) for name in names)
        role.fill(rows, columns, sort, _COMMAND, accelerator.dram.burst_boundary_bytes, table)
    return table


def kernel_parameters(accelerator: Accelerator) -> Int64:
    """The kernel's parameters, which are the same for all instructions."""
    dram, parameters, sync = accelerator.dram, parameters_of(accelerator), accelerator.synchronisation
    assert isinstance(sync, TokenSync)
    values = np.zeros(layout.PARAMETERS, np.int64)
    values[layout.BUS] = dram.bus_bytes
    values[layout.LATENCY] = _RESPONSE + dram.read_latency
    values[layout.BURST_BEATS] = dram.burst_beats
    values[layout.BOUNDARY] = dram.burst_boundary_bytes
    values[layout.FETCH_BURST] = parameters.fetch_burst_instructions
    values[layout.TOKEN_LIMIT] = sync.limit
    values[layout.IN_FLIGHT] = parameters.reads_in_flight
    values[layout.FETCH_LEAD] = _FETCH_COMMAND
    values[layout.FETCH_TAIL] = _FETCH_DATA
    for unit, name in enumerate(accelerator.units):
        values[layout.QUEUE_DEPTHS + unit] = parameters.queue_depths[name]
    return values


def prepare_timing() -> None:
    """Compile what timing runs, without running it."""
    columns = (VECTOR,) * role.ROLES
    compile_now(role.fill, VECTOR, columns, VECTOR, SCALAR, SCALAR, MATRIX)
    compile_now(kernel.run, MATRIX, VECTOR, MATRIX, VECTOR, MATRIX, MATRIX, MATRIX)
