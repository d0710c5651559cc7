"""What copies do to the elements that they move, as far as the compiler has a use for it."""

from typing import Literal

from accel.accelerator.meanings import Meaning
from accel.expression.infer import Node
from accel.expression.tree import Access, Binary, Call, Cast, Scalar
from accel.expression.tree import Literal as Number

Way = Literal["plain", "scaled", "shifted"]

_NEUTRAL = {"+": 0, "-": 0, "<<": 0, ">>": 0, "|": 0, "^": 0, "*": 1}  # the right side that changes nothing
_EITHER_SIDE = ("+", "*", "|", "^")
_HOLDING = ("clip", "min", "max", "relu")


def keeps_places(meaning: Meaning) -> bool:
    """Whether each scalar of a copy comes from where it goes, or from nowhere."""
    statement = meaning.typed.statement
    return all(access.indices == statement.target.indices for access in statement.accesses)


def way_of(meaning: Meaning) -> Way | None:
    """How a copy makes what it writes of what it reads; None: in a way that the compiler has no use for.

    ``plain``: as it is, or cast to the type of the target, with scalars at the number that changes nothing.
    ``scaled``: ``clip(rint(f32(x) * scale), low, high)``. ``shifted``: ``clip(x >> shift, low, high)``, where something
    may be added to x before. Bounds may stand as ``min``, ``max`` and ``relu``.
    """
    if meaning.typed.statement.accumulate or not keeps_places(meaning):
        return None
    value = _uncast(meaning.typed.value)
    if _unchanged(value):
        return "plain"
    held = _unheld(value)
    if _is_scaled(held):
        return "scaled"
    return "shifted" if held is not value and _is_shifted(held) else None


def _uncast(node: Node) -> Node:
    return node.children[0] if isinstance(node.expression, Cast) else node


def _unchanged(node: Node) -> bool:
    match node.expression:
        case Access():
            return True
        case Binary(operator) if operator in _NEUTRAL:
            left, right = node.children
            if _unchanged(left) and _may_be(right, _NEUTRAL[operator]):
                return True
            return operator in _EITHER_SIDE and _unchanged(right) and _may_be(left, _NEUTRAL[operator])
    return False


def _may_be(node: Node, number: int) -> bool:
    found = node.expression
    return isinstance(found, Scalar) or (isinstance(found, Number) and found.value == number)


def _unheld(node: Node) -> Node:
    """What is held within bounds: the argument of ``clip``, ``min``, ``max`` or ``relu`` that reads memory."""
    while isinstance(node.expression, Call) and node.expression.function in _HOLDING:
        reading = [child for child in node.children if _reads(child)]
        if len(reading) != 1:
            break
        node = reading[0]
    return node


def _reads(node: Node) -> bool:
    return isinstance(node.expression, Access) or any(_reads(child) for child in node.children)


def _is_scaled(node: Node) -> bool:
    if not (isinstance(node.expression, Call) and node.expression.function == "rint"):
        return False
    product = node.children[0]
    if not (isinstance(product.expression, Binary) and product.expression.operator == "*"):
        return False
    sides = [_uncast(side).expression for side in product.children]
    return any(isinstance(side, Access) for side in sides) and any(isinstance(side, Scalar) for side in sides)


def _is_shifted(node: Node) -> bool:
    return isinstance(node.expression, Binary) and node.expression.operator == ">>" and _reads(node.children[0])
