"""What an accelerator can do after a contraction: each question is put to what inject uses.

Of arithmetic it is a nest over whole tiles, as an instruction may work on more than one element; of copies, which move
one element like the other, a store of one scalar.
"""

import itertools
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, get_args

from pydantic import TypeAdapter
from tvm import tirx

from accel.accelerator.contraction import Contraction
from accel.accelerator.document import Accelerator, TokenSync
from accel.accelerator.instructions import Compute, Copy, Layer, takes_windows
from accel.accelerator.row_functions import RowFunctionName
from accel.accelerator.semantics import Semantics
from accel.accelerator.target import Target
from accel.errors import CompileError
from accel.expression.element_types import bits_of
from accel.expression.syntax_tree import Binary, Call, Expression, Select, walk
from accel.expression.typecheck import TypedExpression
from accel.frontend.integer_recovery.requantization import WideProduct
from accel.frontend.integer_recovery.rounding_bias import ROUNDED, Rounded
from accel.lowering.analysis.float_units import float_room
from accel.lowering.inject.compute_injection import inject_compute
from accel.lowering.inject.operation_matching import matching_operations
from accel.lowering.ir.affine_nest import AffineNest, simplify
from accel.lowering.ir.epilogue_arithmetic import apply_pair, apply_steps, stored_value
from accel.region.epilogue import (
    INT8,
    TENSOR_OPS,
    ChannelFactors,
    ChannelOperand,
    EpilogueOp,
    IntegerGelu,
    Scaling,
    Shifting,
    Steps,
)
from accel.region.tile_steps import PairOp

_SHIFT = 8  # bits of a byte plane
_FACTOR = 3  # of several, so that no shift does it
_USUAL = 32  # bits
_WIDE_BITS = (64, 48)
_WIDE_FORMS: tuple[Literal["joined", "rounded"], ...] = ("rounded", "joined")
_WIDE_FACTORS = tuple((1 << bits) - 1 for bits in (31, 30, 24, 23, 18, 17, 16, 15))  # what fields may hold
_WIDE_SHIFTS = (31, 15, 16, 30, 32)  # one of which any machine has
_PRIMES = (5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103, 107, 109)


_SOME_GELU = IntegerGelu(-53, -3135)  # of numbers that are worth 0.047

_TENSOR_STEPS = {"add_tensor": "addition of a tensor", "multiply_tensor": "multiplication by a tensor"}

_ANSWERS = TypeAdapter(dict[str, tuple[int | None, str]])
Multiplication = Literal["multiply", "multiply at once", "multiply and round"]


@dataclass(frozen=True)
class CapabilityAnswer:
    """The operation that does what was asked for, or None; and ``why`` what comes nearest does not, if known."""

    meaning: Semantics | None
    why: str = ""

    @property
    def pragma(self) -> str | None:
        """The pragma of the operation's instruction."""
        return None if self.meaning is None else self.meaning.instruction.pragma


