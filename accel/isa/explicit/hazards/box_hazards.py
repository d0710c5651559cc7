"""Hazards of a document's programs: accesses that no token orders, and reads of what nobody wrote."""

import math

import numpy as np

from accel.accelerator.document import Accelerator, TokenSync
from accel.accelerator.instructions import Copy
from accel.accelerator.memories import DTYPE_BYTES
from accel.accelerator.shared_bytes import cells_of
from accel.isa.decode import Decoded
from accel.isa.explicit.clock.timing import deadlock, pops_of, pushes_of, token_counts, units_of
from accel.isa.explicit.hazards import accesses as columns
from accel.isa.explicit.hazards import box_hazard_kernels as kernel
from accel.isa.explicit.hazards.accesses import Accesses, accesses_of
from accel.isa.hazard_findings import Hazards, Race, Unwritten
from accel.isa.kernels.compiled_kernels import Signature
from accel.isa.kernels.kernel_types import BYTES, MATRIX, SCALAR, VECTOR, WORD_MATRIX
from accel.util.arrays import Bytes, Int64

_ROOM = 1000  # findings of a launch that are told apart; there may be more


class ExplicitHazardChecker:
    """Checks launch after launch: what is written, and tokens, stay from one to the next.

    A launch is over when all its instructions have ended, so there are no races between launches; and where units wait
    for addresses, or start in order, there are none at all. A token that its counter would drop still orders here.
    """

    def __init__(self, accelerator: Accelerator, tokens: dict[str, int], dram_bytes: int) -> None:
        self._accelerator = accelerator
        self._granule = dram_granule(accelerator)
        self._cells = cells_of(accelerator)
        # a view has no cells but those of the memory whose bytes it is
        sizes = [
            each.each * memory.depth if memory.view_of is None else 0
            for memory, each in zip(accelerator.memories, self._cells, strict=True)
        ]
        self._bases = np.cumsum([0, *sizes]).astype(np.int64)
        self._known = np.zeros(int(self._bases[-1]) + -(-dram_bytes // self._granule), np.uint8)
        self._until = self._bases.copy()
        self._tokens = token_counts(accelerator, tokens)
        self._history = _History(accelerator, self._bases, dram_bytes)

    def wrote(self, begin: int, end: int) -> None:
        """Note that bytes ``[begin, end)`` of DRAM hold something: the image, or what the host wrote."""
        base = int(self._bases[-1])
        self._known[base + begin // self._granule : base + -(-end // self._granule)] = 1

    def check(self, decoded: Decoded, dram: Bytes) -> Hazards:
        """The hazards of a launch, whose ranges :func:`check_bounds` has checked; ``dram`` does not matter.

        Raises:
            SimulationError: a deadlock.
        """
        del dram
        accesses, order, races = accesses_of(decoded), np.arange(len(decoded)), tuple[Race, ...]()
        if isinstance(self._accelerator.synchronisation, TokenSync):
            order, clock = self._ordered(decoded)
            races = self._history.races(decoded, accesses, order, clock)
        return Hazards(races, self._unwritten(decoded, accesses, order))

    def _ordered(self, decoded: Decoded) -> tuple[Int64, Int64]:
        """An order (n,) that the tokens allow, and the clocks (n, units) of the instructions; tokens go on."""
        pops, pushes = pops_of(decoded), pushes_of(decoded)
        order = np.zeros(len(decoded), np.int64)
        clock = np.zeros((len(decoded), len(self._accelerator.units)), np.int64)
        units, tokens = units_of(decoded), self._tokens.copy()
        ran = kernel.order_launch(units, pops.start, pops.queue, pushes.start, pushes.queue, tokens, clock, order)
        if ran < len(decoded):
            left = np.ones(len(decoded), np.bool_)
            left[order[:ran]] = False
            waiting = [np.flatnonzero(left & (units == unit)) for unit in range(len(self._accelerator.units))]
            raise deadlock(decoded, sorted(int(rows[0]) for rows in waiting if len(rows)), pops, tokens)
        sync = self._accelerator.synchronisation
        assert isinstance(sync, TokenSync)
        self._tokens = np.minimum(tokens, sync.limit) * sync.carry
        return order, clock

    def _unwritten(self, decoded: Decoded, accesses: Accesses, order: Int64) -> tuple[Unwritten, ...]:
        findings = np.zeros((_ROOM, kernel.FINDING), np.int64)
        found = kernel.find_unwritten(
            accesses.table, accesses.start, order, self._bases, self._granule, self._known, self._until, findings
        )
        return tuple(
            Unwritten(decoded.first + second, *in_elements(self._accelerator, memory, low, high))
            for _, _, second, memory, low, high in findings[: min(found, _ROOM)].tolist()
        )


class _History:
    """Who touched each cell last. DRAM's cells are as large as the program's copies let them be."""

    def __init__(self, accelerator: Accelerator, bases: Int64, dram_bytes: int) -> None:
        self._accelerator = accelerator
        self._bases = bases
        self._dram_bytes = dram_bytes
        self._granule = 0
        self._last = np.zeros((0, kernel.READ + len(accelerator.units)), np.int32)
        self._done = np.zeros(len(accelerator.units), np.int64)
        self._rows: list[list[Int64]] = [
            [] for _ in accelerator.units
        ]  # by unit and launch, the program's instructions

    def races(self, decoded: Decoded, accesses: Accesses, order: Int64, clock: Int64) -> tuple[Race, ...]:
        """The races of a launch."""
        self._refine(accesses.table)
        units, findings = units_of(decoded), np.zeros((_ROOM, kernel.FINDING), np.int64)
        for unit, rows in enumerate(self._rows):
            rows.append(np.flatnonzero(units == unit) + decoded.first)
        found = kernel.find_races(
            accesses.table, accesses.start, order, units, clock, self._done, self._bases, self._granule, self._last,
            findings,
        )  # fmt: skip
        joined = [np.concatenate(rows) for rows in self._rows]
        races = []
        for unit, place, second, memory, low, high in findings[: min(found, _ROOM)].tolist():
            one, other = sorted((int(joined[unit][place]), decoded.first + second))
            races.append(Race(one, other, *self._span(memory, low, high)))
        return tuple(races)

    def _span(self, memory: int, low: int, high: int) -> tuple[str, int, int]:
        size = self._granule if memory == len(self._accelerator.memories) else 1
        return in_elements(self._accelerator, memory, low * size, high * size)

    def _refine(self, table: Int64) -> None:
        """Cut DRAM's cells so that the accesses of ``table`` are whole ones."""
        rows = table[table[:, columns.MEMORY] == len(self._accelerator.memories)]
        steps = rows[:, columns.STEP] * (rows[:, columns.EXTENT] > 1)
        numbers = np.concatenate([rows[:, columns.BEGIN], rows[:, columns.SPAN], steps])
        granule = math.gcd(self._granule, int(np.gcd.reduce(numbers))) or self._dram_bytes or 1
        if granule == self._granule:
            return
        chip = int(self._bases[-1])
        last = np.zeros((chip + -(-self._dram_bytes // granule), self._last.shape[1]), np.int32)
        if self._granule:
            last[:chip] = self._last[:chip]
            finer = np.repeat(self._last[chip:], self._granule // granule, axis=0)
            last[chip:] = finer[: len(last) - chip]
        self._last, self._granule = last, granule


def in_elements(accelerator: Accelerator, memory: int, low: int, high: int) -> tuple[str, int, int]:
    """Returns the name of a memory, and the elements in which cells ``[low, high)`` of it lie; of DRAM, bytes."""
    each = cells_of(accelerator)[memory].each if memory < len(accelerator.memories) else 1
    return memory_name(accelerator, memory), low // each, -(-high // each)


def memory_name(accelerator: Accelerator, memory: int) -> str:
    """The name of a memory by its number; ``dram`` comes after all."""
    return accelerator.memories[memory].name if memory < len(accelerator.memories) else "dram"


def dram_granule(accelerator: Accelerator) -> int:
    """Bytes of which every copy moves whole ones, at multiples of them."""
    sizes = [
        DTYPE_BYTES[copy.dram_dtype] if copy.dram_unit == "byte" else copy.dram_bytes(accelerator.memory(copy.memory))
        for copy in accelerator.instructions
        if isinstance(copy, Copy)
    ]
    return math.gcd(*sizes) or 1


def hazard_signatures() -> tuple[Signature, ...]:
    """Returns what the check runs."""
    return (
        Signature(kernel.order_launch, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, MATRIX, VECTOR),
        Signature(kernel.find_unwritten, MATRIX, VECTOR, VECTOR, VECTOR, SCALAR, BYTES, VECTOR, MATRIX),
        Signature(
            kernel.find_races, MATRIX, VECTOR, VECTOR, VECTOR, MATRIX, VECTOR, VECTOR, SCALAR, WORD_MATRIX, MATRIX
        ),
    )  # fmt: skip
