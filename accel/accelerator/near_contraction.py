"""Whether an operation is a contraction, and what stands against it."""

from collections.abc import Sequence
from typing import Literal, NoReturn

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Compute
from accel.accelerator.meanings import Meaning
from accel.accelerator.require import require
from accel.errors import InvalidAccelerator
from accel.expression.tree import Access, Binary, Cast, Expression, walk

Axis = Literal["m", "n", "k"]

_LIKE = "one must do something like 'C[i, j] += i32(A[i, k]) * i32(B[j, k])'"
_ROLES: dict[tuple[bool, ...], Axis] = {
    (True, True, False): "m",
    (True, False, True): "n",
    (False, True, True): "k",
}
_IN_ALL = "a depthwise product runs no layer by itself; an axis is in two of the three"


def factors(value: Expression) -> tuple[Access, Access] | None:
    """The factors of ``a * b``, casts of them aside."""
    if not (isinstance(value, Binary) and value.operator == "*"):
        return None
    left, right = _uncast(value.left), _uncast(value.right)
    return (left, right) if isinstance(left, Access) and isinstance(right, Access) else None


def _uncast(value: Expression) -> Expression:
    return value.value if isinstance(value, Cast) else value


def axis_roles(meaning: Meaning, accelerator: Accelerator) -> dict[str, Axis] | str:
    """The role of each axis of a contraction, or why the operation is none; empty where it is nothing like one."""
    statement, instruction = meaning.typed.statement, meaning.instruction
    product = factors(statement.value)
    if not isinstance(instruction, Compute):
        return ""
    if product is None:
        return _no_product(statement.value)
    if not statement.accumulate:
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


def _constant(meaning: Meaning, compute: Compute, three: Sequence[Access], accelerator: Accelerator) -> str:
    """What is wrong with an index that is a number and leaves most of an element unread; empty where nothing is."""
    for access in three:
        shape = meaning.typed.tensors[access.name].shape
        element = len(accelerator.memory(compute.operands[access.name].memory).shape)
        for number, (index, extent) in enumerate(zip(access.indices, shape, strict=True)):
            if isinstance(index, int) and extent > 1 and number >= len(shape) - element:
                summed = "" if meaning.typed.statement.reduced else ", and no axis is summed"
                return f"{access} is always at {index} of {extent} along axis {number}{summed}; expected an axis there"
    return ""


def refuse_all(known: Sequence[Meaning], accelerator: Accelerator) -> NoReturn:
    """Refuse a document of which no operation is a contraction, at the one that comes nearest.

    Raises:
        InvalidAccelerator: always.
    """
    none = "none multiplies and accumulates"
    near = [meaning for meaning in known if axis_roles(meaning, accelerator)]
    for meaning in sorted(near, key=lambda meaning: factors(meaning.typed.statement.value) is None):
        instruction, why = meaning.instruction, axis_roles(meaning, accelerator)
        at, number = accelerator.instructions.index(instruction), instruction.operations.index(meaning.operation)
        nearest = f"{none}; the nearest is {instruction.name}, which does {meaning.typed.statement}: {why}; {_LIKE}"
        require(condition=False, path=f"instructions.{at}.operations.{number}.does", message=nearest)
    raise InvalidAccelerator(f"instructions: {none}; {_LIKE}", field="accelerator.instructions")
