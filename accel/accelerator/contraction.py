"""The contraction of a document: which operation it is and on which tiles, or why there is none."""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NoReturn

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Compute, Copy, Layer, Operation, Part
from accel.accelerator.memories import Memory
from accel.accelerator.require import require
from accel.accelerator.semantics import LayerSemantics, Semantics, all_layers, all_semantics, scalar_field
from accel.errors import InvalidAccelerator
from accel.expression.syntax_tree import Access, AffineIndex, Binary, Cast, Expression, Index, index_terms, walk
from accel.util.same_object import SameObject

Axis = Literal["m", "n", "k"]

_LIKE = "one must do something like 'C[i, j] += i32(A[i, k]) * i32(B[j, k])'"
_ROLES: dict[tuple[bool, ...], Axis] = {
    (True, True, False): "m",
    (True, False, True): "n",
    (False, True, True): "k",
}
_IN_ALL = "a depthwise product runs no layer by itself; an axis is in two of the three"


def factors(value: Expression) -> tuple[Access, Access] | None:
    """Returns the two factors of ``a * b`` without their casts; None for any other expression."""
    if not (isinstance(value, Binary) and value.operator == "*"):
        return None
    left, right = _uncast(value.left), _uncast(value.right)
    return (left, right) if isinstance(left, Access) and isinstance(right, Access) else None


def _uncast(value: Expression) -> Expression:
    return value.value if isinstance(value, Cast) else value


def axis_roles(meaning: Semantics, accelerator: Accelerator) -> dict[str, Axis] | str:
    """Returns the role of each axis of a contraction, or why the operation is no contraction.

    The reason is empty where the operation does not resemble one.
    """
    statement, instruction = meaning.typed.statement, meaning.instruction
    product = factors(statement.value)
    if not isinstance(instruction, Compute | Layer):
        return ""
    if product is None:
        return _no_product(statement.value)
    if statement.combiner != "+":
        return "'=' keeps no sum from one execution to the next; expected '+='"
    found: dict[str, Axis] = {}
    three = (statement.target, *product)
    slid: tuple[str, ...] = ()
    if statement.slides:
        sliding = _sliding(meaning, instruction, accelerator) if isinstance(instruction, Compute) else None
        if sliding is None:
            return f"it slides as no layer does; {_SLIDING}"
        slid = sliding.axes
    for axis in (axis for axis in statement.axes if axis not in slid):
        role = _ROLES.get(tuple(axis in access.axes for access in three))
        if role is None or role in found.values():
            return _wrong_axis(axis, role, found, three)
        found[axis] = role
    return _constant(meaning, instruction, three, accelerator) or found


_SLIDING = (
    "expected one index i + r or 2*i + r of the data, before those of an element, where i is such an index of the "
    "target alone and r of the weights alone, as in 'C[i, n] += i32(X[i + r, k]) * i32(W[r, n, k])'"
)


@dataclass(frozen=True)
class Slide:
    """What an operation does of a contraction at once: ``columns`` of a row of the result, ``taps`` of a kernel's row.

    Windows are one of ``strides`` apart, and the data of neighbouring taps one of ``dilations``, in elements. ``axes``
    are those of columns and taps.
    """

    instruction: str
    operation: str
    columns: int
    taps: int
    strides: range
    dilations: range
    axes: tuple[str, ...]


def _sliding(meaning: Semantics, compute: Compute, accelerator: Accelerator) -> Slide | None:
    """The slide of a product, in which an axis of the target is before those of an element; None for any other."""
    product = factors(meaning.typed.statement.value)
    found = (_slide(meaning, compute, accelerator, *pair) for pair in (product, product[::-1])) if product else ()
    return next((slide for slide in found if slide is not None), None)


