"""Where every cycle of a launch went: in one category for each unit, and in one for the whole accelerator.

A unit is busy while one of its instructions runs. Else it waits for what its next instruction waits for, or is idle
when there is no next one. The accelerator as a whole does what its compute unit does; where that waits for another
unit, a cycle is of what that one does, and so on from unit to unit. The idea is Calyx's, whose profiler gives each
cycle one category (calyxir/calyx#2442).
"""

import functools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from accel.accelerator.contraction import contraction
from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Compute, Copy
from accel.errors import InvalidAccelerator
from accel.isa.decode import Decoded
from accel.isa.family import PREVIOUS, Activity, Timing
from accel.isa.family_registry import family_of
from accel.isa.kernels.compiled_kernels import Signature, compiled
from accel.isa.kernels.kernel_types import MATRIX, VECTOR
from accel.util.arrays import Int64, Signed
from accel.util.same_object import SameObject

Shares = dict[str, dict[str, int]]
"""Cycles by category and, within it, by cause."""

CATEGORIES = ("busy", "memory", "token", "fetch", "other", "idle")
_FETCHES = frozenset({"fetch", "processor"})
_MEMORY = "memory"  # the cause of what an instruction lost while it ran
_ENDED = "ended"  # the cause of a unit that has no next instruction
_UNKNOWN = "unknown"  # of a wait that its family does not explain
_NOTED = -3  # the blocker stands beside each instruction, in the first row for that; in the next ones below


@dataclass(frozen=True)
class CycleAccount:
    """Cycles by category and cause; those of ``total``, and of each of ``units``, add up to all cycles.

    The causes of ``busy`` are instructions; those of ``memory`` in ``total`` are the copies that the compute unit runs
    or waits for, and ``memory`` where the bus served others. It is of ``pieces`` pieces of work.
    """

    total: Shares
    units: dict[str, Shares]
    pieces: int


def account_launch(decoded: Decoded, timing: Timing, main_unit: str | None = None) -> CycleAccount:
    """Returns where the cycles of a launch went, those up to ``timing.cycles``.

    ``main_unit`` is :func:`compute_unit` of the accelerator, where it is known.
    """
    (account,) = account_parts(decoded, timing, [timing.cycles], main_unit)
    return account


def account_parts(
    decoded: Decoded, timing: Timing, ends: Sequence[int], main_unit: str | None = None
) -> list[CycleAccount]:
    """Returns where the cycles of a launch went, from one of ``ends`` to the next; the last one is its end.

    A cycle is of the part in which it lies, whatever instruction took it. Pieces of work are all the first part's.
    """
    accelerator = decoded.accelerator
    activity = activity_of(decoded, timing)
    causes = [cause for cause, cycles in activity.waits.items() if cycles.any()]
    count, units = len(activity.unit), len(accelerator.units)
    waits, modes = np.empty((len(causes), count), np.int64), np.empty(len(causes), np.int64)
    noted: list[Signed] = []
    for number, cause in enumerate(causes):
        waits[number] = activity.waits[cause]
        blocker = activity.blockers.get(cause, -1)
        if isinstance(blocker, int):
            modes[number] = blocker
        else:
            modes[number] = _NOTED - len(noted)
            noted.append(blocker)
    codes = len(causes) + len(accelerator.instructions) + _OTHERS
    by_unit, total = (np.zeros((len(ends) * units, codes), np.int64) for _ in range(2))
    main = accelerator.units.index(main_unit or compute_unit(accelerator))
    rows = (activity.unit, activity.kind, activity.start, activity.end, activity.held, *noted)
    pieces = np.empty((len(rows), count), np.int64)
    for number, row in enumerate(rows):
        pieces[number] = row
    _sweep(
        pieces,
        waits,
        modes,
        np.array([main, units, len(accelerator.instructions)], np.int64),
        np.array(ends, np.int64),
        by_unit,
        total,
    )
    names = _Names.of(accelerator, causes)
    return [
        CycleAccount(
            total=_merged(names.in_total(unit == main, row) for unit, row in enumerate(totals)),
            units={name: names.of_unit(row) for name, row in zip(accelerator.units, rows, strict=True)},
            pieces=0 if part else count,
        )
        for part, (rows, totals) in enumerate(
            zip(np.split(by_unit, len(ends)), np.split(total, len(ends)), strict=True)
        )
    ]


def merge_accounts(accounts: Iterable[CycleAccount]) -> CycleAccount:
    """Returns the account of several launches together."""
    found = list(accounts)
    units = dict.fromkeys(unit for account in found for unit in account.units)
    return CycleAccount(
        total=_merged(account.total for account in found),
        units={unit: _merged(account.units.get(unit, {}) for account in found) for unit in units},
        pieces=sum(account.pieces for account in found),
    )


