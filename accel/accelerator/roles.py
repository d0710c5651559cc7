"""What the passes ask of a document: which instruction contracts, and in which tiles."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Compute, Operation
from accel.accelerator.meanings import Meaning, meanings
from accel.accelerator.memories import Memory
from accel.errors import InvalidAccelerator
from accel.expression.tree import Access, Binary, Cast, Expression

Axis = Literal["m", "n", "k"]


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

    In its expression the first factor is the data. ``zero`` is the operation of the same instruction that clears
    accumulators, if it has one.
    """

    instruction: Compute
    accumulate: Operation
    zero: Operation | None
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
        InvalidAccelerator: there is none.
    """
    known = meanings(accelerator)
    found = [made for meaning in known if (made := _contraction(meaning, accelerator, known)) is not None]
    if not found:
        raise InvalidAccelerator(
            "instructions: none multiplies and accumulates; one must do something like "
            "'C[i, j] += i32(A[i, k]) * i32(B[j, k])'",
            field="accelerator.instructions",
        )
    return max(found, key=lambda made: made.macs)


def _contraction(meaning: Meaning, accelerator: Accelerator, known: Iterable[Meaning]) -> Contraction | None:
    statement, instruction = meaning.typed.statement, meaning.instruction
    factors = _product(statement.value)
    if not isinstance(instruction, Compute) or factors is None or not statement.accumulate:
        return None
    data, weights = factors
    axes = [set(access.axes) for access in (statement.target, *factors)]
    roles: dict[str, Axis] = {}
    for axis in set().union(*axes):
        where = (axis in axes[0], axis in axes[1], axis in axes[2])
        role = {(True, True, False): "m", (True, False, True): "n", (False, True, True): "k"}.get(where)
        if role is None or role in roles.values():
            return None
        roles[axis] = role  # type: ignore[assignment]
    zero = f"{statement.target} = 0"
    return Contraction(
        instruction=instruction,
        accumulate=meaning.operation,
        zero=next(
            (m.operation for m in known if m.instruction is instruction and str(m.typed.statement) == zero), None
        ),
        dst=_tile(statement.target, roles, ("m", "n"), meaning, accelerator),
        data=_tile(data, roles, ("m", "k"), meaning, accelerator),
        weights=_tile(weights, roles, ("n", "k"), meaning, accelerator),
    )


def _product(value: Expression) -> tuple[Access, Access] | None:
    """The factors of ``a * b``, casts aside."""
    if not (isinstance(value, Binary) and value.operator == "*"):
        return None
    left, right = _uncast(value.left), _uncast(value.right)
    return (left, right) if isinstance(left, Access) and isinstance(right, Access) else None


def _uncast(value: Expression) -> Expression:
    return value.value if isinstance(value, Cast) else value


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
