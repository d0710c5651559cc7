"""The table of Relax operators: elementwise work, reductions, shapes and positions, each as nodes of ONNX."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from tvm import ir, relax, tirx

from accel.host.host_graph import onnx_type
from accel.host.relax_layers import LAYER_RULES
from accel.host.relax_translation import GraphBuilder, Names, Rule, UntranslatableError, tensor_of

_BITS_SINCE = 18  # the opset of bitwise operators
_AXES_SINCE = 18  # the opset in which the axes of reductions became an input


def _dtype(value: Any) -> str:
    return tensor_of(value.ty)[1]


def _shape(value: Any) -> tuple[int, ...]:
    return tensor_of(value.ty)[0]


def _is_float(value: Any) -> bool:
    return _dtype(value).startswith("float")


def literal(value: Any) -> Any:
    """Returns the number of a literal or of a constant of one element.

    Raises:
        UntranslatableError: it is neither.
    """
    if isinstance(value, tirx.IntImm | tirx.FloatImm):
        return value.value
    if isinstance(value, ir.GenericConst) and value.value.numpy().size == 1:
        return value.value.numpy().item()
    raise UntranslatableError("an argument is no constant")


def _same(op: str, since: int = 0) -> Rule:
    """ONNX has the operator, of the same operands."""

    def rule(builder: GraphBuilder, call: ir.Call, _ty: relax.Type) -> Names:
        if builder.opset < since:
            raise UntranslatableError(f"{op} is new in opset {since}")
        return builder.node(op, *(builder.tensor(argument) for argument in call.args))

    return rule


def _chain(make: Callable[..., str]) -> Rule:
    """Several nodes of the tensors alone."""
    return lambda builder, call, _ty: make(builder, *(builder.tensor(argument) for argument in call.args))


def _scalar(builder: GraphBuilder, like: Any, value: float) -> str:
    return builder.constant(np.array(value, _dtype(like)))


def _cast(builder: GraphBuilder, call: ir.Call, _ty: relax.Type) -> Names:
    return builder.node("Cast", builder.tensor(call.args[0]), to=onnx_type(str(call.attrs.dtype)))


def _clip(builder: GraphBuilder, call: ir.Call, _ty: relax.Type) -> Names:
    data, *bounds = call.args
    dtype, numbers = _dtype(data), [literal(bound) for bound in bounds]
    if not _is_float(data):
        limits = np.iinfo(dtype)
        if any(number != int(number) or not limits.min <= number <= limits.max for number in numbers):
            raise UntranslatableError("its bounds are no integers of its type")
    return builder.node("Clip", builder.tensor(data), *(_scalar(builder, data, number) for number in numbers))


def _shift(builder: GraphBuilder, call: ir.Call, _ty: relax.Type) -> Names:
    """By numbers within the width. ONNX shifts unsigned integers alone: others are multiplied, or divided."""
    data, by = call.args
    if not isinstance(by, ir.GenericConst):
        return _shift_by_data(builder, call)
    dtype, numbers = np.dtype(_dtype(data)), by.value.numpy().astype(np.int64)
    if ((numbers < 0) | (numbers >= dtype.itemsize * 8 - (dtype.kind == "i"))).any():
        raise UntranslatableError("it shifts by more bits than there are")
    left = call.op.name == "relax.left_shift"
    name = builder.tensor(data)
    if dtype.kind == "u":
        amount = builder.constant(numbers.astype(dtype))
        return builder.node("BitShift", name, amount, direction="LEFT" if left else "RIGHT")
    factor = builder.constant((np.int64(1) << numbers).astype(dtype))
    if left:
        return builder.node("Mul", name, factor)
    return builder.node("Div", builder.node("Sub", name, builder.node("Mod", name, factor)), factor)


def _shift_by_data(builder: GraphBuilder, call: ir.Call) -> Names:
    """Of int32 to the right, by int32 from 0 to 31: the quotient by a power of two, as int64, rounded down."""
    data, by = call.args
    if call.op.name != "relax.right_shift" or {_dtype(data), _dtype(by)} != {"int32"}:
        raise UntranslatableError("it shifts by what is not constant")
    powers = builder.constant(np.int64(1) << np.arange(32))
    factor = builder.node("Gather", powers, builder.tensor(by), axis=0)
    wide = builder.node("Cast", builder.tensor(data), to=onnx_type("int64"))
    quotient = builder.node("Div", builder.node("Sub", wide, builder.node("Mod", wide, factor)), factor)
    return builder.node("Cast", quotient, to=onnx_type("int32"))


def _floor_divide(builder: GraphBuilder, call: ir.Call, _ty: relax.Type) -> Names:
    a, b = (builder.tensor(argument) for argument in call.args)
    if _is_float(call.args[0]):
        return builder.node("Floor", builder.node("Div", a, b))
    return builder.node("Div", builder.node("Sub", a, builder.node("Mod", a, b)), b)


def _floor_mod(builder: GraphBuilder, call: ir.Call, _ty: relax.Type) -> Names:
    a, b = (builder.tensor(argument) for argument in call.args)
    if _is_float(call.args[0]):
        whole = builder.node("Floor", builder.node("Div", a, b))
        return builder.node("Sub", a, builder.node("Mul", whole, b))
    return builder.node("Mod", a, b)


def _remainder(builder: GraphBuilder, call: ir.Call, _ty: relax.Type) -> Names:
    return builder.node("Mod", *(builder.tensor(argument) for argument in call.args), fmod=1)


def _trunc(builder: GraphBuilder, call: ir.Call, _ty: relax.Type) -> Names:
    data = builder.tensor(call.args[0])
    below = builder.node("Less", data, _scalar(builder, call.args[0], 0))
    return builder.node("Where", below, builder.node("Ceil", data), builder.node("Floor", data))


def _power(builder: GraphBuilder, call: ir.Call, _ty: relax.Type) -> Names:
    if not _is_float(call.args[0]):
        raise UntranslatableError("powers of integers may not fit their type")
    return builder.node("Pow", *(builder.tensor(argument) for argument in call.args))


def _axes(call: ir.Call, rank: int) -> list[int]:
    axes = call.attrs.axis
    if axes is None:
        return list(range(rank))
    return [int(axis) % rank for axis in (axes if hasattr(axes, "__len__") else [axes])]


def _reduction(op: str) -> Rule:
    def rule(builder: GraphBuilder, call: ir.Call, _ty: relax.Type) -> Names:
        data = call.args[0]
        return reduced(
            builder, op, builder.tensor(data), _axes(call, len(_shape(data))), keep=bool(call.attrs.keepdims)
        )

    return rule


def reduced(builder: GraphBuilder, op: str, data: str, axes: list[int], *, keep: bool) -> str:
    """Returns a reduction along ``axes``."""
    if not axes:
        return data
    if builder.opset >= _AXES_SINCE or op == "ReduceSum":
        return builder.node(op, data, builder.integers(axes), keepdims=int(keep))
    return builder.node(op, data, axes=axes, keepdims=int(keep))


def _variance(builder: GraphBuilder, call: ir.Call, _ty: relax.Type) -> Names:
    data = builder.tensor(call.args[0])
    axes = _axes(call, len(_shape(call.args[0])))
    apart = builder.node("Sub", data, reduced(builder, "ReduceMean", data, axes, keep=True))
    square = builder.node("Mul", apart, apart)
    found = reduced(builder, "ReduceMean", square, axes, keep=bool(call.attrs.keepdims))
    return builder.node("Sqrt", found) if call.op.name == "relax.std" else found


def _place_of(op: str) -> Rule:
    def rule(builder: GraphBuilder, call: ir.Call, ty: relax.Type) -> Names:
        if call.attrs.axis is None:
            raise UntranslatableError("it has no axis")
        keep = int(bool(call.attrs.keepdims))
        found = builder.node(op, builder.tensor(call.args[0]), axis=int(call.attrs.axis), keepdims=keep)
        dtype = tensor_of(ty)[1]
        return found if dtype == "int64" else builder.node("Cast", found, to=onnx_type(dtype))

    return rule


def _along(op: str) -> Rule:
    return lambda builder, call, _ty: builder.node(op, builder.tensor(call.args[0]), axis=int(call.attrs.axis))


def _reshape(builder: GraphBuilder, call: ir.Call, ty: relax.Type) -> Names:
    return builder.node("Reshape", builder.tensor(call.args[0]), builder.integers(tensor_of(ty)[0]))


def _expand(builder: GraphBuilder, call: ir.Call, ty: relax.Type) -> Names:
    return builder.node("Expand", builder.tensor(call.args[0]), builder.integers(tensor_of(ty)[0]))


def _transpose(builder: GraphBuilder, call: ir.Call, _ty: relax.Type) -> Names:
    rank = len(_shape(call.args[0]))
    axes = call.attrs.axes
    order = [int(axis) % rank for axis in axes] if axes is not None else list(reversed(range(rank)))
    return builder.node("Transpose", builder.tensor(call.args[0]), perm=order)


def _concat(builder: GraphBuilder, call: ir.Call, ty: relax.Type) -> Names:
    names = builder.names(call.args[0])
    if isinstance(names, str) or call.attrs.axis is None:
        raise UntranslatableError("it joins no tuple along an axis")
    return builder.node("Concat", *names, axis=int(call.attrs.axis) % len(tensor_of(ty)[0]))


def _stack(builder: GraphBuilder, call: ir.Call, ty: relax.Type) -> Names:
    shape = tensor_of(ty)[0]
    axis = int(call.attrs.axis) % len(shape)
    one = builder.integers([*shape[:axis], 1, *shape[axis + 1 :]])
    names = builder.names(call.args[0])
    return builder.node("Concat", *(builder.node("Reshape", name, one) for name in names), axis=axis)


def _split(builder: GraphBuilder, call: ir.Call, ty: relax.Type) -> Names:
    axis = int(call.attrs.axis) % len(_shape(call.args[0]))
    sizes = [tensor_of(field)[0][axis] for field in ty.fields]
    given = [builder.tensor(call.args[0]), builder.integers(sizes)]
    return builder.node_of_several("Split", given, len(sizes), {"axis": axis})


def _slice(builder: GraphBuilder, call: ir.Call, _ty: relax.Type) -> Names:
    axes, begin, end, *strides = ([int(literal(item)) for item in argument.fields] for argument in call.args[1:])
    steps = strides[0] if strides else [1] * len(axes)
    shape = _shape(call.args[0])
    firsts, pasts = [], []
    for axis, first, past, step in zip(axes, begin, end, steps, strict=True):
        if not step:
            raise UntranslatableError("it slices by no step")
        low, high, _ = slice(first, past, step).indices(shape[axis])
        firsts.append(low)
        pasts.append(high if high >= 0 else -shape[axis] - 1)  # before the first element
    return builder.node("Slice", builder.tensor(call.args[0]), *map(builder.integers, (firsts, pasts, axes, steps)))


def _flip(builder: GraphBuilder, call: ir.Call, _ty: relax.Type) -> Names:
    bounds = ([-1], [-(1 << 62)], [int(call.attrs.axis)], [-1])
    return builder.node("Slice", builder.tensor(call.args[0]), *map(builder.integers, bounds))


def _tile(builder: GraphBuilder, call: ir.Call, ty: relax.Type) -> Names:
    shape, wanted = _shape(call.args[0]), tensor_of(ty)[0]
    whole = (1,) * (len(wanted) - len(shape)) + shape
    data = builder.tensor(call.args[0])
    if whole != shape:
        data = builder.node("Reshape", data, builder.integers(whole))
    return builder.node("Tile", data, builder.integers([w // h for w, h in zip(wanted, whole, strict=True)]))


def _repeat(builder: GraphBuilder, call: ir.Call, _ty: relax.Type) -> Names:
    if call.attrs.axis is None:
        raise UntranslatableError("it repeats along no axis")
    shape = _shape(call.args[0])
    axis = int(call.attrs.axis) % len(shape)
    at = np.repeat(np.arange(shape[axis], dtype=np.int64), int(call.attrs.repeats))
    return builder.node("Gather", builder.tensor(call.args[0]), builder.constant(at), axis=axis)


def _triangle(builder: GraphBuilder, call: ir.Call, _ty: relax.Type) -> Names:
    upper = int(call.op.name == "relax.triu")
    offset = builder.constant(np.array(literal(call.args[1]), np.int64))
    return builder.node("Trilu", builder.tensor(call.args[0]), offset, upper=upper)


_MODES = {"constant": "constant", "replicate": "edge", "reflect": "reflect", "circular": "wrap"}


def _pad(builder: GraphBuilder, call: ir.Call, _ty: relax.Type) -> Names:
    mode, widths = str(call.attrs.pad_mode), [int(width) for width in call.attrs.pad_width]
    if mode not in _MODES or min(widths, default=0) < 0:
        raise UntranslatableError("ONNX has no such padding")
    if not any(widths):
        return builder.tensor(call.args[0])
    given = [builder.tensor(call.args[0]), builder.integers([*widths[::2], *widths[1::2]])]
    if mode != "constant":
        return builder.node("Pad", *given, mode=_MODES[mode])
    value = float(call.attrs.pad_value)
    return builder.node("Pad", *given, _scalar(builder, call.args[0], value if _is_float(call.args[0]) else int(value)))


def _take(builder: GraphBuilder, call: ir.Call, _ty: relax.Type) -> Names:
    """The nearest element where an index lies outside."""
    if call.attrs.axis is None:
        raise UntranslatableError("it takes along no axis")
    data, at = call.args
    axis = int(call.attrs.axis) % len(_shape(data))
    name = within(builder, at, _shape(data)[axis])
    return builder.node("Gather", builder.tensor(data), name, axis=axis)


def within(builder: GraphBuilder, at: Any, extent: int) -> str:
    """Returns indices moved to the nearest that lie in an axis of ``extent`` elements."""
    if isinstance(at, ir.GenericConst):
        return builder.constant(np.asarray(at.value.numpy().clip(0, extent - 1), np.int64))
    name = builder.tensor(at)
    if _dtype(at) != "int64":
        name = builder.node("Cast", name, to=onnx_type("int64"))
    low, high = (builder.constant(np.array(bound, np.int64)) for bound in (0, extent - 1))
    return builder.node("Clip", name, low, high)


def _gather_elements(builder: GraphBuilder, call: ir.Call, _ty: relax.Type) -> Names:
    axis = int(call.attrs.axis) % len(_shape(call.args[0]))
    at = within(builder, call.args[1], _shape(call.args[0])[axis])
    return builder.node("GatherElements", builder.tensor(call.args[0]), at, axis=axis)


def _scatter_elements(builder: GraphBuilder, call: ir.Call, _ty: relax.Type) -> Names:
    data, at, updates = call.args
    axis, how = int(call.attrs.axis) % len(_shape(data)), str(call.attrs.reduction).replace("update", "none")
    if how not in ("none", "add", "mul", "min", "max"):
        raise UntranslatableError(f"it scatters by {how}")
    given = [builder.tensor(data), within(builder, at, _shape(data)[axis]), builder.tensor(updates)]
    return builder.node("ScatterElements", *given, axis=axis, reduction=how)


def _filled(value: int) -> Rule:
    def rule(builder: GraphBuilder, _call: ir.Call, ty: relax.Type) -> Names:
        shape, dtype = tensor_of(ty)
        return builder.constant(np.full(shape, value, dtype))

    return rule


def _eye(builder: GraphBuilder, call: ir.Call, ty: relax.Type) -> Names:
    (rows, columns), dtype = tensor_of(ty)
    return builder.constant(np.eye(rows, columns, int(literal(call.args[-1])), dtype))


def _one_hot(builder: GraphBuilder, call: ir.Call, ty: relax.Type) -> Names:
    at, on, off = call.args
    depth = builder.constant(np.array(int(call.attrs.depth), np.int64))
    values = builder.constant(np.array([literal(off), literal(on)], tensor_of(ty)[1]))
    return builder.node("OneHot", builder.tensor(at), depth, values, axis=int(call.attrs.axis))


def _full(builder: GraphBuilder, call: ir.Call, ty: relax.Type) -> Names:
    shape, dtype = tensor_of(ty)
    return builder.constant(np.full(shape, literal(call.args[1]), dtype))


def _arange(builder: GraphBuilder, call: ir.Call, ty: relax.Type) -> Names:
    (count,), dtype = tensor_of(ty)
    start, _, step = (literal(argument) for argument in call.args[:3])
    return builder.constant((start + step * np.arange(count)).astype(dtype))


def _einsum(builder: GraphBuilder, call: ir.Call, _ty: relax.Type) -> Names:
    return builder.node("Einsum", *builder.names(call.args[0]), equation=str(call.attrs.subscripts))


def _or(builder: GraphBuilder, call: ir.Call, _ty: relax.Type) -> Names:
    ops = {"relax.bitwise_and": "BitwiseAnd", "relax.bitwise_or": "BitwiseOr", "relax.bitwise_xor": "BitwiseXor"}
    if builder.opset < _BITS_SINCE:
        raise UntranslatableError(f"bitwise operators are new in opset {_BITS_SINCE}")
    return builder.node(ops[call.op.name], *(builder.tensor(argument) for argument in call.args))


_UNARY = (
    "abs acos acosh asin asinh atan atanh ceil cos cosh erf exp floor log round sigmoid sign sin sinh sqrt tan tanh"
)
_PAIRS = {
    "add": "Add", "subtract": "Sub", "multiply": "Mul", "divide": "Div", "maximum": "Max", "minimum": "Min",
    "equal": "Equal", "greater": "Greater", "greater_equal": "GreaterOrEqual", "less": "Less",
    "less_equal": "LessOrEqual", "logical_and": "And", "logical_or": "Or", "logical_xor": "Xor", "where": "Where",
    "negative": "Neg", "logical_not": "Not", "isnan": "IsNaN", "isinf": "IsInf", "nn.relu": "Relu",
}  # fmt: skip

RULES: Mapping[str, Rule] = {
    **{f"relax.{name}": _same(name.capitalize()) for name in _UNARY.split()},
    **{f"relax.{name}": _same(op) for name, op in _PAIRS.items()},
    "relax.bitwise_not": _same("BitwiseNot", _BITS_SINCE),
    **dict.fromkeys(("relax.bitwise_and", "relax.bitwise_or", "relax.bitwise_xor"), _or),
    "relax.not_equal": _chain(lambda b, x, y: b.node("Not", b.node("Equal", x, y))),
    "relax.square": _chain(lambda b, x: b.node("Mul", x, x)),
    "relax.rsqrt": _chain(lambda b, x: b.node("Reciprocal", b.node("Sqrt", x))),
    "relax.isfinite": _chain(lambda b, x: b.node("Not", b.node("Or", b.node("IsNaN", x), b.node("IsInf", x)))),
    "relax.trunc": _trunc,
    "relax.power": _power,
    "relax.floor_divide": _floor_divide,
    "relax.floor_mod": _floor_mod,
    "relax.mod": _remainder,
    "relax.astype": _cast,
    "relax.clip": _clip,
    **dict.fromkeys(("relax.left_shift", "relax.right_shift"), _shift),
    **{f"relax.{name}": _reduction(f"Reduce{name.capitalize()}") for name in ("max", "mean", "min", "prod", "sum")},
    **dict.fromkeys(("relax.variance", "relax.std"), _variance),
    "relax.argmax": _place_of("ArgMax"),
    "relax.argmin": _place_of("ArgMin"),
    "relax.nn.softmax": _along("Softmax"),
    "relax.nn.log_softmax": _along("LogSoftmax"),
    **dict.fromkeys(
        [f"relax.{name}" for name in ("reshape", "expand_dims", "squeeze", "flatten", "nn.batch_flatten")], _reshape
    ),
    "relax.broadcast_to": _expand,
    "relax.permute_dims": _transpose,
    "relax.concat": _concat,
    "relax.stack": _stack,
    "relax.split": _split,
    "relax.strided_slice": _slice,
    "relax.flip": _flip,
    "relax.tile": _tile,
    "relax.repeat": _repeat,
    **dict.fromkeys(("relax.tril", "relax.triu"), _triangle),
    "relax.nn.pad": _pad,
    "relax.take": _take,
    "relax.gather_elements": _gather_elements,
    "relax.scatter_elements": _scatter_elements,
    **dict.fromkeys(("relax.ones", "relax.ones_like"), _filled(1)),
    **dict.fromkeys(("relax.zeros", "relax.zeros_like"), _filled(0)),
    **dict.fromkeys(("relax.full", "relax.full_like"), _full),
    "relax.arange": _arange,
    **dict.fromkeys(("relax.eye", "relax.eye_like"), _eye),
    "relax.one_hot": _one_hot,
    "relax.einsum": _einsum,
    **LAYER_RULES,
}