def _merged(parts: Iterable[Mapping[str, Mapping[str, int]]]) -> Shares:
    found: Shares = {}
    for part in parts:
        for category, causes in part.items():
            for cause, cycles in causes.items():
                total = found.setdefault(category, {})
                total[cause] = total.get(cause, 0) + cycles
    return {category: found[category] for category in CATEGORIES if category in found}


def activity_of(decoded: Decoded, timing: Timing) -> Activity:
    """Returns the pieces of a launch's work: its instructions, where these are not many each."""
    if timing.activity is not None:
        return timing.activity()
    units = decoded.accelerator.units
    unit_of = np.array([units.index(each.unit) for each in decoded.accelerator.instructions], np.int64)
    nothing = np.zeros(len(decoded), np.int64)
    return Activity(
        unit=unit_of[decoded.kind],
        kind=decoded.kind,
        start=timing.start,
        end=timing.end,
        held=timing.waits.get(_MEMORY, nothing),
        waits={cause: cycles for cause, cycles in timing.waits.items() if cause != _MEMORY},
        blockers=timing.blockers,
    )


def wait_category(cause: str, queues: Collection[str]) -> str:
    """Returns the category of a wait: ``token`` for a cause of ``queues``, else ``memory``, ``fetch`` or ``other``."""
    if cause in queues:
        return "token"
    return _MEMORY if cause == _MEMORY else "fetch" if cause in _FETCHES else "other"


def compute_unit(accelerator: Accelerator) -> str:
    """Returns the unit of the contraction; where nothing contracts, that of the first compute instruction."""
    return _compute_unit(SameObject(accelerator))


@functools.lru_cache(maxsize=16)
def _compute_unit(same: SameObject[Accelerator]) -> str:
    accelerator = same.value
    try:
        return contraction(accelerator).instruction.unit
    except InvalidAccelerator:
        computes = (each.unit for each in accelerator.instructions if isinstance(each, Compute))
        return next(computes, accelerator.units[0])


@dataclass(frozen=True)
class _Names:
    """Category and cause of each code; ``moves`` are the instructions that are copies, or parts of one."""

    codes: tuple[tuple[str, str], ...]
    instructions: tuple[str, ...]
    moves: frozenset[str]

    @classmethod
    def of(cls, accelerator: Accelerator, causes: list[str]) -> "_Names":
        queues = set(family_of(accelerator).token_queues(accelerator))
        kinds = {cause: wait_category(cause, queues) for cause in causes}
        names = tuple(each.name for each in accelerator.instructions)
        copies = [each for each in accelerator.instructions if isinstance(each, Copy)]
        return cls(
            (
                *((kinds[cause], cause) for cause in causes),
                *(("busy", name) for name in names),
                ("memory", _MEMORY),
                ("idle", _ENDED),
                ("other", _UNKNOWN),
            ),
            names,
            frozenset(name for copy in copies for name in (copy.name, *copy.sequence)),
        )

    def of_unit(self, row: npt.NDArray[np.int64]) -> Shares:
        return _merged(
            {category: {cause: cycles}}
            for (category, cause), cycles in zip(self.codes, row.tolist(), strict=True)
            if cycles
        )

    def in_total(self, main: bool, row: npt.NDArray[np.int64]) -> Shares:  # noqa: FBT001 - one of two kinds of unit
        """What cycles are of that ended at a unit: at the compute unit itself, or at another that it waits for."""
        found: list[Shares] = []
        for (category, cause), cycles in zip(self.codes, row.tolist(), strict=True):
            kind = category
            if category == "busy" and cause in self.moves:
                kind = "memory"
            elif category == "busy" and not main:
                kind = "other"
            if cycles:
                found.append({kind: {cause: cycles}})
        return _merged(found)


# rows of the pieces
_UNIT, _KIND, _START, _END, _HELD, _WHOSE = range(6)
# codes behind those of causes and of instructions: lost to memory, nothing more to do, a wait without a cause
_OTHERS = 3
# what is known of a unit: its pieces' places, the part of the piece, how far that reaches, until when the present
# segment lasts, its code and its piece
_STATE = 7
_AT, _LAST, _PART, _REACH, _UNTIL, _CODE, _PIECE = range(_STATE)
_FAR = 1 << 60


