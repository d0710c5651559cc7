"""What an accelerator can do after a contraction: each question is a store, put to the matcher that inject uses."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from tvm import tirx

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Compute, Copy
from accel.accelerator.meanings import Meaning, meanings
from accel.accelerator.roles import Contraction, contraction
from accel.accelerator.synchronisation import TokenSync
from accel.lowering.choose import choose
from accel.lowering.geometry import TENSOR_OPS, EpilogueOp, Scaling, Shifting
from accel.lowering.steps import PairOp

_SHIFT = 8  # bits of a byte plane
_FACTOR = 3  # of several, so that no shift does it


@dataclass(frozen=True)
class Capabilities:
    """The document's contraction, and its operations, checked once.

    ``answers`` are those given before: layers ask the same.
    """

    accelerator: Accelerator
    gemm: Contraction
    known: tuple[Meaning, ...]
    answers: dict[Hashable, str | None] = field(default_factory=dict, compare=False)

    @staticmethod
    def of(accelerator: Accelerator) -> "Capabilities":
        """Those of ``accelerator``.

        Raises:
            InvalidAccelerator: nothing in it contracts.
        """
        gemm = contraction(accelerator)
        known = tuple(meaning for meaning in meanings(accelerator) if _in_step(meaning.instruction, gemm, accelerator))
        return Capabilities(accelerator, gemm, known)

    def step(self, name: EpilogueOp, immediate: int) -> str | None:
        """The pragma of what does a step on the accumulators, or None; a tensor that it reads can be loaded."""

        def question() -> tirx.BufferStore:
            acc, other = self.accumulator("a"), self.accumulator("b")
            operand = other[0] if name in TENSOR_OPS else tirx.const(immediate, "int32")
            return tirx.BufferStore(acc, elementwise(acc[0], name, operand), [0])

        results = self.gemm.dst.memory
        if name in TENSOR_OPS and self.load(results.name, results.dtype) is None:
            return None
        return self._answer((name, immediate), question, Compute)

    def pair(self, name: PairOp) -> str | None:
        """The pragma of what does ``name`` of two accumulators in the place of the first, or None."""

        def question() -> tirx.BufferStore:
            acc, other = self.accumulator("a"), self.accumulator("b")
            return tirx.BufferStore(acc, combined(acc[0], name, other[0]), [0])

        return self._answer(("pair", name), question, Compute)

    def store(self, dtype: str, scaling: Scaling | Shifting | None = None) -> str | None:
        """The pragma of the copy that stores accumulators as ``dtype``, as ``scaling`` says or their low bits."""

        def question() -> tirx.BufferStore:
            value = stored(self.accumulator("a")[0], dtype, scaling)
            return tirx.BufferStore(tirx.decl_buffer((1,), dtype, "d"), value, [0])

        return self._answer(("store", dtype, scaling), question, Copy)

    def load(self, memory: str, dtype: str) -> str | None:
        """The pragma of the copy that loads ``dtype`` into a memory, extended if that is wider, or None."""

        def question() -> tirx.BufferStore:
            target = self.accelerator.memory(memory)
            value = tirx.decl_buffer((1,), dtype, "d")[0]
            into = tirx.decl_buffer((1,), target.dtype, "a", scope=target.scope)
            return tirx.BufferStore(into, value.astype(target.dtype), [0])

        return self._answer(("load", memory, dtype), question, Copy)

    @property
    def scales(self) -> bool:
        """Whether a store scales accumulators by a float."""
        return self.store("int8", Scaling(0.5, -128, 127)) is not None

    @property
    def multiplies(self) -> bool:
        """Whether accumulators can be multiplied, by an immediate or by a tensor, and then shifted to the right."""
        multiplied = self.step("multiply", _FACTOR) is not None or self.step("multiply_tensor", 0) is not None
        return multiplied and self.step("shift_right", _SHIFT) is not None

    @property
    def planes(self) -> bool:
        """Whether an int32 accumulator can leave as four byte planes."""
        return self.store("int8") is not None and self.step("shift_right", _SHIFT) is not None

    @property
    def offset(self) -> bool:
        """Whether the data in memory are more than the model's int8, as uint8 are."""
        return self.gemm.data.memory.dtype != "int8"

    def accumulator(self, name: str) -> Any:
        """A buffer of one accumulator."""
        memory = self.gemm.dst.memory
        return tirx.decl_buffer((1,), memory.dtype, name, scope=memory.scope)

    def _answer(
        self, key: Hashable, question: Callable[[], tirx.BufferStore], kind: type[Compute] | type[Copy]
    ) -> str | None:
        """The pragma of the first operation of that kind that does the store."""
        if key not in self.answers:
            known = [meaning for meaning in self.known if isinstance(meaning.instruction, kind)]
            choice = next(choose(question(), known, self.accelerator, []), None)
            self.answers[key] = None if choice is None else choice.meaning.instruction.pragma
        return self.answers[key]


def elementwise(value: tirx.Expr, name: EpilogueOp, operand: tirx.Expr) -> tirx.Expr:
    """One step of an epilogue on an int32; a negative shift to the right goes left."""
    if name == "shift_right":
        negative = int(operand) < 0
        return value << tirx.const(-int(operand), "int32") if negative else value >> operand
    if name in ("add", "add_tensor"):
        return value + operand
    if name in ("multiply", "multiply_tensor"):
        return value * operand
    return tirx.max(value, operand) if name == "max" else tirx.min(value, operand)


def combined(value: tirx.Expr, name: PairOp, other: tirx.Expr) -> tirx.Expr:
    """An operation on two int32."""
    if name in ("max", "min"):
        return tirx.max(value, other) if name == "max" else tirx.min(value, other)
    return value + other if name == "add" else value * other


def stored(value: tirx.Expr, dtype: str, scaling: Scaling | Shifting | None) -> tirx.Expr:
    """What a store makes of an int32 accumulator: scaled or shifted and clipped, or its low bits."""
    if scaling is None:
        return value.astype(dtype)
    if isinstance(scaling, Scaling):
        scaled, kind = tirx.nearbyint(value.astype("float32") * tirx.const(scaling.scale, "float32")), "float32"
    else:
        scaled, kind = _shifted(value, scaling), "int32"
    return narrowing(scaled, kind, (scaling.low, scaling.high))


def narrowing(value: tirx.Expr, kind: str, bounds: tuple[int, int]) -> tirx.Expr:
    """A value of type ``kind`` clipped to ``bounds``, as int8."""
    low, high = (tirx.const(bound, kind) for bound in bounds)
    return tirx.max(tirx.min(value, high), low).astype("int8")


def _shifted(value: tirx.Expr, shifting: Shifting) -> tirx.Expr:
    if shifting.rounds:
        value = value + tirx.const(1 << shifting.shift - 1, "int32")
    return value >> tirx.const(shifting.shift, "int32") if shifting.shift else value


def _in_step(instruction: Copy | Compute, gemm: Contraction, accelerator: Accelerator) -> bool:
    """Whether the contraction and what its accumulators go through next can wait for each other."""
    other = gemm.instruction
    if isinstance(instruction, Copy) or instruction.unit == other.unit:
        return True  # a copy that they cannot wait for is refused with the document
    if not isinstance(accelerator.synchronisation, TokenSync):
        return True
    ends = ((instruction.tokens, other.unit), (other.tokens, instruction.unit))
    return all(unit in tokens.pop and unit in tokens.push for tokens, unit in ends)
