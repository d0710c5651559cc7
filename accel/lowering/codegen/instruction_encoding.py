"""Encoding: the calls of an allocated function become instruction words, all iterations of a call at once.

Where in a launch the instructions of each call stand is affine in the loops around it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tvm import tirx

from accel.accelerator.document import Accelerator
from accel.accelerator.field_bits import WORD_BITS, put_bits
from accel.accelerator.instructions import BitField, Layer
from accel.errors import CompiledTooLarge, CompileError
from accel.lowering.codegen.index_values import IndexValue, evaluate_index
from accel.lowering.codegen.relocatable_code import (
    CallSite,
    CheckedField,
    FieldOverflow,
    RegionCode,
    Relocation,
    field_overflow,
)
from accel.lowering.ir import instruction_calls
from accel.lowering.ir.affine_nest import constant_value
from accel.lowering.ir.document_paths import field_path
from accel.lowering.ir.layer_fields import fields_of_parts
from accel.program.program_model import MOST_INSTRUCTIONS
from accel.util.arrays import Int64

_NOT = np.array(0, np.int64)
_WORD = (1 << WORD_BITS) - 1


@dataclass(frozen=True)
class CallPosition:
    """A call's first instruction is number ``offset + sum(steps[k] * iteration of loops[k])``, outermost loop first."""

    call: tirx.Evaluate
    offset: int
    loops: tuple[tirx.For, ...] = ()
    steps: tuple[int, ...] = ()

    @property
    def extents(self) -> tuple[int, ...]:
        """Iterations of each loop."""
        return tuple(int(loop.extent) for loop in self.loops)

    @property
    def rows(self) -> Int64:
        """The numbers themselves, an axis a loop."""
        rows = np.array(self.offset, np.int64)
        for extent, step in zip(self.extents, self.steps, strict=True):
            rows = rows[..., None] + step * np.arange(extent, dtype=np.int64)
        return rows

    @property
    def variables(self) -> dict[tirx.Var, IndexValue]:
        """The values of the loops' variables, an axis a loop."""
        found = {}
        for axis, loop in enumerate(self.loops):
            shape = [1] * len(self.loops)
            shape[axis] = -1
            numbers = int(loop.min) + np.arange(int(loop.extent), dtype=np.int64)
            found[loop.loop_var] = IndexValue(numbers.reshape(shape), {})
        return found


def call_positions(body: Any, length: Callable[[tirx.Evaluate], int]) -> tuple[list[CallPosition], int]:
    """The position of every call in an allocated function's body, in program order, and how many instructions it has.

    Args:
        body: sequences, loops of constant extent, and calls.
        length: instructions that one run of a call makes.

    Raises:
        CompileError: any other statement.
    """
    if isinstance(body, tirx.SeqStmt):
        found: list[CallPosition] = []
        size = 0
        for child in body.seq:
            inner, count = call_positions(child, length)
            found += [replace(position, offset=position.offset + size) for position in inner]
            size += count
        return found, size
    if isinstance(body, tirx.For):
        inner, count = call_positions(body.body, length)
        around = [
            replace(position, loops=(body, *position.loops), steps=(count, *position.steps)) for position in inner
        ]
        return around, count * int(body.extent)
    if instruction_calls.is_call(body):
        return [CallPosition(body, 0)], length(body)
    raise CompileError(f"an allocated function has loops and calls only: {body}", field="instruction")


def encode(function: tirx.PrimFunc, accelerator: Accelerator) -> RegionCode:
    """The code of an allocated function.

    Raises:
        CompileError: a constant that its field cannot hold, a field that the instruction does not have, or a statement,
            an expression or a call without a site, none of which ``allocate`` leaves behind.
        CompiledTooLarge: more than ``MOST_INSTRUCTIONS``, counted before any is made.
    """
    return _Encoding(function, accelerator).code()


