"""Encode: the calls of an allocated function become instruction words, all iterations of a call at once.

The function is a tree of sequences and loops around calls, so the place of each instruction is affine in the loops
(``positions.py``), and so are the DRAM addresses in its fields: they are left to be filled in (``region_code.py``).
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import tirx

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import BitField
from accel.errors import CompiledTooLarge, CompileError
from accel.lowering import intrinsic
from accel.lowering.evaluate import Value, evaluate
from accel.lowering.nest import constant
from accel.lowering.paths import field_path
from accel.lowering.positions import Position, positions
from accel.lowering.region_code import WORD, CallSite, Checked, Overflow, RegionCode, Relocation, overflow, put
from accel.program import MOST_INSTRUCTIONS

Rows = npt.NDArray[np.int64]


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
        self.bases = {base: Value(np.array(0, np.int64), {base: 1}) for base in self.parameters}
        self.positions, count = positions(function.body, self._length)
        if count > MOST_INSTRUCTIONS:
            raise CompiledTooLarge(f"a layer takes {count} instructions; the limit is {MOST_INSTRUCTIONS}")
        self.words = np.zeros((count, accelerator.word_bits // WORD), np.uint64)
        self.origin = np.zeros(count, np.int32)
        self.sites: list[CallSite] = []
        self.fields: list[Checked] = []
        self.relocations: list[Relocation] = []
        self.overflows: list[Overflow] = []

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
        return len(self.accelerator.parts(self.accelerator.instruction(intrinsic.parse(call)[0])))

    def _encode(self, position: Position) -> None:
        """The words of one call: in each iteration one for each part, after one another."""
        name, fields, _ = intrinsic.parse(position.call)
        site = intrinsic.site_of(position.call)
        if site is None:
            raise CompileError(f"a call of {name} has no site: the stage that adds it must number it", field=name)
        self.sites.append(CallSite(site, name))
        instruction = self.accelerator.instruction(name)
        rows, variables = position.rows, position.variables | self.bases
        for number, part in enumerate(self.accelerator.parts(instruction)):
            prefix = f"{part.name}." if instruction.sequence else ""
            for field in part.fields:
                value = fields.pop(prefix + field.name, field.value or 0)
                self._field(part.name, field, value, rows + number, variables)
            self.origin[rows + number] = len(self.sites) - 1
        if fields:
            raise CompileError(f"{name} has no field {sorted(fields)}", field=name)

    def _field(
        self, instruction: str, field: BitField, given: Any, rows: Rows, variables: dict[tirx.Var, Value]
    ) -> None:
        fixed = _fixed(given, field)
        if fixed is not None:
            low, high = field.limits
            if not low <= fixed < high:
                raise self._checked(instruction, field).error(fixed)
            if fixed:
                put(self.words, rows.ravel(), field, np.array(fixed, np.int64))
            return
        value = evaluate(given, variables)
        numbers = np.broadcast_to(value.number, rows.shape).ravel()
        self.fields.append(self._checked(instruction, field))
        if value.multiples:
            multiples = tuple(value.multiples.get(base, 0) for base in self.parameters)
            self.relocations.append(Relocation(len(self.fields) - 1, rows.ravel(), numbers, multiples))
        else:
            self.overflows += overflow(len(self.fields) - 1, field, rows.ravel(), numbers)
            put(self.words, rows.ravel(), field, numbers)

    def _checked(self, instruction: str, field: BitField) -> Checked:
        return Checked(instruction, field, field_path(self.accelerator, instruction, field.name))


def _fixed(value: object, field: BitField) -> int | None:
    """The number that a constant puts into a field: of a float its bits."""
    if isinstance(value, tirx.FloatImm) and field.type == "float32":
        return int(np.float32(value.value).view(np.uint32))
    return constant(value)