def _slide(
    meaning: Semantics, compute: Compute, accelerator: Accelerator, data: Access, weights: Access
) -> Slide | None:
    def before(access: Access) -> tuple[Index, ...]:
        element = accelerator.memory(compute.operands[access.name].memory).shape
        return access.indices[: len(access.indices) - len(element)]

    extents, target = meaning.typed.extents, meaning.typed.statement.target
    inner = [index for access in (data, weights) for index in access.indices[len(before(access)) :]]
    (column, *more), (index, *others), taps = before(target) or (0,), before(data) or (0,), before(weights)
    if more or others or len(taps) > 1 or not isinstance(column, str):
        return None
    if any(isinstance(each, AffineIndex) for each in (*inner, *taps)) or (
        isinstance(index, AffineIndex) and index.offset
    ):
        return None
    steps = dict(index_terms(index))
    stride, tap = steps.pop(column, None), next((each for each in taps if isinstance(each, str)), None)
    dilation = 1 if tap is None else steps.pop(tap, None)
    if stride is None or dilation is None or steps or tap == column:
        return None

    def values(step: int | str) -> range:
        if isinstance(step, int):
            return range(step, step + 1)
        whole = scalar_field(accelerator, compute, step)
        fixed = meaning.operation.when.get(whole, accelerator.field(compute, whole).value)
        return range(1, accelerator.field(compute, whole).limits[1]) if fixed is None else range(fixed, fixed + 1)

    return Slide(
        compute.name,
        meaning.operation.name,
        extents[column],
        extents[tap] if tap is not None else 1,
        values(stride),
        values(dilation),
        (column,) if tap is None else (column, tap),
    )


def _no_product(value: Expression) -> str:
    inner = [node for node in walk(value) if isinstance(node, Binary) and node.operator == "*"]
    products = [node for node in inner if _reads(node.left) and _reads(node.right)]
    if not products:
        return ""
    if isinstance(value, Cast):
        return f"{products[0]} may go beyond its type before it is {value.to}; expected a cast of each factor"
    return f"{value} is not the product of two operands alone"


def _reads(value: Expression) -> bool:
    return any(isinstance(leaf, Access) for leaf in walk(value))


def _wrong_axis(axis: str, role: Axis | None, found: dict[str, Axis], three: Sequence[Access]) -> str:
    if role is not None:
        other = next(name for name, known in found.items() if known == role)
        return f"{other} and {axis} are in the same two of {_names(three)}; expected one axis for each two"
    inside = [access for access in three if axis in access.axes]
    if len(inside) == len(three):
        return f"{axis} is in all of {_names(three)}; {_IN_ALL}"
    return f"{axis} is in {_names(inside)} alone; an axis is in two of {_names(three)}"


def _names(accesses: Sequence[Access]) -> str:
    return ", ".join(str(access) for access in accesses)


def _constant(meaning: Semantics, compute: Compute | Layer, three: Sequence[Access], accelerator: Accelerator) -> str:
    """What is wrong with an index that is a number and leaves most of an element unread; empty where nothing is."""
    for access in three:
        shape = meaning.typed.tensors[access.name].shape
        element = len(accelerator.memory(compute.operands[access.name].memory).shape)
        for number, (index, extent) in enumerate(zip(access.indices, shape, strict=True)):
            if isinstance(index, int) and extent > 1 and number >= len(shape) - element:
                summed = "" if meaning.typed.statement.reduced else ", and no axis is summed"
                return f"{access} is always at {index} of {extent} along axis {number}{summed}; expected an axis there"
    return ""


def refuse_contraction(known: Sequence[Semantics], accelerator: Accelerator) -> NoReturn:
    """Refuses a document of which no operation is a contraction, at the one that comes nearest.

    Raises:
        InvalidAccelerator: always.
    """
    none = "none multiplies and accumulates"
    near = [meaning for meaning in known if axis_roles(meaning, accelerator)]
    for meaning in sorted(near, key=lambda meaning: factors(meaning.typed.statement.value) is None):
        instruction, why = meaning.instruction, axis_roles(meaning, accelerator)
        at = accelerator.instructions.index(instruction)
        number = [each.name for each in instruction.operations].index(meaning.operation.name)
        nearest = f"{none}; the nearest is {instruction.name}, which does {meaning.typed.statement}: {why}; {_LIKE}"
        require(condition=False, path=f"instructions.{at}.operations.{number}.does", message=nearest)
    raise InvalidAccelerator(f"instructions: {none}; {_LIKE}", field="accelerator.instructions")


