"""Checks of a model's tensors: element type and shape."""

import math
from collections.abc import Mapping

import onnx
from onnx import TensorProto

from accel.errors import UnsupportedShape, UnsupportedType
from accel.frontend.onnx_model.model_limits import ModelLimits

ITEM_BYTES: dict[int, int] = {
    TensorProto.FLOAT: 4,
    TensorProto.INT8: 1,
    TensorProto.UINT8: 1,
    TensorProto.INT32: 4,
    TensorProto.INT64: 8,
    TensorProto.BOOL: 1,
}
"""The element types that the compiler works on."""

CONVERTED_BYTES: dict[int, int] = {TensorProto.FLOAT16: 2, TensorProto.BFLOAT16: 2, TensorProto.DOUBLE: 8}
"""The element types that become float32 when a model is read, and their bytes."""

READ_BYTES = ITEM_BYTES | CONVERTED_BYTES


def is_static(info: onnx.ValueInfoProto | None) -> bool:
    """Returns whether the tensor has a shape without dynamic dimensions."""
    if info is None or not info.type.tensor_type.HasField("shape"):
        return False
    return all(dimension.HasField("dim_value") for dimension in info.type.tensor_type.shape.dim)


def extents_of(info: onnx.ValueInfoProto) -> tuple[int, ...]:
    """Returns the extents of a tensor whose shape is static."""
    return tuple(int(size.dim_value) for size in info.type.tensor_type.shape.dim)


def static_shape(info: onnx.ValueInfoProto, field: str, limits: ModelLimits, *, smallest: int = 1) -> tuple[int, ...]:
    """Returns the static shape of a tensor of a supported type."""
    if not info.type.HasField("tensor_type"):
        raise UnsupportedType(f"{info.name!r} is not a dense tensor", field=field)
    tensor = info.type.tensor_type
    check_type(tensor.elem_type, field)
    if not is_static(info):
        dimensions = [d.dim_value if d.HasField("dim_value") else d.dim_param or "?" for d in tensor.shape.dim]
        raise UnsupportedShape(f"{info.name!r} has the dynamic shape {dimensions}; fix its dimensions", field=field)
    shape = extents_of(info)
    check_dimensions(shape, field, limits, smallest=smallest)
    return shape


def check_dimensions(shape: tuple[int, ...], field: str, limits: ModelLimits, *, smallest: int) -> None:
    """Refuses extents less than ``smallest``, and a rank or a number of elements beyond the limits."""
    if len(shape) > limits.rank:
        raise UnsupportedShape(f"a tensor has {len(shape)} dimensions; the limit is {limits.rank}", field=field)
    if any(size < smallest for size in shape):
        why = ": what is given, returned and computed of data has at least one element" if smallest else ""
        raise UnsupportedShape(f"the shape {list(shape)} has a dimension below {smallest}{why}", field=field)
    if math.prod(shape) > limits.tensor_elements:
        raise UnsupportedShape(
            f"the shape {list(shape)} has {math.prod(shape)} elements; the limit is {limits.tensor_elements}",
            field=field,
        )


def check_type(element: int, field: str, accepted: Mapping[int, int] = READ_BYTES) -> None:
    """Refuses an element type that is not among the ``accepted`` ones."""
    if element not in accepted:
        known = element in TensorProto.DataType.values()
        name = TensorProto.DataType.Name(element).lower() if known else str(element)
        raise UnsupportedType(f"elements of type {name} are not supported", field=field)
