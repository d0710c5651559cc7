"""What each instruction of a launch does: which operation of which instruction, and the values of its fields."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Compute, Copy, Instruction, Part
from accel.errors import SimulationError
from accel.isa.decode import Decoded
from accel.isa.explicit.sorts import Sort, sorts_of

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Words:
    """m executions of an instruction: ``rows`` (m,) where it stands in the launch, its last part if it has parts.

    ``at`` maps each part to the word (m,) whose fields count; it is empty where the instruction is one word.
    """

    decoded: Decoded
    rows: Int64
    at: Mapping[str, Int64]

    def __len__(self) -> int:
        return len(self.rows)

    def column(self, name: str | None) -> Int64:
        """The values (m,) of a field, called part.field in a sequence; zeros where ``name`` is None."""
        if name is None:
            return np.zeros(len(self.rows), np.int64)
        part, _, plain = name.rpartition(".")
        return self.decoded.column(plain)[self.at[part] if part else self.rows]

    def where(self, keep: npt.NDArray[np.bool_]) -> "Words":
        """Those of them that ``keep`` (m,) says."""
        return Words(self.decoded, self.rows[keep], {part: rows[keep] for part, rows in self.at.items()})


@dataclass(frozen=True)
class Executions:
    """All executions of one sort in a launch."""

    sort: Sort
    words: Words


def executions_of(decoded: Decoded) -> list[Executions]:
    """What a launch does, sort by sort; parts that end no sequence, syncs and finishes are not among it.

    Raises:
        SimulationError: the first instruction whose fields choose none of its operations, or that lacks a part.
    """
    accelerator, found = decoded.accelerator, []
    for sort, words in _all(decoded, accelerator):
        chosen = np.ones(len(words), np.bool_)
        for name, value in sort.meaning.operation.when.items():
            chosen &= words.column(name) == value
        found.append(Executions(sort, words.where(chosen)))
    _refuse_undefined(decoded, found)
    return found


def _all(decoded: Decoded, accelerator: Accelerator) -> Iterator[tuple[Sort, Words]]:
    """Every sort with the executions of its instruction."""
    words: dict[str, Words] = {}
    for sort in sorts_of(accelerator):
        name = sort.instruction.name
        if name not in words:
            words[name] = words_of(decoded, accelerator.instruction(name))
        yield sort, words[name]


def words_of(decoded: Decoded, instruction: Instruction) -> Words:
    """Where ``instruction`` stands in a launch; if it has parts, where its last one stands behind the others."""
    if not instruction.sequence:
        return Words(decoded, decoded.rows(instruction), {})
    parts = decoded.accelerator.parts(instruction)
    rows = decoded.rows(parts[-1])
    whole = np.ones(len(rows), np.bool_)
    before, at = rows, {parts[-1].name: rows}
    for part in reversed(parts[:-1]):
        assert isinstance(part, Part)
        before, value, there = _part_before(decoded, part, before)
        whole &= there
        at[part.name] = value
    return Words(decoded, rows, at).where(whole)


def _part_before(decoded: Decoded, part: Part, before: Int64) -> tuple[Int64, Int64, npt.NDArray[np.bool_]]:
    """The word of ``part`` for each that stands directly before, or where it is sticky anywhere before, ``before``.

    Returns where the parts in front of it must end, where its words are, and whether they are there.
    """
    number = decoded.accelerator.instructions.index(part)
    next_to: npt.NDArray[np.bool_] = (before > 0) & (decoded.kind[np.maximum(before - 1, 0)] == number)
    moved: Int64 = np.where(next_to, before - 1, before)
    if not part.sticky:
        return moved, moved, next_to
    rows = decoded.rows(part)
    latest = np.searchsorted(rows, before) - 1
    there = latest >= 0
    value = rows[np.maximum(latest, 0)] if len(rows) else np.zeros_like(before)
    return moved, value, there


def _refuse_undefined(decoded: Decoded, found: list[Executions]) -> None:
    """Every word that should do something does."""
    does = np.zeros(len(decoded), np.bool_)
    for executions in found:
        does[executions.words.rows] = True
    ends = {i.sequence[-1] for i in decoded.accelerator.instructions if i.sequence}
    acts = [
        (isinstance(i, Copy | Compute) and not i.sequence) or i.name in ends for i in decoded.accelerator.instructions
    ]
    wrong = np.flatnonzero(np.array(acts, np.bool_)[decoded.kind] & ~does)
    if len(wrong):
        raise _undefined(decoded, int(wrong[0]))


def _undefined(decoded: Decoded, index: int) -> SimulationError:
    """Why an instruction does nothing."""
    accelerator = decoded.accelerator
    word = accelerator.instructions[decoded.kind[index]]
    meant = [i for i in accelerator.instructions if i.sequence and i.sequence[-1] == word.name] or [word]
    there = [i for i in meant if not i.sequence or index in words_of(decoded, i).rows]
    if not there:
        whole = " or ".join(" + ".join(i.sequence) for i in meant)
        return decoded.error(index, "undefined-opcode", f"it ends {whole}, and not all of that stands before it")
    choices = [sort for sort in sorts_of(accelerator) if any(sort.instruction.name == i.name for i in there)]
    names = dict.fromkeys(name for sort in choices for name in sort.meaning.operation.when)
    values = words_of(decoded, there[0])
    at = int(np.searchsorted(values.rows, index))
    held = ", ".join(f"{name} = {int(values.column(name)[at])}" for name in names) if len(there) == 1 else ""
    known = "; ".join(_told(sort) for sort in choices)
    return decoded.error(index, "undefined-opcode", f"{held or 'its fields'} chooses no operation; there are {known}")


def _told(sort: Sort) -> str:
    when = ", ".join(f"{name} = {value}" for name, value in sort.meaning.operation.when.items())
    return f"{sort.meaning.operation.name} ({when})"
