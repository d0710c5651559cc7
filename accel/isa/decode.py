"""Instruction words to columns, for any accelerator document; a column is an array over instructions."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TypeVar, cast

import numpy as np
import numpy.typing as npt

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Copy, Instruction
from accel.errors import Diagnosis, SimulationError
from accel.isa import decode_kernel as kernel
from accel.isa.kernels.compiled_kernels import Signature
from accel.isa.kernels.kernel_types import MATRIX, VECTOR, Array
from accel.util.arrays import Bools, Int64, Words
from accel.util.same_object import SameObject

T = TypeVar("T")

KEPT = 1 << 16
"""Instructions, of a launch or of a program, of which what is decoded and derived may stay: some 50 MB."""


@dataclass(frozen=True)
class Decoded:
    """A stream of n instructions by field.

    ``kind`` (n,) indexes ``accelerator.instructions``; ``words`` (n, words) are the instructions themselves, whose
    fields lie as ``layout`` says. ``first`` is its first instruction's place in the program, from which errors count.
    ``context`` is what the launch finds in the registers, as its family keeps it
    (:meth:`accel.isa.family.Family.first_context`); None: what is there after power-on.
    """

    accelerator: Accelerator
    kind: npt.NDArray[np.int16]
    words: Words
    layout: "EncodingArrays"
    first: int = 0
    context: object = None

    @property
    def columns(self) -> dict[str, Int64]:
        """A field's values (n,) by its name, zero where the instruction has no such field.

        A field of 64 bits, and one that is a float32, stands there by its bits.
        """
        return self._split[0]

    @property
    def fields(self) -> Int64:
        """The columns (fields, n), in the order of the layout's names."""
        return self._split[2]

    @property
    def rest(self) -> Words:
        """The bits (n, words) that no field covers: writers leave them unset or undefined."""
        return self._split[1]

    @cached_property
    def _split(self) -> tuple[dict[str, Int64], Words, Int64]:
        """Not before somebody asks: the columns take ten times the words' memory."""
        layout, rest = self.layout, self.words.copy()
        columns = np.zeros((len(layout.names), len(rest)), np.int64)
        kernel.split_fields(self.kind, layout.fields, layout.starts, layout.covered, columns, rest)
        return dict(zip(layout.names, columns, strict=True)), rest, columns

    def limits(self) -> dict[str, tuple[int, int]]:
        """Returns the least and the greatest value of each of the columns, which are not made for it; 0 of no rows."""
        names, numbers = self.layout.names, np.iinfo(np.int64)
        low, high = np.full(len(names), numbers.max), np.full(len(names), numbers.min)
        kernel.limit_fields(self.kind, self.layout.fields, self.layout.starts, self.words, low, high)
        sorts = np.bincount(self.kind, minlength=len(self.accelerator.instructions))
        everywhere = sorts @ self.layout.has == len(self)  # else it is 0 somewhere
        low, high = np.where(everywhere, low, np.minimum(low, 0)), np.where(everywhere, high, np.maximum(high, 0))
        limits = zip(low.tolist(), high.tolist(), strict=True) if len(self) else [(0, 0)] * len(names)
        return dict(zip(names, limits, strict=True))

    def pack(self, places: Mapping[str, tuple[int, int]], records: npt.NDArray[np.uint8]) -> None:
        """Write fields into the records (n, bytes) of a file, which are zero, with the lowest byte first.

        ``places`` are the first byte in a record, and how many there are, by the field's name.
        """
        at = np.array([places.get(name, (0, 0)) for name in self.layout.names], np.int64).reshape(-1, 2)
        kernel.pack_fields(self.kind, self.layout.fields, self.layout.starts, self.words, at, records)

    @cached_property
    def _derived(self) -> dict[object, object]:
        return {}

    def derived(self, make: Callable[["Decoded"], T]) -> T:
        """Returns what ``make`` makes of the stream: several parts of a simulator ask, and it is kept as the stream is.

        Raises:
            Exception: as ``make`` does.
        """
        if make not in self._derived:
            self._derived[make] = make(self)
        return cast(T, self._derived[make])

    def kept(self, make: Callable[["Decoded"], T]) -> T:
        """Returns what :meth:`derived` does; of a long stream, where that takes memory, it is made at each call.

        Raises:
            Exception: as ``make`` does.
        """
        return self.derived(make) if len(self) <= KEPT else make(self)

    def __len__(self) -> int:
        return len(self.kind)

    def of_unit(self, unit: str | None) -> Bools:
        """Returns which instructions (n,) a unit runs."""
        return np.array([each.unit == unit for each in self.accelerator.instructions])[self.kind]

    def column(self, name: str | None) -> Int64:
        """The field's values, or zeros where ``name`` is None or no instruction has it."""
        if name is None or name not in self.columns:
            return np.zeros(len(self), np.int64)
        return self.columns[name]

    def rows(self, instruction: Instruction) -> Int64:
        """Indices of the instructions of that sort."""
        # equal documents are compared field by field, which takes longer than all the rest: names come first
        place = next(
            place
            for place, each in enumerate(self.accelerator.instructions)
            if each is instruction or (each.name == instruction.name and each == instruction)
        )
        return np.flatnonzero(self.kind == place)

    def on(self, accelerator: Accelerator) -> "Decoded":
        """The same instructions on another document that encodes them in the same way; fields are not split anew."""
        other = replace(self, accelerator=accelerator)
        if "_split" in self.__dict__:
            other.__dict__["_split"] = self._split
        return other

    def slice(self, begin: int, end: int) -> "Decoded":
        """Instructions ``[begin, end)``."""
        return Decoded(self.accelerator, self.kind[begin:end], self.words[begin:end], self.layout, self.first + begin)

    def error(self, index: int, kind: Diagnosis, message: str) -> SimulationError:
        """The error of instruction ``index`` of this stream; ``message`` says what is wrong with it."""
        at = self.first + int(index)
        name = self.accelerator.instructions[self.kind[index]].name
        return SimulationError.at_instruction(at, kind, message, name)