@dataclass(frozen=True)
class Capabilities:
    """The document's contraction, and its operations, checked once.

    ``answers`` are those given before: layers ask the same, as they do for ``tilings``. ``recalled`` are answers of
    another job on what is the same to lowering, by the text of the question: the place among ``known``, and why not.
    """

    target: Target
    gemm: Contraction
    known: tuple[Semantics, ...]
    answers: dict[Hashable, CapabilityAnswer] = field(default_factory=dict, compare=False)
    tilings: dict[Hashable, Any] = field(default_factory=dict, compare=False)
    recalled: dict[str, tuple[int | None, str]] = field(default_factory=dict, compare=False)

    @staticmethod
    def of(target: Target) -> "Capabilities":
        """Returns the capabilities of ``target``, made once.

        Raises:
            InvalidAccelerator: nothing in it contracts.
        """
        return target.derived(_capabilities)

    @property
    def accelerator(self) -> Accelerator:
        """The document."""
        return self.target.accelerator

    def step(self, name: EpilogueOp, immediate: int) -> str | None:
        """The pragma of what does a step on the accumulators, or None; a tensor that it reads can be loaded."""
        return self.steps(((name, immediate),)).pragma

    def steps(self, steps: Steps) -> CapabilityAnswer:
        """What does all of ``steps`` on the accumulators in one instruction; of those at most one reads a tensor."""
        results = self.gemm.dst.memory
        tensors = any(name in TENSOR_OPS for name, _ in steps)
        names = [name for name, _ in steps if name in ("widen", "narrow")]
        if names not in ([], ["widen", "narrow"]) or (names and (steps[0][0] != "widen" or _shared_clip(steps))):
            return CapabilityAnswer(None, "what is wider than the sums is no result of an instruction")
        if tensors and self.load(results.name, results.dtype_in_dram) is None:
            return CapabilityAnswer(None, f"no load brings a tensor of {results.dtype_in_dram} to {results.name}")
        return self._arithmetic(steps, lambda value, other: apply_steps(value, steps, other), shared=tensors)

    def pair(self, name: PairOp) -> CapabilityAnswer:
        """What does ``name`` of two accumulators in the place of the first."""
        return self._arithmetic(("pair", name), lambda value, other: apply_pair(value, name, other), shared=False)

    def store(self, dtype: str, scaling: Scaling | Shifting | None = None) -> str | None:
        """The pragma of the copy that stores accumulators as ``dtype``, as ``scaling`` says or their low bits."""
        return self.storing(dtype, scaling).pragma

    def storing(self, dtype: str, scaling: Scaling | Shifting | None = None) -> CapabilityAnswer:
        """The copy that stores accumulators so."""
        return self._copied(("store", dtype, scaling), self._stored(dtype, scaling))

    def store_of_windows(self, dtype: str, scaling: Scaling | Shifting | None) -> CapabilityAnswer:
        """The copy that stores of windows of accumulators the largest as ``dtype``, each as ``scaling`` says."""
        return self._copied(("windows", dtype, scaling), self._stored(dtype, scaling), windows=True)

    def _stored(self, dtype: str, scaling: Scaling | Shifting | None) -> Callable[[], tirx.BufferStore]:
        def question() -> tirx.BufferStore:
            channels = scaling.channels if isinstance(scaling, Shifting) else None
            read = {
                role: tirx.decl_buffer((1,), "int32", role, scope=self.accelerator.memory(memory).scope)[0]
                for role, memory in (() if channels is None else channels.operands)
            }
            value = stored_value(self.accumulator("a")[0], dtype, scaling, read)
            return tirx.BufferStore(tirx.decl_buffer((1,), dtype, "d"), value, [0])

        return question

    @cached_property
    def channel_factors(self) -> tuple[ChannelFactors, ...]:
        """The memories from which stores of accumulators may read a multiplier of each channel, and more.

        An element has one for each channel of a tile, a load fills it, and the store can wait for that.
        """
        found: dict[ChannelFactors, None] = {}
        stores = (each for each in self.accelerator.instructions if isinstance(each, Copy))
        for store in (each for each in stores if each.memory == self.gemm.dst.memory.name):
            memories = [operand.memory for operand in store.operands.values()]
            if not all(self._holds_channels(memory, store) for memory in memories):
                continue
            for order in itertools.permutations(memories):
                if len(order) == 1:
                    found[ChannelFactors(*order)] = None
                elif len(order) == len(("factor", "shift")):
                    found[ChannelFactors(order[0], shifts=order[1])] = None
                    found[ChannelFactors(order[0], bias=order[1])] = None
                elif len(order) == len(get_args(ChannelOperand)):
                    found[ChannelFactors(*order)] = None
        return tuple(found)

    def _holds_channels(self, name: str, store: Copy) -> bool:
        """Whether an element of a memory has a number of each channel of a tile, which a load brings before a store."""
        memory, load = self.accelerator.memory(name), self.accelerator.copy_instruction(name, "load")
        whole = (memory.dtype, memory.element_count) == ("int32", self.gemm.out_channels)
        return whole and load is not None and self.load(name, "int32") is not None and self._follows(store, load)

    def _follows(self, store: Copy, load: Copy) -> bool:
        """Whether a store and a load can wait for each other."""
        if store.unit == load.unit or not isinstance(self.accelerator.synchronisation, TokenSync):
            return True
        ends = ((store.tokens, load.unit), (load.tokens, store.unit))
        return all(unit in tokens.pop and unit in tokens.push for tokens, unit in ends)

    def load(self, memory: str, dtype: str) -> str | None:
        """The pragma of the copy that loads ``dtype`` into a memory, extended if that is wider, or None."""
        return self.loading(memory, dtype).pragma

    def loading(self, memory: str, dtype: str, *, adds: bool = False) -> CapabilityAnswer:
        """The copy that loads ``dtype`` into a memory, extended if that is wider; ``adds``: onto what is there."""

        def question() -> tirx.BufferStore:
            target = self.accelerator.memory(memory)
            value = tirx.decl_buffer((1,), dtype, "d")[0]
            into = tirx.decl_buffer((1,), target.dtype, "a", scope=target.scope)
            value = value.astype(target.dtype)
            return tirx.BufferStore(into, into[0] + value if adds else value, [0])

        return self._copied(("load", memory, dtype, *(("adds",) if adds else ())), question)

    @property
    def small(self) -> bool:
        """Whether instructions do single tiles, and not layers alone."""
        return not isinstance(self.gemm.instruction, Layer)

    @property
    def loads_pad(self) -> bool:
        """Whether loads of data put zeros around an image."""
        if isinstance(self.gemm.instruction, Layer):
            windows = self.gemm.instruction.operands[self.gemm.data.name].windows
            return len(windows) > 1 and all(window.before is not None for window in windows)
        copy = self.accelerator.copy_instruction(self.gemm.data.memory.name, "load")
        return copy is not None and None not in (copy.copy_fields.pad_top, copy.copy_fields.pad_left)

    @property
    def reads_runs(self) -> bool:
        """Whether loads of data begin at any byte, in what vector programs store: rows of taps are runs there."""
        copy = self.accelerator.copy_instruction(self.gemm.data.memory.name, "load")
        if copy is None or copy.dram_unit != "byte" or copy.copy_fields.row_stride is None or self.gemm.slides:
            return False
        return self.gemm.data.memory.dtype == "int8" and float_room(self.target) > 0

    @property
    def scales(self) -> bool:
        """Whether a store scales accumulators by a float."""
        return self.store("int8", Scaling(0.5, -128, 127)) is not None

    @property
    def stores_gelu(self) -> bool:
        """Whether a store computes I-BERT's integer GELU of accumulators before it scales them."""
        return self.store("int8", Scaling(-0.5, *INT8, gelu=_SOME_GELU)) is not None

    def row_store(self, function: RowFunctionName) -> Copy | None:
        """The store of a function of whole rows of accumulators that takes several blocks at once, or None."""
        stores = (each for each in self.accelerator.instructions if isinstance(each, Copy) and each.rows is not None)
        ours = (each for each in stores if each.memory == self.gemm.dst.memory.name and each.blocks is not None)
        return next((each for each in ours if each.rows is not None and each.rows.function == function), None)

    @property
    def stores_softmax(self) -> bool:
        """Whether a store computes softmax of rows of accumulators."""
        return self.row_store("softmax") is not None

    @property
    def stores_layer_norm(self) -> bool:
        """Whether a store computes layer norm of rows of accumulators."""
        return self.row_store("layer_norm") is not None

    @cached_property
    def wide_product(self) -> WideProduct | None:
        """The multiplication and shift in one instruction of which the product has more than 32 bits; None if none."""
        own = bits_of(self.gemm.sum_dtype)
        for bits in (own,) if own > _USUAL else (each for each in _WIDE_BITS if self._computes_in(f"int{each}")):
            for form in _WIDE_FORMS:

                def does(factor: int, shift: int, bits: int = bits, form: Literal["joined", "rounded"] = form) -> bool:
                    return self._multiplies_widely(bits, form, factor, shift)

                most = next((each for each in _WIDE_FACTORS if any(does(each, shift) for shift in _WIDE_SHIFTS)), 0)
                if most:
                    shifts = [shift for shift in range(1, bits - 1) if does(most, shift)]
                    return WideProduct(bits, own <= _USUAL, form, most, shifts[0], shifts[-1])
        return None

    def _computes_in(self, dtype: str) -> bool:
        """Whether an expression has something of a type."""

        def has(node: TypedExpression) -> bool:
            return node.dtype == dtype or any(map(has, node.children))

        return any(has(meaning.typed.value) for meaning in self.known)

    def _multiplies_widely(self, bits: int, form: Literal["joined", "rounded"], factor: int, shift: int) -> bool:
        """Whether one instruction multiplies by ``factor`` or a tensor, and shifts, in so many bits."""
        product = 0 if bits == bits_of(self.gemm.sum_dtype) else bits
        rounds = form == "rounded"
        for narrows in (False, True) if product else (False,):
            stored = Shifting(shift, *INT8, rounds, factor, product=product, narrows=narrows)
            by_channel = (replace(stored, factor=1, channels=each) for each in self.channel_factors)
            if any(self.store("int8", way) is not None for way in (stored, *by_channel)):
                return True
        half: Steps = (("add", 1 << shift - 1),) if rounds else ()
        wide: Steps = (("widen", product),) if product else ()
        narrow: Steps = (("narrow", 0),) if product else ()
        clip: Steps = (("max", INT8[0]), ("min", INT8[1]))
        for by in (("multiply", factor), ("multiply_tensor", 0)):
            steps: Steps = (*wide, by, *half, ("shift_right", shift))
            for ending in ((*narrow,), (*narrow, *clip), (*clip, *narrow)):
                if self.steps((*steps, *ending)).pragma:
                    return True
        return False

    @cached_property
    def multiplies_channels(self) -> bool:
        """Whether what multiplies and shifts at once takes a multiplier of each channel."""
        wide = self.wide_product
        bits = wide.bits if wide is not None and wide.widens else 0
        shift = _SHIFT if wide is None else wide.last
        for rounds, narrows, each in itertools.product((False, True), (False, True), self.channel_factors):
            way = Shifting(shift, *INT8, rounds, product=bits, narrows=narrows and bits > 0, channels=each)
            if self.store("int8", way) is not None:
                return True
        half = 1 << shift - 1
        before: Steps = (("widen", wide.bits),) if wide is not None and wide.widens else ()
        behind: Steps = (("narrow", 0),) if before else ()
        clip: Steps = (("max", INT8[0]), ("min", INT8[1]))
        roundings: tuple[Steps, ...] = ((), (("add", half),))
        for rounding in roundings:
            steps: Steps = (*before, ("multiply_tensor", 0), *rounding, ("shift_right", shift))
            if any(self.steps((*steps, *end)).pragma for end in (behind, (*behind, *clip), (*clip, *behind))):
                return True
        return False

    @property
    def multiplies(self) -> Multiplication | None:
        """How accumulators are multiplied, by an immediate or by a tensor, and shifted to the right; None if not.

        One after the other (``multiply``); or in one instruction, which may be a store, without what rounds
        (``multiply at once``) or with it (``multiply and round``).
        """
        products: Steps = (("multiply", _FACTOR), ("multiply_tensor", 0))
        shift: Steps = (("shift_right", _SHIFT),)
        half: Steps = (("add", 1 << _SHIFT - 1),)
        if any(self.step(*product) for product in products) and self.step(*shift[0]):
            return "multiply"
        ways: tuple[tuple[Multiplication, Steps], ...] = (("multiply at once", ()), ("multiply and round", half))
        for way, rounding in ways:
            stored = Shifting(_SHIFT, *INT8, bool(rounding), _FACTOR)
            by_channel = (replace(stored, factor=1, channels=each) for each in self.channel_factors)
            if any(self.store("int8", each) is not None for each in (stored, *by_channel)):
                return way
            for product in products:
                whole = (product, *rounding, *shift)
                if self.steps(whole).pragma or self.steps((*whole, ("max", INT8[0]), ("min", INT8[1]))).pragma:
                    return way
        return None

    @property
    def balances(self) -> frozenset[Rounded]:
        """The operators in which what rounds can be another number for each channel.

        On the host it always can: where it requantises, or runs what adds any constant.
        """
        shifting = (Shifting(_SHIFT, *INT8, rounds) for rounds in (False, True))
        narrows = self.scales or any(self.store("int8", way) is not None for way in (None, *shifting))
        if self.step("add_tensor", 0) is not None or not (narrows or self.multiplies):
            return ROUNDED
        found: set[Rounded] = {"elementwise"} if self.scales and self.step("add", 1) is None else set()
        if self.load(self.gemm.dst.memory.name, self.gemm.dst.memory.dtype_in_dram) is not None:
            found |= {"layer", "addition"}
        return frozenset(found)

    @cached_property
    def fuses(self) -> bool:
        """Whether an instruction does more than one step of an epilogue."""
        computes = (meaning for meaning in self.known if isinstance(meaning.instruction, Compute))
        return any(_operations(meaning.typed.statement.value) > 1 for meaning in computes)

    def lacks(self, name: EpilogueOp, immediate: int) -> str:
        """Says why no instruction does a step."""
        wanted = _TENSOR_STEPS.get(name, f"{name} by {immediate}")
        why = self.steps(((name, immediate),)).why
        return f"{self.accelerator.title} has no {wanted} on its accumulators{f': {why}' if why else ''}"

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

    def _copied(
        self, key: Hashable, question: Callable[[], tirx.BufferStore], *, windows: bool = False
    ) -> CapabilityAnswer:
        """The first copy that does the store, of those that take ``windows`` or of those that do not."""
        if key not in self.answers and not self._recall(key):
            copies = (meaning for meaning in self.known if isinstance(meaning.instruction, Copy | Layer))
            known = [meaning for meaning in copies if takes_windows(meaning.instruction) == windows]
            choice = next(matching_operations(_as_compiled(question()), known, self.target), None)
            self.answers[key] = CapabilityAnswer(None if choice is None else choice.meaning)
        return self.answers[key]

    def _arithmetic(
        self, key: Hashable, value: Callable[[tirx.Expr, tirx.Expr], tirx.Expr], *, shared: bool
    ) -> CapabilityAnswer:
        """The first operation that does ``value`` of accumulators and of others, in the place of the first."""
        if key not in self.answers and not self._recall(key):
            nest, why = self._nest(value, shared=shared), ""
            known = [meaning for meaning in self.known if isinstance(meaning.instruction, Compute)]
            for choice in matching_operations(nest.store, known, self.target):
                try:
                    inject_compute(nest, [choice.meaning], self.target)
                except CompileError:
                    why = why or self._unlike(choice.meaning)
                else:
                    self.answers[key] = CapabilityAnswer(choice.meaning)
                    break
            else:
                self.answers[key] = CapabilityAnswer(None, why)
        return self.answers[key]

    def _recall(self, key: Hashable) -> bool:
        """Whether another job has answered."""
        if (answer := self.recalled.get(repr(key))) is None:
            return False
        place, why = answer
        self.answers[key] = CapabilityAnswer(None if place is None else self.known[place], why)
        return True

    def recall(self, dump: bytes) -> None:
        """Take the answers of :meth:`dump`, which another job gave on what is the same to lowering.

        Raises:
            ValueError: they are none.
        """
        answers = _ANSWERS.validate_json(dump)
        if any(place is not None and not 0 <= place < len(self.known) for place, _ in answers.values()):
            raise ValueError("an answer names no operation")
        self.recalled.update(answers)

    def dump(self) -> bytes:
        """Returns all answers as JSON."""
        return _ANSWERS.dump_json({**self.recalled, **self._given_since(0)})

    def dump_since(self, count: int) -> bytes:
        """Returns the answers behind the first ``count``, for :meth:`recall`."""
        return _ANSWERS.dump_json(self._given_since(count))

    def _given_since(self, count: int) -> dict[str, tuple[int | None, str]]:
        places = {id(meaning): place for place, meaning in enumerate(self.known)}
        return {
            repr(key): (None if answer.meaning is None else places[id(answer.meaning)], answer.why)
            for key, answer in itertools.islice(self.answers.items(), count, None)
        }

    @property
    def asked_anew(self) -> bool:
        """Whether there are answers that were not recalled."""
        return not {repr(key) for key in self.answers} <= self.recalled.keys()

    def _nest(self, value: Callable[[tirx.Expr, tirx.Expr], tirx.Expr], *, shared: bool) -> AffineNest:
        """The nest of ``value`` over some tiles; what does it does any tiles.

        No loop around a tile is a multiple of an axis of an instruction. ``shared``: one tile of the others is for
        several of the accumulators.
        """
        shape, count = self.gemm.dst.shape, self._unlike_count
        names = [tirx.Var(name, "int32") for name in ("c", "x", "first", "second")]
        loops = [(name, extent) for name, extent in zip(names, (count, count, *shape), strict=True) if extent > 1]
        inside = sum((names[2 + at] * math.prod(shape[at + 1 :]) for at in range(2) if shape[at] > 1), start=0)

        def place(pitch: int, along: int) -> tirx.Expr:
            return (names[0] * pitch + names[1] * along) * math.prod(shape) + inside

        acc, other = self.accumulator("a"), self.accumulator("b")
        at, beside = place(count + 1, 1), place(1, 0) if shared else place(count + 2, 1)
        store = _as_compiled(tirx.BufferStore(acc, value(acc[at], other[beside]), [at]))
        return AffineNest(tuple(name for name, _ in loops), tuple(extent for _, extent in loops), store)

    @cached_property
    def _unlike_count(self) -> int:
        """A prime that no axis of an instruction is as long as."""
        extents = {extent for meaning in self.known for extent in meaning.typed.extents.values()}
        return next(prime for prime in _PRIMES if prime not in extents)

    def _unlike(self, meaning: Semantics) -> str:
        """Why an operation that does the right thing does not do it to a tile of the contraction."""
        name, statement = meaning.instruction.name, meaning.typed.statement
        wide, tile = meaning.typed.tensors[statement.target.name].shape, self.gemm.dst.shape
        if math.prod(tile) % math.prod(wide):
            works = f"{name} works on {_size(wide)} of {self.gemm.dst.memory.name} at once"
            return f"{works}, and a tile of {self.gemm.instruction.name} has {_size(tile)}"
        return f"{name} does {statement}, which does not walk a tile of {self.gemm.instruction.name} as it lies"


