"""Encode: lower an allocated function once more, into stores of its instruction words.

The result is compiled by TVM for the host and run once a launch: no loop of the program is interpreted in Python.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import ir, tirx

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import BitField, Part
from accel.errors import CompileError
from accel.lowering import intrinsic
from accel.lowering.choose import field_range
from accel.lowering.nest import constant
from accel.lowering.paths import field_path
from accel.lowering.survey import instances, survey
from accel.lowering.walk import rewrite_calls

_WORD = 64


@dataclass(frozen=True)
class _Checked:
    """A field of an instruction that must hold a value; ``path`` is its place in the document."""

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
class Encoder:
    """A compiled region: call it with DRAM addresses to get its words.

    ``count`` is the number of instructions; ``sites`` names the instruction of each call site, and ``fields`` are those
    whose values are checked as they are made. ``sticky`` are the mask
    and the value of the constant bits of every part that sets registers, (parts, words_each) each.
    """

    name: str
    function: Any
    count: int
    words_each: int
    sites: tuple[str, ...]
    fields: tuple["_Checked", ...]
    sticky: tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]

    def __call__(self, bases: list[int]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int32]]:
        """Words ``(n, words_each)`` and the call site of each instruction ``(n,)``.

        There are ``count``, less those that would set registers to what they hold. ``bases`` are the tensors' DRAM
        addresses, in the unit of the copies that move them.

        Raises:
            CompileError: a value that its field cannot hold; the message names both.
        """
        words = tvm.runtime.tensor(np.zeros(self.count * self.words_each, dtype=np.uint64))
        sites = tvm.runtime.tensor(np.zeros(self.count, dtype=np.int32))
        state = tvm.runtime.tensor(np.zeros(2, dtype=np.int32))
        beyond = tvm.runtime.tensor(np.zeros(1, dtype=np.int64))
        self.function(*bases, words, sites, state, beyond)
        emitted, overflow = state.numpy().tolist()
        if overflow:
            raise self.fields[overflow - 1].error(int(beyond.numpy()[0]))
        if emitted != self.count:
            raise CompileError(f"{emitted} of {self.count} instructions were emitted", field=self.name)
        rows = words.numpy().reshape(self.count, self.words_each)
        kept = _needed(rows, self.sticky)
        return rows[kept], sites.numpy()[kept]


def _needed(
    words: npt.NDArray[np.uint64], sticky: tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]
) -> npt.NDArray[np.bool_]:
    """Which of the words (n, words_each) are not the same as the one before that sets the same registers."""
    kept = np.ones(len(words), np.bool_)
    for mask, value in zip(*sticky, strict=True):
        rows = np.flatnonzero(((words & mask) == value).all(axis=1))
        kept[rows[1:]] = (words[rows[1:]] != words[rows[:-1]]).any(axis=1)
    return kept


def _sticky(accelerator: Accelerator) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Mask and value of the constant bits of the parts that set registers."""
    parts = [part for part in accelerator.instructions if isinstance(part, Part) and part.sticky]
    found = np.zeros((2, len(parts), accelerator.word_bits // _WORD), np.uint64)
    for number, part in enumerate(parts):
        for field in part.fields:
            if field.value is not None:
                word, shift = divmod(field.lsb, _WORD)
                found[0, number, word] |= np.uint64(((1 << field.bits) - 1) << shift)
                found[1, number, word] |= np.uint64(field.value << shift)
    return found[0], found[1]


def compile_encoders(module: ir.IRModule, accelerator: Accelerator) -> dict[str, Encoder]:
    """Encoders of all allocated functions, by name, compiled together."""
    drafts = {}
    for variable, function in module.functions.items():
        name = str(variable.name_hint)
        drafts[name] = _Draft(name, function, accelerator)
    target = tvm.target.Target({"kind": "llvm", "opt-level": 0})  # it runs once: most of the time is the compiler's
    library = tvm.compile(ir.IRModule({name: draft.encoder() for name, draft in drafts.items()}), target=target)
    return {
        name: Encoder(
            name=name,
            function=library[name],
            count=draft.count,
            words_each=accelerator.word_bits // _WORD,
            sites=tuple(site.name for site in draft.view.sites),
            fields=tuple(draft.checked),
            sticky=_sticky(accelerator),
        )
        for name, draft in drafts.items()
    }


class _Draft:
    """One function on its way to an encoder."""

    def __init__(self, name: str, function: tirx.PrimFunc, accelerator: Accelerator) -> None:
        self.name = name
        self.source = function
        self.accelerator = accelerator
        self.view = survey(function, accelerator)
        parts = {site.name: len(accelerator.parts(accelerator.instruction(site.name))) for site in self.view.sites}
        self.count = sum(instances(site.loops) * parts[site.name] for site in self.view.sites)
        self.words_each = accelerator.word_bits // _WORD
        self.checked: list[_Checked] = []
        self.words = tirx.decl_buffer((self.count * self.words_each,), "uint64", "words")
        self.sites = tirx.decl_buffer((self.count,), "int32", "sites")
        self.state = tirx.decl_buffer((2,), "int32", "state")
        self.beyond = tirx.decl_buffer((1,), "int64", "beyond")

    def encoder(self) -> tirx.PrimFunc:
        """The function whose calls are stores of words."""
        body = rewrite_calls(self.source.body, self._stores)
        function = tirx.PrimFunc([*self.source.params, self.words, self.sites, self.state, self.beyond], body)
        return function.with_attr("global_symbol", self.name).with_attr("tirx.noalias", True)

    def _stores(self, site: int, call: tirx.Evaluate) -> tirx.Stmt:
        name, fields, _ = intrinsic.parse(call)
        instruction = self.accelerator.instruction(name)
        statements: list[tirx.Stmt] = []
        for part in self.accelerator.parts(instruction):
            prefix = f"{part.name}." if instruction.sequence else ""
            own = {
                field.name: fields.pop(prefix + field.name) for field in part.fields if prefix + field.name in fields
            }
            statements += self._word(site, part.name, part.fields, own)
        if fields:
            raise CompileError(f"{name} has no field {sorted(fields)}", field=self.name)
        return tirx.SeqStmt(statements)

    def _word(self, site: int, name: str, layout: tuple[BitField, ...], fields: dict[str, Any]) -> list[tirx.Stmt]:
        """The statements that put one instruction word where the next belongs."""
        fixed_bits = [0] * self.words_each
        varying: list[Any] = [None] * self.words_each
        checks: list[tirx.Stmt] = []
        for field in layout:
            value = fields.get(field.name, field.value or 0)
            word, shift = divmod(field.lsb, _WORD)
            if (fixed := _fixed(value, field)) is not None:
                self._check_constant(name, field, fixed)
                fixed_bits[word] |= (fixed & (1 << field.bits) - 1) << shift
            else:
                checks.append(self._check(name, field, value))
                bits = _bits(value, field.bits) << tirx.const(shift, "uint64")
                varying[word] = bits if varying[word] is None else varying[word] | bits
        position = self.state[0]
        words = [
            tirx.const(bits, "uint64") if expression is None else expression | tirx.const(bits, "uint64")
            for bits, expression in zip(fixed_bits, varying, strict=True)
        ]
        stores = [tirx.BufferStore(self.words, word, [position * self.words_each + i]) for i, word in enumerate(words)]
        mark = tirx.BufferStore(self.sites, tirx.const(site, "int32"), [position])
        advance = tirx.BufferStore(self.state, position + 1, [tirx.const(0, "int32")])
        return [*checks, *stores, mark, advance]

    def _check_constant(self, name: str, field: BitField, value: int) -> None:
        low, high = field_range(field)
        if not low <= value < high:
            raise self._checked(name, field).error(value)

    def _checked(self, name: str, field: BitField) -> _Checked:
        return _Checked(name, field, field_path(self.accelerator, name, field.name))

    def _check(self, name: str, field: BitField, value: tirx.Expr) -> tirx.Stmt:
        """Note the largest value, if any, that the field cannot hold; of several fields the first that has one."""
        self.checked.append(self._checked(name, field))
        low, high = field_range(field)
        wide = tirx.Cast("int64", value)
        outside = tirx.Or(wide < tirx.const(low, "int64"), wide >= tirx.const(high, "int64"))
        number, one, zero = (tirx.const(value, "int32") for value in (len(self.checked), 1, 0))
        ours = tirx.Or(self.state[1] == zero, self.state[1] == number)
        most = tirx.Select(self.state[1] == zero, wide, tirx.Max(self.beyond[0], wide))
        marks = [tirx.BufferStore(self.beyond, most, [zero]), tirx.BufferStore(self.state, number, [one])]
        return tirx.IfThenElse(tirx.And(outside, ours), tirx.SeqStmt(marks), None)


def _fixed(value: object, field: BitField) -> int | None:
    """The number that a constant puts into a field: of a float its bits."""
    if isinstance(value, tirx.FloatImm) and field.type == "float32":
        return int(np.float32(value.value).view(np.uint32))
    return constant(value)


def _bits(value: tirx.Expr, bits: int) -> tirx.Expr:
    mask = tirx.const((1 << bits) - 1, "uint64")
    return tirx.Cast("uint64", tirx.Cast("int64", value)) & mask