@compiled
def _advance(state: Int64, pieces: Int64, waits: Int64, order: Int64, kinds: int) -> None:
    """Move a unit on to its next segment: waits of a piece one after the other, its run, what it lost to memory."""
    causes = len(waits)
    before = state[_UNTIL]
    while state[_UNTIL] == before:
        if state[_AT] == state[_LAST]:
            state[_UNTIL], state[_CODE], state[_PIECE] = _FAR, causes + kinds + 1, -1
            return
        piece, part = order[state[_AT]], state[_PART]
        state[_PART] += 1
        if part == 0:
            reach, code = pieces[_START, piece], causes + kinds + 2
            for cause in range(causes):
                reach -= waits[cause, piece]
        elif part <= causes:
            reach, code = state[_REACH] + waits[part - 1, piece], part - 1
        elif part == causes + 1:
            reach, code = pieces[_END, piece] - pieces[_HELD, piece], causes + pieces[_KIND, piece]
        else:
            reach, code = pieces[_END, piece], causes + kinds
            state[_AT], state[_PART] = state[_AT] + 1, 0
        state[_REACH] = reach
        if reach > before:
            state[_UNTIL], state[_CODE], state[_PIECE] = reach, code, piece


@compiled
def _blocker(state: Int64, pieces: Int64, modes: Int64, time: int) -> int:
    """The unit that a unit waits for at ``time``; -1 if it is none."""
    if state[_CODE] >= len(modes):
        return -1
    mode, piece = modes[state[_CODE]], state[_PIECE]
    if mode <= _NOTED:
        return int(pieces[_WHOSE + _NOTED - mode, piece])
    if mode == PREVIOUS:
        return int(pieces[_UNIT, piece - 1]) if piece > 0 and pieces[_START, piece - 1] > time else -1
    return int(mode)


@compiled
def _order(pieces: Int64, states: Int64, order: Int64) -> None:
    """Put the places of the pieces into ``order`` (m,), unit by unit, and into ``states`` where those of each lie."""
    for piece in range(len(order)):
        states[pieces[_UNIT, piece], _LAST] += 1
    for unit in range(1, len(states)):
        states[unit, _AT] = states[unit - 1, _LAST]
        states[unit, _LAST] += states[unit, _AT]
    place = np.empty(len(states), np.int64)
    for unit in range(len(states)):
        place[unit] = states[unit, _AT]
    for piece in range(len(order)):
        unit = pieces[_UNIT, piece]
        order[place[unit]] = piece
        place[unit] += 1


@compiled
def _last_unit(pieces: Int64, cycles: int, main: int) -> int:
    """The unit whose piece ends last, of those that end within ``cycles``; ``main`` where there are no pieces."""
    last, latest = main, -2
    for piece in range(pieces.shape[1]):
        end = pieces[_END, piece] if pieces[_END, piece] <= cycles else -1
        if end > latest:
            last, latest = pieces[_UNIT, piece], end
    return last


@compiled
def _sweep(pieces: Int64, waits: Int64, modes: Int64, facts: Int64, ends: Int64, by_unit: Int64, total: Int64) -> None:
    """Add up the cycles of each unit by part (parts * units, codes), and of the unit at which the compute's waits end.

    ``pieces`` are (5, m) and a row for each cause that has blockers of its own, ``waits`` (causes, m), ``modes`` the
    blockers (causes,); ``facts`` are the compute unit and the numbers of units and of instructions; ``ends`` (parts,)
    are those of the parts.
    """
    main, units, kinds = facts[0], facts[1], facts[2]
    causes, cycles = len(waits), ends[len(ends) - 1]
    ended = causes + kinds + 1
    states, order = np.zeros((units, _STATE), np.int64), np.empty(pieces.shape[1], np.int64)
    _order(pieces, states, order)
    last = _last_unit(pieces, cycles, main)
    time, part = 0, 0
    while time < cycles:
        while ends[part] <= time:
            part += 1
        until = ends[part]
        for unit in range(units):
            if states[unit, _UNTIL] <= time:
                _advance(states[unit], pieces, waits, order, kinds)
            until = min(until, states[unit, _UNTIL])
        for unit in range(units):
            by_unit[part * units + unit, states[unit, _CODE]] += until - time
        whose = main
        if states[main, _CODE] == ended and states[last, _CODE] != ended:
            whose = last
        for _ in range(units):
            other = _blocker(states[whose], pieces, modes, time)
            if other < 0 or other == whose or states[other, _CODE] == ended:
                break
            whose = other
        total[part * units + whose, states[whose, _CODE]] += until - time
        time = until


def account_signature() -> Signature:
    """Returns what fills an account."""
    return Signature(_sweep, MATRIX, MATRIX, VECTOR, VECTOR, VECTOR, MATRIX, MATRIX)
