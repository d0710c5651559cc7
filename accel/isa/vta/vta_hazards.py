"""Hazards: accesses whose order no token fixes, and reads of what nobody wrote, or of what was there before.

A race makes the result depend on how fast the units happen to be, which an engine that runs in program order does not
show. Both are found by running each launch in an order that its tokens allow, with a vector clock an instruction
(:mod:`accel.isa.vta.happens_before`). What was there before is read where a store has a memory of its own, or the ALU
has no bypass, as the document says.
"""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Copy
from accel.errors import SimulationError
from accel.isa.decode import Decoded
from accel.isa.hazard_findings import Hazards, Race, Stale, Unwritten
from accel.isa.kernels.compiled_kernels import Signature
from accel.isa.kernels.kernel_types import BYTES, CUBE, MATRIX, SCALAR, VECTOR, WORD_MATRIX, WORDS
from accel.isa.vta import happens_before
from accel.isa.vta.document.instruction_view import instructions_of
from accel.isa.vta.document.vta_parameters import parameters_of
from accel.isa.vta.function import functional_table
from accel.isa.vta.function.functional_table import microop_places
from accel.isa.vta.function.launch_table import copy_opcode, launch_table
from accel.isa.vta.timing import clock_columns
from accel.isa.vta.timing.timing_table import instruction_costs
from accel.isa.vta.timing.vta_timing import deadlock, token_names, token_state, token_sync
from accel.util.arrays import Bytes, Int64, aligned_zeros

_ROOM = 1000  # findings of a launch that are told apart; there may be more


