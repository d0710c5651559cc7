"""The description of an uploaded model, and the extents that a run sets its dynamic axes to.

Importing this does not load onnx.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import pydantic
from pydantic import Field

from accel.errors import InvalidAxes


class ModelTensor(pydantic.BaseModel):
    """An input or output of a model as uploaded."""

    name: str
    dtype: str
    shape: tuple[int | str | None, ...] = Field(
        description="an extent for each axis; of a dynamic axis its name, or null if it has none", examples=[[1, 3, 32]]
    )


CONVERTED = frozenset(("float16", "bfloat16", "float64"))
"""The types of floats, as numpy calls them, that become float32 when a model is read."""


class TensorInfo(ModelTensor):
    """A tensor of known extents."""

    shape: tuple[int, ...]

    @property
    def accepted(self) -> tuple[str, ...]:
        """The element types in which it can be given: the model's own, and float32 for a float that becomes that."""
        return (self.dtype, "float32") if self.dtype in CONVERTED else (self.dtype,)


class ModelContents(pydantic.BaseModel):
    """What is in a model. ``operators`` counts the nodes of each type; ``parameters`` the elements of the constants."""

    format: Literal["float", "qdq"]
    opset: int
    inputs: Sequence[ModelTensor]
    outputs: Sequence[ModelTensor]
    operators: dict[str, int]
    nodes: int
    macs: int | None = Field(
        description="multiply-accumulates, with 1 for every dynamic axis; null if the model does not work so"
    )
    parameters: int


class ModelInfo(ModelContents):
    """What is in a model once its axes are set.

    ``unset`` says which of them are 1 because nothing set them, and ``converted`` the types of floats that were made
    float32. Inputs and outputs are described in the types that the model states.
    """

    inputs: list[TensorInfo]
    outputs: list[TensorInfo]
    macs: int
    unset: tuple[str, ...] = ()
    converted: tuple[str, ...] = ()


@dataclass(frozen=True)
class Axes:
    """The extents that a run sets: of dynamic axes by the axes' names, and of inputs by the inputs' names."""

    dims: Mapping[str, int] = field(default_factory=dict)
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)


NO_AXES = Axes()


_SHOWN = 16  # names in a message


@dataclass(frozen=True)
class FixedInputs:
    """The inputs with all axes set: ``dims`` has the named ones, ``unset`` those that no option sets and are 1.

    ``converted`` are the types of floats that were made float32, and ``outputs`` the outputs' types before that.
    """

    inputs: list[TensorInfo]
    dims: dict[str, int]
    unset: tuple[str, ...]
    converted: tuple[str, ...] = ()
    outputs: Mapping[str, str] = field(default_factory=dict)

    @property
    def hint(self) -> str:
        """The clause of an error message that other extents could avoid."""
        if not self.unset:
            return ""
        return f"; {', '.join(self.unset[:_SHOWN])} taken as 1, as nothing sets it: give options.dims or options.shapes"


def fix_axes(inputs: Sequence[ModelTensor], axes: Axes) -> FixedInputs:
    """Returns ``inputs`` with every dynamic axis set: to its extent in ``axes``, or to 1.

    Raises:
        InvalidAxes: there is no such axis or input, it is not dynamic, or it is set twice, to different extents.
    """
    known = {tensor.name: tensor for tensor in inputs}
    names = dict.fromkeys(axis for tensor in inputs for axis in tensor.shape if isinstance(axis, str))
    dims: dict[str, int] = {}
    for name, extent in axes.dims.items():
        if name not in names:
            there = f"there are {_listed(names)}" if names else "none of its inputs' axes has a name"
            raise InvalidAxes(f"no input has an axis called {name!r}; {there}", field=f"options.dims.{name}")
        dims[name] = extent
    for name, shape in axes.shapes.items():
        if name not in known:
            raise InvalidAxes(
                f"the model has no input {name!r}; there are {_listed(known)}", field=f"options.shapes.{name}"
            )
        _check_shape(known[name], shape, dims)
        dims |= {axis: extent for axis, extent in zip(known[name].shape, shape, strict=True) if isinstance(axis, str)}
    unset = [repr(name) for name in names if name not in dims]
    unset += [
        f"axis {index} of {tensor.name!r}"
        for tensor in inputs
        for index, axis in enumerate(tensor.shape)
        if axis is None and tensor.name not in axes.shapes
    ]
    dims |= {name: 1 for name in names if name not in dims}
    fixed = [
        TensorInfo(name=tensor.name, dtype=tensor.dtype, shape=_extents(tensor, dims, axes.shapes)) for tensor in inputs
    ]
    return FixedInputs(fixed, dims, tuple(unset))


def _extents(tensor: ModelTensor, dims: Mapping[str, int], shapes: Mapping[str, Sequence[int]]) -> tuple[int, ...]:
    if tensor.name in shapes:
        return tuple(shapes[tensor.name])
    return tuple(dims[axis] if isinstance(axis, str) else 1 if axis is None else axis for axis in tensor.shape)


def _check_shape(tensor: ModelTensor, shape: Sequence[int], dims: Mapping[str, int]) -> None:
    """The shape sets dynamic axes only, and none to another extent than it has already."""
    place = f"options.shapes.{tensor.name}"
    if len(shape) != len(tensor.shape):
        raise InvalidAxes(
            f"{list(shape)} has {len(shape)} axes; the input {tensor.name!r} has {len(tensor.shape)}: {_shown(tensor)}",
            field=place,
        )
    found = dict(dims)
    for index, (axis, extent) in enumerate(zip(tensor.shape, shape, strict=True)):
        if isinstance(axis, int) and axis != extent:
            raise InvalidAxes(
                f"axis {index} of {tensor.name!r} is {axis} in the model, and not dynamic: {extent} contradicts it",
                field=place,
            )
        if isinstance(axis, str) and found.setdefault(axis, extent) != extent:
            raise InvalidAxes(
                f"axis {index} of {tensor.name!r} is {axis!r}, which is set to {found[axis]} and to {extent}",
                field=place,
            )


def _shown(tensor: ModelTensor) -> str:
    return f"[{', '.join('?' if axis is None else str(axis) for axis in tensor.shape)}]"


def _listed(names: Mapping[str, object]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(map(repr, list(names)[:_SHOWN])) + more