@dataclass(frozen=True)
class EncodingArrays:
    """The document's encodings as the kernel takes them: see :mod:`accel.isa.decode_kernel`.

    ``has`` (instructions, columns) is 1 where an instruction has bits of a column.
    """

    masks: Words
    values: Words
    covered: Words
    fields: Int64
    starts: Int64
    has: Int64
    names: tuple[str, ...]


def encoding_arrays(accelerator: Accelerator) -> EncodingArrays:
    """Returns the encodings of a document, computed once for one that is used again."""
    return _encoding_arrays(SameObject(accelerator))


@functools.lru_cache(maxsize=16)
def _encoding_arrays(same: SameObject[Accelerator]) -> EncodingArrays:
    accelerator = same.value
    size = accelerator.word_bits // 64
    masks, values, covered = ([[0] * size for _ in accelerator.instructions] for _ in range(3))
    names: dict[str, int] = {}
    fields: list[tuple[int, int, int, int, int]] = []
    starts = [0]
    for index, instruction in enumerate(accelerator.instructions):
        if instruction.sequence:
            values[index][0] = 1  # under no mask: no word is one, as it is encoded by its parts
        for field in instruction.fields:
            word, lsb = divmod(field.lsb, 64)
            mask = ((1 << field.bits) - 1) << lsb
            covered[index][word] |= mask
            if field.value is not None:
                masks[index][word] |= mask
                values[index][word] |= field.value << lsb & mask
            column = names.setdefault(field.name, len(names))
            if field.bits == 0:
                continue  # its column stays zero, and no word can be shifted by its whole width
            fields.append((column, word, 64 - lsb - field.bits, 64 - field.bits, int(field.type == "signed")))
        starts.append(len(fields))
    has = np.zeros((len(masks), len(names)), np.int64)
    for index, (begin, end) in enumerate(pairwise(starts)):
        has[index, [column for column, *_ in fields[begin:end]]] = 1
    return EncodingArrays(
        np.array(masks, np.uint64),
        np.array(values, np.uint64),
        np.array(covered, np.uint64),
        np.array(fields, np.int64),
        np.array(starts, np.int64),
        has,
        tuple(names),
    )


def decode(accelerator: Accelerator, words: Words, first: int = 0) -> Decoded:
    """Decode ``words`` (n, word_bits / 64), little-endian words, word 0 first.

    ``first`` is the place in the program of the first of them.

    The sort of an instruction is the first of the document whose constant fields all hold.

    Raises:
        SimulationError: words of the wrong shape, or an instruction that is none of the document's.
    """
    if words.ndim != 2 or words.shape[1] != accelerator.word_bits // 64:
        raise SimulationError(f"instructions must be (n, {accelerator.word_bits // 64}) words; got {words.shape}")
    layout = encoding_arrays(accelerator)
    words, kind = np.require(words, np.uint64, ["C", "A", "W"]), np.empty(len(words), np.int16)
    undefined = kernel.classify_words(words, layout.masks, layout.values, kind)
    if undefined < len(words):
        raise _undefined(words[undefined], first + undefined)
    return Decoded(accelerator, kind, words, layout, first)


def decoded_again(accelerator: Accelerator, words: Words, kind: npt.NDArray[np.int16], first: int = 0) -> Decoded:
    """Returns what :func:`decode` found of words before, of which the ``kind`` (n,) is kept."""
    return Decoded(
        accelerator, kind, np.require(words, np.uint64, ["C", "A", "W"]), encoding_arrays(accelerator), first
    )


def _undefined(words: Words, at: int) -> SimulationError:
    value = " ".join(f"{int(word):016x}" for word in reversed(words))
    return SimulationError(
        f"instruction {at} is undefined: {value}", field=f"instruction:{at}", kind="undefined-opcode", instruction=at
    )


def decode_signatures() -> tuple[Signature, ...]:
    """Returns what decoding runs."""
    kind, matrix = Array("int16", 1), Array("uint64", 2)
    return (
        Signature(kernel.classify_words, matrix, matrix, matrix, kind),
        Signature(kernel.split_fields, kind, MATRIX, VECTOR, matrix, MATRIX, matrix),
        Signature(kernel.limit_fields, kind, MATRIX, VECTOR, matrix, VECTOR, VECTOR),
        Signature(kernel.pack_fields, kind, MATRIX, VECTOR, matrix, MATRIX, Array("uint8", 2)),
    )


def padding_fields(instruction: Instruction) -> tuple[str | None, ...]:
    """The names of the fields that pad a copy; of other instructions there are none."""
    if not isinstance(instruction, Copy):
        return ()
    fields = instruction.copy_fields
    return fields.pad_top, fields.pad_bottom, fields.pad_left, fields.pad_right
