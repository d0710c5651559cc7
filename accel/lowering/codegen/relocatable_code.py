"""The code of a region as a linker has it: instruction words, and what in them depends on where tensors lie."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from accel.accelerator.document import Accelerator
from accel.accelerator.field_bits import WORD_BITS, put_bits
from accel.accelerator.instructions import BitField, Instruction, Part
from accel.errors import CompileError
from accel.util.arrays import Bools, Int32, Int64, Words


@dataclass(frozen=True)
class CheckedField:
    """A field of an instruction whose value varies; ``path`` is its place in the document."""

    instruction: str
    field: BitField
    path: str

    def error(self, value: int) -> CompileError:
        """What is wrong where it must hold ``value``."""
        name = f"field {self.field.name} of {self.instruction}"
        if value < 0 and self.field.type != "signed":
            return CompileError(f"{name} has no sign; {value} needs one", field=self.path)
        need = (value if value >= 0 else ~value).bit_length() + (self.field.type == "signed")
        return CompileError(f"{name} has {self.field.bits} bits; {value} needs {need}", field=self.path)


@dataclass(frozen=True)
class FieldOverflow:
    """A field cannot hold its values: number ``row`` is the first such instruction, ``value`` the largest of them."""

    row: int
    field: int
    value: int


@dataclass(frozen=True)
class Relocation:
    """A field that holds ``values + sum(multiples[p] * bases[p])`` in instructions ``rows``; both are ``(n,)``.

    A field may have several, of different instructions.
    """

    field: int
    rows: Int64
    values: Int64
    multiples: tuple[int, ...]


@dataclass(frozen=True)
class CallSite:
    """A call in the function: its site, a number that the function's TIR has too, and what it calls."""

    number: int
    instruction: str


@dataclass(frozen=True)
class RegionCode:
    """A region without its place in memory.

    ``words`` are ``(n, words_each)``, with 0 in the fields of ``relocations``; ``origin`` is the index in ``sites`` of
    the call that each instruction comes from, ``(n,)``. ``fields`` are those whose values vary, in
    the order in which they are checked; ``overflows`` are of those that do not depend on addresses.
    """

    words: Words
    origin: Int32
    sites: tuple[CallSite, ...]
    fields: tuple[CheckedField, ...]
    relocations: tuple[Relocation, ...]
    overflows: tuple[FieldOverflow, ...]

    def link(self, bases: Sequence[int], accelerator: Accelerator) -> tuple[Words, Int32]:
        """The words ``(m, words_each)`` and the index of each one's call, ``(m,)``, where the tensors lie at ``bases``.

        ``bases`` are what the function takes, those of tensors in the unit of the copies that move them. Instructions
        that would set registers to what they hold are left out.

        Raises:
            CompileError: a value that its field cannot hold; the message names both.
        """
        words, overflows = self.words.copy(), list(self.overflows)
        for relocation in self.relocations:
            field = self.fields[relocation.field].field
            shift = sum(many * base for many, base in zip(relocation.multiples, bases, strict=True))
            values = relocation.values + shift
            overflows += field_overflow(relocation.field, field, relocation.rows, values)
            put_bits(words, relocation.rows, field, values)
        if overflows:
            first = min(overflows, key=lambda one: (one.row, one.field))
            raise self.fields[first.field].error(first.value)
        kept = _needed(words, accelerator)
        return words[kept], self.origin[kept]

    def bound(self, bases: Sequence[int]) -> "RegionCode":
        """Returns the code with the first parameters at ``bases``; it takes the others."""
        words, overflows, left = self.words.copy(), list(self.overflows), []
        for relocation in self.relocations:
            known, unknown = relocation.multiples[: len(bases)], relocation.multiples[len(bases) :]
            values = relocation.values + sum(many * base for many, base in zip(known, bases, strict=True))
            if any(unknown):
                left.append(replace(relocation, values=values, multiples=unknown))
                continue
            field = self.fields[relocation.field].field
            overflows += field_overflow(relocation.field, field, relocation.rows, values)
            put_bits(words, relocation.rows, field, values)
        return replace(self, words=words, relocations=tuple(left), overflows=tuple(overflows))


def field_overflow(number: int, field: BitField, rows: Int64, values: Int64) -> list[FieldOverflow]:
    """What of ``values`` the field with this number cannot hold: nothing, or one overflow."""
    low, high = field.limits
    outside = (values < low) | (values >= high) if high <= np.iinfo(np.int64).max else values < low
    if not outside.any():
        return []
    return [FieldOverflow(int(rows[outside].min()), number, int(values[outside].max()))]


def _needed(words: Words, accelerator: Accelerator) -> Bools:
    """Which of the words are not the same as the one before that sets the same registers."""
    kept = np.ones(len(words), np.bool_)
    for part in accelerator.instructions:
        if isinstance(part, Part) and part.sticky:
            rows = rows_of(part, words)
            sets = words[rows]
            differs = np.zeros(max(len(rows) - 1, 0), np.bool_)
            for column in sets.T:
                differs |= column[1:] != column[:-1]
            kept[rows[1:]] = differs
    return kept


def rows_of(part: Instruction, words: Words) -> Int64:
    """Returns which of the words (n, words_each) are those of a part."""
    return np.flatnonzero(_have_bits(words, *_constant_bits(part, words.shape[1])))


def _have_bits(words: Words, mask: Words, value: Words) -> Bools:
    """Which instructions (n,) have the bits; column by column, as NumPy takes long to reduce rows of three words."""
    have = np.ones(len(words), np.bool_)
    for number in np.flatnonzero(mask):
        have &= (words[:, number] & mask[number]) == value[number]
    return have


def _constant_bits(part: Instruction, words_each: int) -> tuple[Words, Words]:
    """Mask and value of a part's constant bits, ``(words_each,)``."""
    mask, value = np.zeros((2, words_each), np.uint64)
    for field in part.fields:
        if field.value is not None:
            word, shift = divmod(field.lsb, WORD_BITS)
            mask[word] |= np.uint64(((1 << field.bits) - 1) << shift)
            value[word] |= np.uint64(field.value << shift)
    return mask, value
