"""Races: accesses whose order no token fixes, so that the result depends on how fast the units happen to be."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from accel.accelerator.document import Accelerator, Copy
from accel.errors import SimulationError
from accel.isa.decode import Decoded, decode
from accel.isa.vta import function_kernel, races_kernel, timing_kernel
from accel.isa.vta.bounds import check_bounds
from accel.isa.vta.function import copy_operation, geometry, launch_table
from accel.isa.vta.timing import instruction_table, token_names, token_state
from accel.program import Launch, Program
from accel.simulate.engine import segment_view

Int64 = npt.NDArray[np.int64]

_ROOM = 1000  # conflicts that are told apart; there may be more


@dataclass(frozen=True)
class Race:
    """Instructions ``first`` and ``second`` of a launch touch ``memory`` in no fixed order; one of them writes.

    Where ``second`` ends the launch, ``first`` is a store that it does not wait for.

    ``begin`` to ``end`` (exclusive) spans what both touch: elements of an on-chip memory, bytes of ``dram``.
    """

    launch: str
    first: int
    second: int
    memory: str
    begin: int
    end: int


class RaceChecker:
    """Checks launch after launch: micro-ops and tokens stay from one to the next."""

    def __init__(self, accelerator: Accelerator, tokens: dict[str, int]) -> None:
        self._accelerator = accelerator
        self._tokens = token_state(accelerator, tokens)
        contraction = accelerator.contraction
        self._memories = [
            operand.memory for operand in (contraction.microops, contraction.data, contraction.weights, contraction.dst)
        ]
        self._microops = np.zeros(accelerator.memory(self._memories[0]).depth, np.int32)
        copies = [copy for copy in accelerator.instructions if isinstance(copy, Copy)]
        self._granule = min(copy.dram_bytes(accelerator.memory(copy.memory)) for copy in copies)
        self._sizes = np.zeros((function_kernel.GEMM, 2), np.int64)
        for copy in copies:
            size = copy.dram_bytes(accelerator.memory(copy.memory)) // self._granule
            self._sizes[copy_operation(accelerator, copy)] = self._memories.index(copy.memory), size
        self._depths = [accelerator.memory(name).depth for name in self._memories]

    def check(self, launch: str, decoded: Decoded, dram: npt.NDArray[np.uint8]) -> list[Race]:
        """The races of one launch; ``dram`` is what it finds, of which only micro-ops matter.

        Raises:
            SimulationError: an index out of range, or a deadlock.
        """
        check_bounds(decoded, len(dram))
        timed = instruction_table(decoded)
        order = timed[:, [timing_kernel.UNIT, *range(timing_kernel.POP_A, timing_kernel.PUSH_B + 1)]]
        shape = geometry(self._accelerator)
        fields = np.array([*shape.dst, *shape.src, *shape.wgt], np.int64)
        bases = np.cumsum([0, *self._depths, -(-len(dram) // self._granule)])
        table, conflicts = launch_table(decoded), np.zeros((_ROOM, 5), np.int64)
        clocks = np.zeros((len(decoded), 4), np.int64)
        ran, count = races_kernel.find(
            table, np.ascontiguousarray(order), self._tokens, self._microops, dram.view(np.int32), fields,
            self._sizes, bases, clocks, conflicts,
        )  # fmt: skip
        if ran < len(decoded):
            names = ", ".join(token_names(self._accelerator))
            raise SimulationError(f"launch {launch}: deadlock after {ran} instructions; the queues are {names}")
        races = [self._race(launch, row) for row in conflicts[: min(count, _ROOM)]]
        return races + self._after_finish(launch, decoded, table, clocks)

    def _after_finish(self, launch: str, decoded: Decoded, table: Int64, clocks: Int64) -> list[Race]:
        """Stores that may still run when the launch is over, and the host or the next launch reads DRAM."""
        ends = decoded.rows(self._accelerator.finish)
        if not len(ends):
            return []
        finish = int(ends[-1])
        stores = np.flatnonzero(table[:, function_kernel.OP] == function_kernel.STORE)
        units = np.array([self._accelerator.units.index(i.unit) for i in self._accelerator.instructions])
        late = stores[clocks[stores, 3] >= clocks[finish, units[decoded.kind[stores]]]]
        size = self._sizes[function_kernel.STORE, 1] * self._granule
        races = []
        for index in late[:_ROOM].tolist():
            row = table[index]
            last = (row[function_kernel.ROWS] - 1) * row[function_kernel.STRIDE] + row[function_kernel.COLUMNS]
            begin = int(row[function_kernel.DRAM] * size)
            races.append(Race(launch, index, finish, "dram", begin, begin + int(last * size)))
        return races

    def _race(self, launch: str, row: Any) -> Race:
        first, second, memory, low, high = (int(value) for value in row)
        if memory == races_kernel.DRAM:
            return Race(launch, first, second, "dram", low * self._granule, (high + 1) * self._granule)
        return Race(launch, first, second, self._memories[memory], low, high + 1)


def find_races(program: Program) -> list[Race]:
    """The races within each launch of ``program``, whose micro-ops are in its image."""
    dram = np.zeros(-(-program.dram_bytes // 8) * 8, np.uint8)
    for name, array in program.image.items():
        segment_view(dram, program.segments[name])[...] = array
    checker = RaceChecker(program.accelerator, program.initial_tokens)
    races = []
    for step in program.steps:
        if isinstance(step, Launch):
            words = program.words[step.begin : step.begin + step.count]
            races += checker.check(step.name, decode(program.accelerator, words), dram)
    return races
