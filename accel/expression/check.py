"""A statement against the tensors and scalars of an instruction."""

from collections.abc import Mapping
from dataclasses import dataclass

from accel.expression.element_types import ELEMENT_TYPES, TensorType
from accel.expression.errors import ExpressionError
from accel.expression.infer import Inference, Node
from accel.expression.tree import Access, Statement


@dataclass(frozen=True)
class Typed:
    """A statement that means something.

    Attributes:
        statement: as it was parsed.
        tensors: the target and the operands, and no other.
        scalars: element types of the scalars that the statement uses.
        extents: elements along each axis, the target's axes first, then the others, each in order of first use.
        value: the right side, with the type of every node.
    """

    statement: Statement
    tensors: Mapping[str, TensorType]
    scalars: Mapping[str, str]
    extents: Mapping[str, int]
    value: Node

    @property
    def dtype(self) -> str:
        """The element type of the target, and of what is summed."""
        return self.value.dtype


def check(statement: Statement, tensors: Mapping[str, TensorType], scalars: Mapping[str, str]) -> Typed:
    """The meaning of ``statement`` where its operands are ``tensors`` and the instruction's fields ``scalars``.

    Raises:
        ExpressionError: an unknown name, a wrong rank, an axis of two extents, a type that does not fit its place, a
            literal out of range, or a use of the target that has no one meaning.
    """
    _check_names(statement, tensors, scalars)
    _check_target(statement)
    _check_indices(statement)
    extents = _extents(statement, tensors)
    value = Inference(tensors, scalars).typed(statement.value, tensors[statement.target.name].dtype)
    names = dict.fromkeys((statement.target.name, *statement.operands))
    return Typed(
        statement,
        {name: tensors[name] for name in names},
        {name: scalars[name] for name in statement.scalars},
        extents,
        value,
    )


def _check_names(statement: Statement, tensors: Mapping[str, TensorType], scalars: Mapping[str, str]) -> None:
    for access in (statement.target, *statement.accesses):
        if access.name in tensors:
            continue
        if access.name in scalars:
            raise ExpressionError(f"found {access}, but {access.name} is a scalar; expected no brackets")
        raise ExpressionError(f"found the tensor {access.name}; expected {_one_of(tensors)}")
    for name in statement.scalars:
        if name in tensors and name not in scalars:
            example = "[...]" if tensors[name].shape else "[]"
            raise ExpressionError(f"found {name}, but it is a tensor; expected {name}{example}")
        if name not in scalars:
            raise ExpressionError(f"found the scalar {name}; expected {_one_of(scalars)}")
        if scalars[name] not in ELEMENT_TYPES:
            raise ExpressionError(f"the scalar {name} is {scalars[name]}; expected {_one_of(ELEMENT_TYPES)}")


def _one_of(names: Mapping[str, object] | tuple[str, ...]) -> str:
    return f"one of {', '.join(names)}" if names else "none, for there are none"


def _check_target(statement: Statement) -> None:
    target = statement.target
    if len(set(target.axes)) < len(target.axes):
        raise ExpressionError(f"the target {target} repeats an axis; expected each once")
    if not statement.reads_target:
        return
    if statement.accumulate:
        raise ExpressionError(f"'+=' reads {target.name} already; expected '=' where it is on the right as well")
    if statement.reduced:
        summed = ", ".join(statement.reduced)
        raise ExpressionError(f"the sum over {summed} reads its own target {target.name}; expected other operands")


def _check_indices(statement: Statement) -> None:
    """A tensor is read at one place an iteration, and the target where it is written."""
    places: dict[str, Access] = {statement.target.name: statement.target}
    for access in statement.accesses:
        first = places.setdefault(access.name, access)
        if first != access:
            raise ExpressionError(f"found {access} beside {first}; expected the same indices everywhere")


def _extents(statement: Statement, tensors: Mapping[str, TensorType]) -> dict[str, int]:
    extents: dict[str, int] = {}
    for access in (statement.target, *statement.accesses):
        shape = tensors[access.name].shape
        if len(access.indices) != len(shape):
            raise ExpressionError(f"{access} has {len(access.indices)} indices; expected {len(shape)}, one an axis")
        for index, extent in zip(access.indices, shape, strict=True):
            if isinstance(index, int):
                if index >= extent:
                    raise ExpressionError(f"{access} has the index {index}; expected at most {extent - 1}")
            elif extents.setdefault(index, extent) != extent:
                raise ExpressionError(f"axis {index} of {access} is {extent}; expected {extents[index]} as elsewhere")
    return {axis: extents[axis] for axis in statement.axes}
