"""The contraction of a document: which operation it is and on which tiles, or why there is none."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NoReturn

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Compute, Layer, Operation
from accel.accelerator.memories import Memory
from accel.accelerator.require import require
from accel.accelerator.semantics import LayerSemantics, Semantics, all_layers, all_semantics
from accel.errors import InvalidAccelerator
from accel.expression.syntax_tree import Access, Binary, Cast, Expression, walk

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
    for axis in statement.axes:
        role = _ROLES.get(tuple(axis in access.axes for access in three))
        if role is None or role in found.values():
            return _wrong_axis(axis, role, found, three)
        found[axis] = role
    return _constant(meaning, instruction, three, accelerator) or found


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
    does not have comes first, with extent 1.
    """

    name: str
    memory: Memory
    axes: tuple[Axis, Axis]
    shape: tuple[int, int]

    @property
    def elements(self) -> int:
        """The elements of the memory that one operand covers."""
        return self.shape[0] * self.shape[1] // self.memory.element_count

    def extent(self, axis: Axis) -> int:
        """Returns the number of scalars along an axis."""
        return self.shape[self.axes.index(axis)]


@dataclass(frozen=True)
class Contraction:
    """The instruction that multiplies and accumulates: ``dst[m, n] += data[m, k] * weights[n, k]``.

    In its expression the first factor is the data, unless only the second can be by its type. ``zero`` is the operation
    of the same instruction that clears accumulators, ``overwrite`` the one that writes the product with ``=``; each may
    be None. Where the document has instructions as large as a layer and no smaller ones, it is what these repeat.
    """

    instruction: Compute | Layer
    accumulate: Operation
    zero: Operation | None
    overwrite: Operation | None
    dst: Tile
    data: Tile
    weights: Tile

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
    def results_are_data(self) -> bool:
        """Whether int8 results lie in DRAM as the data of the next layer: their tiles have its axes and its type."""
        rows = {"m": "m", "n": "k"}  # a result's channels are summed by its reader
        alike = tuple(rows[axis] for axis in self.dst.axes) == self.data.axes and self.dst.shape == self.data.shape
        return alike and self.data.memory.dtype == "int8"

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one iteration."""
        return self.rows * self.out_channels * self.in_channels


def contraction(accelerator: Accelerator, known: Sequence[Semantics] | None = None) -> Contraction:
    """Returns the document's contraction: of several, the one with the largest tile.

    Args:
        accelerator: the document.
        known: its semantics, where they have been made.

    Raises:
        InvalidAccelerator: there is none; ``field`` is the path of the operation that comes nearest, or of all.
    """
    known = all_semantics(accelerator) if known is None else known
    found = [candidate for meaning in known if (candidate := _contraction(meaning, accelerator, known)) is not None]
    layers = all_layers(accelerator) if not found else ()
    found += [candidate for layer in layers if (candidate := _repeated(layer, accelerator)) is not None]
    if not found:
        refuse_contraction((*known, *(layer.does for layer in layers)), accelerator)
    return max(found, key=lambda candidate: candidate.macs)


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
    return Contraction(
        instruction=instruction,
        accumulate=meaning.operation,
        zero=same.get(f"{statement.target} = 0"),
        overwrite=same.get(f"{statement.target} = {statement.value}"),
        dst=_tile(statement.target, roles, ("m", "n"), meaning, accelerator),
        data=_tile(data, roles, ("m", "k"), meaning, accelerator),
        weights=_tile(weights, roles, ("n", "k"), meaning, accelerator),
    )


def _fit(data: str, weights: str) -> bool:
    return data in DATA_TYPES and weights in WEIGHT_TYPES


def _tile(
    access: Access, roles: dict[str, Axis], tile_axes: tuple[Axis, Axis], meaning: Semantics, accelerator: Accelerator
) -> Tile:
    assert isinstance(meaning.instruction, Compute | Layer)
    present = [roles[axis] for axis in access.axes]
    extents = {roles[axis]: extent for axis, extent in meaning.typed.extents.items() if axis in roles}
    first, second = [axis for axis in tile_axes if axis not in present] + present
    memory = accelerator.memory(meaning.instruction.operands[access.name].memory)
    shape = tuple(extents[axis] if axis in present else 1 for axis in (first, second))
    return Tile(access.name, memory, (first, second), (shape[0], shape[1]))