DATA_TYPES = ("int8", "uint8")
WEIGHT_TYPES = ("int8",)
_SWAPPED: dict[Axis, Axis] = {"m": "n", "n": "m", "k": "k"}


@dataclass(frozen=True)
class Tile:
    """One operand of a contraction: its name, its memory, and its two axes in their order, with extents.

    ``axes`` are two of ``m`` (rows), ``n`` (output channels) and ``k`` (summed); an axis that the operand's element
    does not have comes first, with extent 1. ``blocks`` are the elements that a load takes of each row; of more than
    one, blocks of channels lie side by side in DRAM.
    """

    name: str
    memory: Memory
    axes: tuple[Axis, Axis]
    shape: tuple[int, int]
    blocks: int = 1

    @property
    def elements(self) -> int:
        """The elements of the memory that one operand covers."""
        return self.shape[0] * self.shape[1] // self.memory.element_count

    def extent(self, axis: Axis) -> int:
        """Returns the number of scalars along an axis."""
        return self.shape[self.axes.index(axis)]


@dataclass(frozen=True)
class WeightStage:
    """How weights come to a memory that no copy loads: ``instruction`` brings them from ``memory``, which one does."""

    instruction: Compute
    memory: Memory


@dataclass(frozen=True)
class Contraction:
    """The instruction that multiplies and accumulates: ``dst[m, n] += data[m, k] * weights[n, k]``.

    In its expression the first factor is the data, unless only the second can be by its type. ``zero`` is the operation
    of the same instruction that clears accumulators, ``overwrite`` the one that writes the product with ``=``; each may
    be None. Where it slides, tiles are those of one column and one tap, and ``slides`` are what operations under its
    pragma do at once, in the order of the document. ``stage`` is None where a copy loads the weights' memory.
    ``line`` is how many iterations the instruction makes, where the step of the data is in a register that stays from
    one execution to the next; 0 where it is not.
    Where the document has instructions as large as a layer and no smaller ones, it is what these repeat.
    """

    instruction: Compute | Layer
    accumulate: Operation
    zero: Operation | None
    overwrite: Operation | None
    dst: Tile
    data: Tile
    weights: Tile
    slides: tuple[Slide, ...] = ()
    stage: WeightStage | None = None
    line: int = 0

    @property
    def weights_loaded_to(self) -> Memory:
        """The memory into which copies load weights: where they are multiplied, or before."""
        return self.weights.memory if self.stage is None else self.stage.memory

    @property
    def rows(self) -> int:
        """Extent of m."""
        return self.dst.extent("m")

    @property
    def out_channels(self) -> int:
        """Extent of n."""
        return self.dst.extent("n")

    @property
    def in_channels(self) -> int:
        """Extent of k."""
        return self.data.extent("k")

    @property
    def sum_dtype(self) -> str:
        """The type of accumulators: int32 or wider."""
        return self.dst.memory.dtype

    @property
    def results_are_data(self) -> bool:
        """Whether int8 results lie in DRAM as the data of the next layer: their tiles have its axes and its type."""
        rows = {"m": "m", "n": "k"}  # a result's channels are summed by its reader
        alike = tuple(rows[axis] for axis in self.dst.axes) == self.data.axes and self.dst.shape == self.data.shape
        return alike and self.data.memory.dtype == "int8"

    @property
    def overwrites(self) -> bool:
        """Whether sums can begin with a product that overwrites: no loop of the instruction itself goes on with one."""
        instruction = self.instruction
        if self.overwrite is None or self.slides or not isinstance(instruction, Compute):
            return False
        return instruction.microops is None and all(loop.steps.get(self.dst.name) for loop in instruction.loops)

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one iteration, at most."""
        return self._element_macs * max((slide.columns * slide.taps for slide in self.slides), default=1)

    @property
    def _element_macs(self) -> int:
        return self.rows * self.out_channels * self.in_channels

    def macs_of(self, meaning: Semantics) -> int:
        """Returns the multiply-accumulates of one iteration of an operation; 0 of one that does not contract."""
        name, operation = meaning.instruction.name, meaning.operation
        for slide in self.slides:
            if (slide.instruction, slide.operation) == (name, operation.name):
                return self._element_macs * slide.columns * slide.taps
        return self._element_macs if (name, operation) == (self.instruction.name, self.accumulate) else 0


def contraction(accelerator: Accelerator, known: Sequence[Semantics] | None = None) -> Contraction:
    """Returns the document's contraction: of several, the one of integers with the largest tile.

    A vector unit's sum of products of floats is one too, and none that a layer can use.

    Args:
        accelerator: the document; of the latest ones it is worked out once.
        known: its semantics, where they have been made.

    Raises:
        InvalidAccelerator: there is none; ``field`` is the path of the operation that comes nearest, or of all.
    """
    return _of_document(SameObject(accelerator)) if known is None else _largest(accelerator, known)


@functools.lru_cache(maxsize=16)
def _of_document(same: SameObject[Accelerator]) -> Contraction:
    return _largest(same.value, all_semantics(same.value))


def _largest(accelerator: Accelerator, known: Sequence[Semantics]) -> Contraction:
    found = [candidate for meaning in known if (candidate := _contraction(meaning, accelerator, known)) is not None]
    layers = all_layers(accelerator) if not found else ()
    found += [candidate for layer in layers if (candidate := _repeated(layer, accelerator)) is not None]
    if not found:
        refuse_contraction((*known, *(layer.does for layer in layers)), accelerator)
    best = max(found, key=lambda candidate: (_is_of_integers(candidate), candidate.macs))
    best = replace(best, stage=_weight_stage(best.weights, known, accelerator), line=_line(best, accelerator))
    best = _with_blocks(best, accelerator)
    if not best.slides:
        return best
    return replace(best, slides=tuple(_slides_beside(best, known, accelerator)))


def _line(gemm: Contraction, accelerator: Accelerator) -> int:
    """Iterations of the loop whose step of the data is a field of a sticky part; 0 if there is none."""
    instruction = gemm.instruction
    if isinstance(instruction, Compute):
        sticky = (
            {part.name for part in accelerator.parts(instruction) if isinstance(part, Part) and part.sticky}
            if instruction.sequence
            else set()
        )
        for loop in instruction.loops:
            if loop.factors.get(gemm.data.name, "").partition(".")[0] in sticky:
                return loop.limit or (1 << accelerator.bits(instruction, loop.extent)) - 1
    return 0


def _with_blocks(gemm: Contraction, accelerator: Accelerator) -> Contraction:
    """The contraction with the blocks that loads take of its operands; results lie as the data of the next layer."""

    def blocks(memory: Memory) -> int:
        copy = accelerator.copy_instruction(memory.name, "load")
        return copy.blocks.most if copy is not None and copy.blocks is not None else 1

    if gemm.stage is None:
        gemm = replace(gemm, weights=replace(gemm.weights, blocks=blocks(gemm.weights.memory)))
    most = blocks(gemm.data.memory)
    if most > 1 and gemm.data.elements == 1 and gemm.results_are_data:
        gemm = replace(gemm, data=replace(gemm.data, blocks=most), dst=replace(gemm.dst, blocks=most))
    return gemm


def _loaded(memory: str, accelerator: Accelerator) -> bool:
    return any(
        isinstance(each, Copy) and (each.memory, each.direction) == (memory, "load")
        for each in accelerator.instructions
    )


def _weight_stage(weights: Tile, known: Sequence[Semantics], accelerator: Accelerator) -> WeightStage | None:
    """What brings elements of a memory that no copy loads, as they are, from one that a copy does load."""
    if _loaded(weights.memory.name, accelerator):
        return None
    for meaning in known:
        statement, instruction = meaning.typed.statement, meaning.instruction
        value, target = statement.value, statement.target
        if not isinstance(instruction, Compute) or not isinstance(value, Access) or statement.updates:
            continue
        memory = accelerator.memory(instruction.operands[value.name].memory)
        there = instruction.operands[target.name].memory == weights.memory.name
        alike = value.indices == target.indices and (memory.dtype, memory.shape) == (
            weights.memory.dtype,
            weights.memory.shape,
        )
        if there and alike and not target.slides and _loaded(memory.name, accelerator):
            return WeightStage(instruction, memory)
    return None


def _slides_beside(gemm: Contraction, known: Sequence[Semantics], accelerator: Accelerator) -> Iterator[Slide]:
    """The slides of operations under the pragma of a contraction that slides, on operands in the same memories."""
    for meaning in known:
        other = meaning.instruction
        if not isinstance(other, Compute) or other.pragma != gemm.instruction.pragma:
            continue
        slide = _sliding(meaning, other, accelerator) if meaning.typed.statement.combiner == "+" else None
        memories = [other.operands[name].memory for name in meaning.typed.tensors]
        if slide is not None and sorted(memories) == sorted(t.memory.name for t in (gemm.dst, gemm.data, gemm.weights)):
            yield slide


def _repeated(layer: LayerSemantics, accelerator: Accelerator) -> Contraction | None:
    """The contraction that a layer repeats, if it sums products: with its accumulators on the chip."""
    if layer.begins is None or layer.ends is None:
        return None
    found = _contraction(layer.does, accelerator, ())
    cleared = str(layer.begins.typed.statement) == f"{layer.does.typed.statement.target} = 0"
    return found if found is None or not cleared else replace(found, zero=layer.operation)


def _contraction(meaning: Semantics, accelerator: Accelerator, known: Sequence[Semantics]) -> Contraction | None:
    statement, instruction = meaning.typed.statement, meaning.instruction
    product, roles = factors(statement.value), axis_roles(meaning, accelerator)
    if not isinstance(instruction, Compute | Layer) or product is None or isinstance(roles, str):
        return None
    data, weights = product
    types = [meaning.typed.tensors[access.name].dtype for access in (data, weights)]
    if not _fit(*types) and _fit(*reversed(types)):
        data, weights = weights, data
        roles = {axis: _SWAPPED[role] for axis, role in roles.items()}
    same = {str(other.typed.statement): other.operation for other in known if other.instruction is instruction}
    slide = None
    if statement.slides and isinstance(instruction, Compute):
        slide = _sliding(meaning, instruction, accelerator)
    return Contraction(
        instruction=instruction,
        accumulate=meaning.operation,
        zero=same.get(f"{statement.target} = 0"),
        overwrite=same.get(f"{statement.target} = {statement.value}"),
        dst=_tile(statement.target, roles, ("m", "n"), meaning, accelerator),
        data=_tile(data, roles, ("m", "k"), meaning, accelerator),
        weights=_tile(weights, roles, ("n", "k"), meaning, accelerator),
        slides=() if slide is None else (slide,),
    )


def _is_of_integers(found: Contraction) -> bool:
    types = (tile.memory.dtype for tile in (found.data, found.weights, found.dst))
    return all(dtype.startswith(("int", "uint")) for dtype in types)


def _fit(data: str, weights: str) -> bool:
    return data in DATA_TYPES and weights in WEIGHT_TYPES


def _tile(
    access: Access, roles: dict[str, Axis], tile_axes: tuple[Axis, Axis], meaning: Semantics, accelerator: Accelerator
) -> Tile:
    assert isinstance(meaning.instruction, Compute | Layer)
    present = [roles[axis] for axis in access.axes if axis in roles]
    extents = {roles[axis]: extent for axis, extent in meaning.typed.extents.items() if axis in roles}
    first, second = [axis for axis in tile_axes if axis not in present] + present
    memory = accelerator.memory(meaning.instruction.operands[access.name].memory)
    shape = tuple(extents[axis] if axis in present else 1 for axis in (first, second))
    return Tile(access.name, memory, (first, second), (shape[0], shape[1]))
