"""What the passes ask of a document: which instruction contracts, and in which tiles."""

from collections.abc import Sequence
from dataclasses import dataclass

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Compute, Operation
from accel.accelerator.meanings import Meaning, meanings
from accel.accelerator.memories import Memory
from accel.accelerator.near_contraction import Axis, axis_roles, factors, refuse_all
from accel.expression.tree import Access

DATA_TYPES = ("int8", "uint8")
WEIGHT_TYPES = ("int8",)
_SWAPPED: dict[Axis, Axis] = {"m": "n", "n": "m", "k": "k"}


@dataclass(frozen=True)
class Tile:
    """One operand of a contraction: its name, its memory, and its two axes in their order, with extents.

    ``axes`` are of ``m`` (rows), ``n`` (output channels) and ``k`` (what is summed); one that the operand's element has
    not comes first, with extent 1.
    """

    name: str
    memory: Memory
    axes: tuple[Axis, Axis]
    shape: tuple[int, int]

    @property
    def elements(self) -> int:
        """Elements of the memory that one operand covers."""
        return self.shape[0] * self.shape[1] // self.memory.element_count

    def extent(self, axis: Axis) -> int:
        """Scalars along an axis."""
        return self.shape[self.axes.index(axis)]


@dataclass(frozen=True)
class Contraction:
    """The instruction that multiplies and accumulates: ``dst[m, n] += data[m, k] * weights[n, k]``.

    In its expression the first factor is the data, unless only the second can be by its type. ``zero`` is the operation
    of the same instruction that clears accumulators, ``overwrite`` the one that does the product with ``=``, if it has
    one.
    """

    instruction: Compute
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
    def macs(self) -> int:
        """Multiply-accumulates of one iteration."""
        return self.rows * self.out_channels * self.in_channels


def contraction(accelerator: Accelerator) -> Contraction:
    """The document's contraction: of several, the one with the largest tile.

    Raises:
        InvalidAccelerator: there is none; ``field`` is the path of the operation that comes nearest, or of all.
    """
    known = meanings(accelerator)
    found = [made for meaning in known if (made := _contraction(meaning, accelerator, known)) is not None]
    if not found:
        refuse_all(known, accelerator)
    return max(found, key=lambda made: made.macs)


def _contraction(meaning: Meaning, accelerator: Accelerator, known: Sequence[Meaning]) -> Contraction | None:
    statement, instruction = meaning.typed.statement, meaning.instruction
    product, roles = factors(statement.value), axis_roles(meaning, accelerator)
    if not isinstance(instruction, Compute) or product is None or isinstance(roles, str):
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
    access: Access, roles: dict[str, Axis], wanted: tuple[Axis, Axis], meaning: Meaning, accelerator: Accelerator
) -> Tile:
    assert isinstance(meaning.instruction, Compute)
    present = [roles[axis] for axis in access.axes]
    extents = {roles[axis]: extent for axis, extent in meaning.typed.extents.items() if axis in roles}
    first, second = [axis for axis in wanted if axis not in present] + present
    memory = accelerator.memory(meaning.instruction.operands[access.name].memory)
    shape = tuple(extents[axis] if axis in present else 1 for axis in (first, second))
    return Tile(access.name, memory, (first, second), (shape[0], shape[1]))