def _capabilities(target: Target) -> Capabilities:
    gemm, accelerator = target.contraction, target.accelerator
    known = tuple(meaning for meaning in target.semantics if _in_step(meaning.instruction, gemm, accelerator))
    if isinstance(gemm.instruction, Layer):  # how its sums begin and end is what other machines have copies for
        layers = [meaning for meaning in target.layers if meaning.instruction is gemm.instruction and meaning.sums]
        known += tuple(each for meaning in layers for each in (meaning.begins, meaning.ends) if each is not None)
    return Capabilities(target, gemm, known)


def _shared_clip(steps: Steps) -> bool:
    """Whether a wide product is narrowed between the bounds of a clip, as nothing is written."""
    at = steps.index(("narrow", 0))
    return at + 1 < len(steps) and steps[at - 1][0] in ("max", "min")


def _as_compiled(store: tirx.BufferStore) -> tirx.BufferStore:
    """The store as the stage ``flatten`` leaves it, which simplifies: bounds beyond others are dropped, say."""
    return tirx.BufferStore(store.buffer, simplify(store.value), list(store.indices))


def _operations(value: Expression) -> int:
    """Operations of an expression; a clip is two."""
    found = [node for node in walk(value) if isinstance(node, Binary | Call | Select)]
    return sum(2 if isinstance(node, Call) and node.function == "clip" else 1 for node in found)


def _size(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))


def _in_step(instruction: Copy | Compute | Layer, gemm: Contraction, accelerator: Accelerator) -> bool:
    """Whether the contraction and what its accumulators go through next can wait for each other."""
    other = gemm.instruction
    if isinstance(instruction, Copy) or instruction.unit == other.unit:
        return True  # a copy that they cannot wait for is refused with the document
    if not isinstance(accelerator.synchronisation, TokenSync):
        return True
    ends = ((instruction.tokens, other.unit), (other.tokens, instruction.unit))
    return all(unit in tokens.pop and unit in tokens.push for tokens, unit in ends)