class VtaHazardChecker:
    """Checks launch after launch: memories, tokens and unfinished instructions stay from one to the next."""

    def __init__(self, accelerator: Accelerator, tokens: dict[str, int], dram_bytes: int) -> None:
        self._accelerator = accelerator
        vta = instructions_of(accelerator)
        self._memories = list(vta.memories)
        copies = [copy for copy in accelerator.instructions if isinstance(copy, Copy)]
        stores = [copy.dram_bytes(accelerator.memory(copy.memory)) for copy in copies if copy.direction == "store"]
        self._granule = min(stores)  # a store writes whole ones, so two accesses that share one share bytes
        self._sizes = np.zeros((functional_table.GEMM, 2), np.int64)
        for copy in copies:
            size = copy.dram_bytes(accelerator.memory(copy.memory))
            self._sizes[copy_opcode(vta, copy)] = self._memories.index(copy.memory), size
        depths = [accelerator.memory(name).depth for name in self._memories]
        self._bases = np.cumsum([0, *depths, -(-dram_bytes // self._granule)])
        self._known = aligned_zeros(int(self._bases[-1]))
        self._last = aligned_zeros(int(self._bases[-1]) * 24).view(np.int32).reshape(-1, 6)
        self._microops = np.zeros(depths[0], np.int32)
        parameters = parameters_of(accelerator)
        self._computing = accelerator.units.index(vta.gemm.instruction.unit)
        self._loaded = np.zeros(depths[happens_before.ACC] if parameters.out_memory else 0, np.int32)
        self._clockwork = np.array(
            [parameters.alu_stale_cycles, parameters.immediate_pass_cycles, parameters.two_operand_pass_cycles],
            np.int64,
        )
        self._fields = np.array(microop_places(accelerator), np.int64).ravel()
        self._costs = instruction_costs(accelerator)
        self._tokens = token_state(accelerator, tokens)
        self._carried = np.zeros((len(self._tokens), int(self._tokens.max(initial=0)), 3), np.int64)
        self._before = np.zeros((3, 3), np.int64)
        self._done = np.zeros(3, np.int64)
        self._index: list[list[Int64]] = [[], [], []]  # by unit and launch, the program's instructions

    def wrote(self, begin: int, end: int) -> None:
        """Note that bytes ``[begin, end)`` of DRAM hold something: the image, or what the host wrote."""
        base = self._bases[happens_before.DRAM]
        self._known[base + begin // self._granule : base + -(-end // self._granule)] = 1

    def check(self, decoded: Decoded, dram: Bytes) -> Hazards:
        """The hazards of a launch, and of launches before it with it.

        Args:
            decoded: the launch, whose ranges :func:`check_bounds` has checked.
            dram: what it finds, of which only micro-ops matter.

        Raises:
            SimulationError: a deadlock.
        """
        timed = self._costs.table(decoded)
        order = np.ascontiguousarray(
            timed[:, [clock_columns.UNIT, *range(clock_columns.POP_A, clock_columns.PUSH_B + 1)]]
        )
        table, findings = launch_table(decoded), np.zeros((_ROOM, happens_before.FINDING), np.int64)
        count, queues = len(decoded), len(self._tokens)
        clocks = np.zeros((count, happens_before.CLOCK), np.int64)
        sender = np.zeros((queues, count, 3), np.int64)
        sent, pops = np.zeros(queues, np.int64), np.zeros(queues, np.int64)
        for unit, rows in enumerate(self._index):
            rows.append(np.flatnonzero(order[:, happens_before.UNIT] == unit) + decoded.first)
        start = self._done.copy()
        ran, found = happens_before.find_hazards(
            table, order, self._before, self._done, self._tokens, self._carried, sender, sent, pops, self._microops,
            dram.view(np.int32), self._fields, self._sizes, self._granule, self._bases, self._known, self._last,
            self._loaded, self._clockwork, clocks, findings,
        )  # fmt: skip
        if ran < count:
            raise self._deadlock(decoded, order, start, sent - pops)
        hazards = self._hazards(findings[: min(found, _ROOM)], decoded.first)
        late = self._after_finish(decoded, table, clocks)
        self._carry_on(decoded, order, clocks, sender, sent, pops)
        return replace(hazards, races=(*hazards.races, *late))

    def _deadlock(self, decoded: Decoded, order: Int64, start: Int64, left: Int64) -> SimulationError:
        waiting = []
        for unit in range(len(self._accelerator.units)):
            rows = np.flatnonzero(order[:, happens_before.UNIT] == unit)
            ran = int(self._done[unit] - start[unit])
            if ran < len(rows):
                waiting.append(int(rows[ran]))
        pops = order[:, [happens_before.POP_A, happens_before.POP_B]]
        return deadlock(decoded, waiting, pops, token_names(self._accelerator), self._tokens + left)

    def _hazards(self, findings: Int64, first: int) -> Hazards:
        if not len(findings):
            return Hazards((), ())
        races, unwritten, stale = [], [], []
        joined = [np.concatenate(rows) for rows in self._index]
        for unit, place, second, memory, low, high in findings.tolist():
            name, begin, end = self._span(memory, low, high)
            if unit == happens_before.NOBODY:
                unwritten.append(Unwritten(first + second, name, begin, end))
            elif unit == happens_before.LOADED:
                load = int(joined[self._computing][place])
                stale.append(Stale("stale-out", first + second, load, name, begin, end))
            elif unit == happens_before.UNFINISHED:
                stale.append(Stale("stale-accumulator", first + second, first + second, name, begin, end))
            else:
                races.append(Race(int(joined[unit][place]), first + second, name, begin, end))
        return Hazards(tuple(races), tuple(unwritten), tuple(stale))

    def _span(self, memory: int, low: int, high: int) -> tuple[str, int, int]:
        if memory == happens_before.DRAM:
            return "dram", low * self._granule, (high + 1) * self._granule
        return self._memories[memory], low, high + 1

    def _ends(self, decoded: Decoded) -> Int64:
        """The instructions that end the launch."""
        finish = self._accelerator.finish
        return decoded.rows(finish) if finish is not None else np.zeros(0, np.int64)

    def _after_finish(self, decoded: Decoded, table: Int64, clocks: Int64) -> Iterable[Race]:
        """Stores that may still run when the launch is over and the host reads DRAM."""
        ends = self._ends(decoded)
        if not len(ends):
            return
        finish = int(ends[-1])
        f = functional_table
        stores = np.flatnonzero(table[:, f.OP] == f.STORE)
        units = np.array([self._accelerator.units.index(i.unit) for i in self._accelerator.instructions])
        late = stores[clocks[stores, happens_before.PLACE] >= clocks[finish, units[decoded.kind[stores]]]]
        size = int(self._sizes[f.STORE, 1])
        for index in late[:_ROOM].tolist():
            row = table[index]
            last = (row[f.ROWS] - 1) * row[f.STRIDE] + row[f.COLUMNS]
            begin = int(row[f.DRAM]) * size
            yield Race(decoded.first + index, decoded.first + finish, "dram", begin, begin + int(last) * size)

    def _carry_on(self, decoded: Decoded, order: Int64, clocks: Int64, sender: Int64, sent: Int64, pops: Int64) -> None:
        """What the next launch starts from: after FINISH, and after its own unit's last instruction."""
        ends = self._ends(decoded)
        over = self._done.copy()  # without FINISH nobody starts another before all is still
        if len(ends):
            over = clocks[ends[-1], :3].copy()
            over[order[ends[-1], happens_before.UNIT]] += 1
        for unit in range(3):
            rows = np.flatnonzero(order[:, happens_before.UNIT] == unit)
            last = clocks[rows[-1], :3] if len(rows) else self._before[unit]
            self._before[unit] = np.maximum(last, over)
            self._before[unit, unit] = self._done[unit]
        total = self._tokens + sent
        sync = token_sync(self._accelerator)
        counts = np.minimum(total - pops, sync.limit) * sync.carry
        left = [
            np.concatenate([self._carried[queue, : self._tokens[queue]], sender[queue, : sent[queue]]])[pops[queue] :]
            for queue in range(len(total))
        ]
        self._tokens = counts
        self._carried = np.zeros((len(left), int(self._tokens.max(initial=0)), 3), np.int64)
        for queue, kept in enumerate(left):
            self._carried[queue, : self._tokens[queue]] = kept[: self._tokens[queue]]


def hazard_signature() -> Signature:
    """Returns what the check runs."""
    return Signature(
        happens_before.find_hazards, MATRIX, MATRIX, MATRIX, VECTOR, VECTOR, CUBE, CUBE, VECTOR, VECTOR, WORDS, WORDS,
        VECTOR, MATRIX, SCALAR, VECTOR, BYTES, WORD_MATRIX, WORDS, VECTOR, MATRIX, MATRIX,
    )  # fmt: skip