class _Encoding:
    """One function while its words are made."""

    def __init__(self, function: tirx.PrimFunc, accelerator: Accelerator) -> None:
        self.accelerator = accelerator
        self.parameters = list(function.params)
        self.bases = {base: IndexValue(np.array(0, np.int64), {base: np.array(1)}) for base in self.parameters}
        self.positions, count = call_positions(function.body, self._length)
        if count > MOST_INSTRUCTIONS:
            raise CompiledTooLarge(f"a layer takes {count} instructions; the limit is {MOST_INSTRUCTIONS}")
        self.words = np.zeros((count, accelerator.word_bits // WORD_BITS), np.uint64)
        self.origin = np.zeros(count, np.int32)
        self.sites: list[CallSite] = []
        self.fields: list[CheckedField] = []
        self.relocations: list[Relocation] = []
        self.overflows: list[FieldOverflow] = []

    def code(self) -> RegionCode:
        for position in self.positions:
            self._encode(position)
        return RegionCode(
            words=self.words,
            origin=self.origin,
            sites=tuple(self.sites),
            fields=tuple(self.fields),
            relocations=tuple(self.relocations),
            overflows=tuple(self.overflows),
        )

    def _length(self, call: tirx.Evaluate) -> int:
        return len(self.accelerator.parts(self.accelerator.instruction(instruction_calls.name_of(call))))

    def _encode(self, position: CallPosition) -> None:
        """The words of one call: in each iteration one for each part, after one another."""
        name, fields, _ = instruction_calls.parse(position.call)
        site = instruction_calls.site_of(position.call)
        if site is None:
            raise CompileError(f"a call of {name} has no site: the stage that adds it must number it", field=name)
        self.sites.append(CallSite(site, name))
        instruction = self.accelerator.instruction(name)
        if isinstance(instruction, Layer):
            fields = fields_of_parts(instruction, fields, self.accelerator)
        rows, variables = position.rows, position.variables | self.bases
        for number, part in enumerate(self.accelerator.parts(instruction)):
            prefix, lines, fixed, others = f"{part.name}." if instruction.sequence else "", rows + number, 0, []
            for field in part.fields:
                given = fields.pop(prefix + field.name, field.value or 0)
                value = _fixed(given, field)
                if value is None:
                    others.append((field, given))
                else:
                    fixed |= self._bits(part.name, field, value)
            pieces = [fixed >> at & _WORD for at in range(0, self.accelerator.word_bits, WORD_BITS)]
            self.words[lines] = np.array(pieces, np.uint64)
            for field, given in others:
                self._field(part.name, field, given, lines, variables)
            self.origin[lines] = len(self.sites) - 1
        if fields:
            raise CompileError(f"{name} has no field {sorted(fields)}", field=name)

    def _bits(self, instruction: str, field: BitField, number: int) -> int:
        """A constant where its field is in the instruction."""
        low, high = field.limits
        if not low <= number < high:
            raise self._checked(instruction, field).error(number)
        return (number & (1 << field.bits) - 1) << field.lsb

    def _field(
        self, instruction: str, field: BitField, given: Any, rows: Int64, variables: dict[tirx.Var, IndexValue]
    ) -> None:
        """Write a field that differs from one of the ``rows`` to the next, or leave it open."""
        value = evaluate_index(given, variables)
        numbers = np.broadcast_to(value.number, rows.shape).ravel()
        self.fields.append(self._checked(instruction, field))
        if value.multiples:
            self._relocate(rows, numbers, [value.multiples.get(base, _NOT) for base in self.parameters])
        else:
            self.overflows += field_overflow(len(self.fields) - 1, field, rows.ravel(), numbers)
            put_bits(self.words, rows.ravel(), field, numbers)

    def _relocate(self, rows: Int64, numbers: Int64, multiples: Sequence[Int64]) -> None:
        """Leave the last field open in all ``rows``; those that take as much of each address are one relocation."""
        number = len(self.fields) - 1
        if all(many.size == 1 for many in multiples):
            same = tuple(int(many.item()) for many in multiples)
            self.relocations.append(Relocation(number, rows.ravel(), numbers, same))
            return
        each = np.stack(np.broadcast_arrays(*multiples), axis=-1)  # of the few loops that it depends on
        kinds, kind_of = np.unique(each.reshape(-1, len(multiples)), axis=0, return_inverse=True)
        kind_of = np.broadcast_to(kind_of.reshape(each.shape[:-1]), rows.shape).ravel()
        for kind, same in enumerate(kinds.tolist()):
            places = np.flatnonzero(kind_of == kind)
            self.relocations.append(Relocation(number, rows.ravel()[places], numbers[places], tuple(same)))

    def _checked(self, instruction: str, field: BitField) -> CheckedField:
        return CheckedField(instruction, field, field_path(self.accelerator, instruction, field.name))


def _fixed(value: object, field: BitField) -> int | None:
    """The number that a constant puts into a field: of a float its bits."""
    if isinstance(value, tirx.FloatImm) and field.type == "float32":
        return int(np.float32(value.value).view(np.uint32))
    return constant_value(value)
