"""The table of Relax operators: contractions, pooling, normalisation and activations, each as nodes of ONNX."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from tvm import ir, relax

from accel.host.relax_translation import GraphBuilder, Names, Rule, UntranslatableError, tensor_of

_INT8 = ("int8", "uint8")
_DILATED_POOLS_SINCE = 19


def _tensors(builder: GraphBuilder, call: ir.Call) -> list[str]:
    return [builder.tensor(argument) for argument in call.args]


def _dtypes(call: ir.Call) -> set[str]:
    return {tensor_of(argument.ty)[1] for argument in call.args}


def _ints(values: Any) -> list[int]:
    return [int(value) for value in values]


def _matmul(builder: GraphBuilder, call: ir.Call, ty: relax.Type) -> Names:
    made, given = tensor_of(ty)[1], _dtypes(call)
    if given <= set(_INT8) and made == "int32":
        return builder.node("MatMulInteger", *_tensors(builder, call))
    if given != {made} or made not in ("float16", "float32", "float64", "int32", "int64"):
        raise UntranslatableError("ONNX multiplies no matrices of these types")
    return builder.node("MatMul", *_tensors(builder, call))


def _convolution(builder: GraphBuilder, call: ir.Call, ty: relax.Type) -> Names:
    attributes = call.attrs
    if not _is_plain(str(attributes.data_layout), str(attributes.kernel_layout), "OI"):
        raise UntranslatableError("its tensors are not laid out as ONNX has them")
    walk = {
        "strides": _ints(attributes.strides),
        "pads": _ints(attributes.padding),
        "dilations": _ints(attributes.dilation),
        "group": int(attributes.groups),
    }
    made, given = tensor_of(ty)[1], _dtypes(call)
    if given <= set(_INT8) and made == "int32":
        return builder.node("ConvInteger", *_tensors(builder, call), **walk)
    if given != {"float32"} or made != "float32":
        raise UntranslatableError("ONNX convolves no tensors of these types")
    return builder.node("Conv", *_tensors(builder, call), **walk)


def _transposed(builder: GraphBuilder, call: ir.Call, ty: relax.Type) -> Names:
    attributes = call.attrs
    if not _is_plain(str(attributes.data_layout), str(attributes.kernel_layout), "IO"):
        raise UntranslatableError("its tensors are not laid out as ONNX has them")
    if tensor_of(ty)[1] != "float32" or _dtypes(call) != {"float32"}:
        raise UntranslatableError("ONNX convolves no tensors of these types")
    return builder.node(
        "ConvTranspose",
        *_tensors(builder, call),
        strides=_ints(attributes.strides),
        pads=_ints(attributes.padding),
        output_padding=_ints(attributes.output_padding),
        dilations=_ints(attributes.dilation),
        group=int(attributes.groups),
    )


def _is_plain(data: str, kernel: str, first: str) -> bool:
    return data in ("NCW", "NCHW", "NCDHW") and kernel == first + data[2:]


def _pool(op: str) -> Rule:
    def rule(builder: GraphBuilder, call: ir.Call, _ty: relax.Type) -> Names:
        attributes = call.attrs
        if str(attributes.layout) not in ("NCW", "NCHW", "NCDHW"):
            raise UntranslatableError("its tensors are not laid out as ONNX has them")
        walk: dict[str, Any] = {
            "kernel_shape": _ints(attributes.pool_size),
            "strides": _ints(attributes.strides),
            "pads": _ints(attributes.padding),
            "ceil_mode": int(bool(attributes.ceil_mode)),
        }
        dilations = _ints(attributes.dilation)
        if op == "AveragePool":
            walk["count_include_pad"] = int(bool(attributes.count_include_pad))
        if op == "MaxPool" or any(dilation != 1 for dilation in dilations):
            if op == "AveragePool" and builder.opset < _DILATED_POOLS_SINCE:
                raise UntranslatableError(f"averages of dilated windows are new in opset {_DILATED_POOLS_SINCE}")
            walk["dilations"] = dilations
        return builder.node(op, *_tensors(builder, call), **walk)

    return rule


def _adaptive(builder: GraphBuilder, call: ir.Call, ty: relax.Type) -> Names:
    before, after = tensor_of(call.args[0].ty)[0][2:], tensor_of(ty)[0][2:]
    if any(size % count for size, count in zip(before, after, strict=True)):
        raise UntranslatableError("its windows differ in size")
    if math.prod(after) == 1:
        return builder.node("GlobalAveragePool", *_tensors(builder, call))
    windows = [size // count for size, count in zip(before, after, strict=True)]
    return builder.node("AveragePool", *_tensors(builder, call), kernel_shape=windows, strides=windows)


def _batch_norm(builder: GraphBuilder, call: ir.Call, _ty: relax.Type) -> Names:
    """Its moving means come out as they went in."""
    if bool(call.attrs.training) or int(call.attrs.axis) != 1 or not (call.attrs.center and call.attrs.scale):
        raise UntranslatableError("ONNX has no such normalisation")
    given = _tensors(builder, call)
    return [builder.node("BatchNormalization", *given, epsilon=float(call.attrs.epsilon)), *given[3:]]


def _layer_norm(builder: GraphBuilder, call: ir.Call, _ty: relax.Type) -> Names:
    rank = len(tensor_of(call.args[0].ty)[0])
    axes = sorted(int(axis) % rank for axis in call.attrs.axes)
    if axes != list(range(axes[0], rank)):
        raise UntranslatableError("it normalises along other than the last axes")
    epsilon = float(call.attrs.epsilon)
    return builder.node("LayerNormalization", *_tensors(builder, call), axis=axes[0], epsilon=epsilon)


def _instance_norm(builder: GraphBuilder, call: ir.Call, _ty: relax.Type) -> Names:
    rank = len(tensor_of(call.args[0].ty)[0])
    if sorted(int(axis) % rank for axis in call.attrs.axes) != list(range(2, rank)):
        raise UntranslatableError("it normalises along other than the plane's axes")
    return builder.node("InstanceNormalization", *_tensors(builder, call), epsilon=float(call.attrs.epsilon))


def _quantize(builder: GraphBuilder, call: ir.Call, _ty: relax.Type) -> Names:
    op = "QuantizeLinear" if call.op.name == "relax.quantize" else "DequantizeLinear"
    data, scale, point = call.args
    per_tensor = math.prod(tensor_of(scale.ty)[0]) == 1
    names = [builder.tensor(data)]
    for value in (scale, point):
        name = builder.tensor(value)
        if per_tensor and tensor_of(value.ty)[0]:
            name = builder.node("Reshape", name, builder.integers([]))
        names.append(name)
    rank = len(tensor_of(data.ty)[0])
    return builder.node(op, *names, **({} if per_tensor else {"axis": int(call.attrs.axis) % rank}))


def _prelu(builder: GraphBuilder, call: ir.Call, _ty: relax.Type) -> Names:
    shape = tensor_of(call.args[0].ty)[0]
    wanted = [1] * len(shape)
    wanted[int(call.attrs.axis) % len(shape)] = -1
    data, slope = _tensors(builder, call)
    return builder.node("PRelu", data, builder.node("Reshape", slope, builder.integers(wanted)))


def _gelu(builder: GraphBuilder, call: ir.Call, _ty: relax.Type) -> Names:
    """``x / 2 * (1 + erf(x / sqrt 2))``, or with the hyperbolic tangent in place of erf."""
    (data,) = _tensors(builder, call)
    dtype = tensor_of(call.args[0].ty)[1]

    def number(value: float) -> str:
        return builder.constant(np.array(value, dtype))

    if call.op.name == "relax.nn.gelu":
        inner = builder.node("Erf", builder.node("Mul", data, number(math.sqrt(0.5))))
    else:
        cube = builder.node("Mul", builder.node("Mul", data, data), data)
        bent = builder.node("Add", data, builder.node("Mul", cube, number(0.044715)))
        inner = builder.node("Tanh", builder.node("Mul", bent, number(math.sqrt(2 / math.pi))))
    half = builder.node("Mul", data, number(0.5))
    return builder.node("Mul", half, builder.node("Add", inner, number(1)))


def _silu(builder: GraphBuilder, call: ir.Call, _ty: relax.Type) -> Names:
    (data,) = _tensors(builder, call)
    return builder.node("Mul", data, builder.node("Sigmoid", data))


def _pixel_shuffle(builder: GraphBuilder, call: ir.Call, _ty: relax.Type) -> Names:
    factor = int(call.attrs.upscale_factor)
    return builder.node("DepthToSpace", *_tensors(builder, call), blocksize=factor, mode="CRD")


LAYER_RULES: Mapping[str, Rule] = {
    "relax.matmul": _matmul,
    **{f"relax.nn.conv{n}d": _convolution for n in (1, 2, 3)},
    **{f"relax.nn.conv{n}d_transpose": _transposed for n in (1, 2, 3)},
    **{f"relax.nn.max_pool{n}d": _pool("MaxPool") for n in (1, 2, 3)},
    **{f"relax.nn.avg_pool{n}d": _pool("AveragePool") for n in (1, 2, 3)},
    **{f"relax.nn.adaptive_avg_pool{n}d": _adaptive for n in (1, 2, 3)},
    "relax.nn.batch_norm": _batch_norm,
    "relax.nn.layer_norm": _layer_norm,
    "relax.nn.instance_norm": _instance_norm,
    "relax.nn.dropout": lambda builder, call, _ty: [*_tensors(builder, call), ""],
    **dict.fromkeys(("relax.quantize", "relax.dequantize"), _quantize),
    "relax.nn.prelu": _prelu,
    "relax.nn.leakyrelu": lambda builder, call, _ty: builder.node(
        "LeakyRelu", *_tensors(builder, call), alpha=float(call.attrs.alpha)
    ),
    "relax.nn.selu": lambda builder, call, _ty: builder.node("Selu", *_tensors(builder, call)),
    "relax.nn.softplus": lambda builder, call, _ty: builder.node("Softplus", *_tensors(builder, call)),
    **dict.fromkeys(("relax.nn.gelu", "relax.nn.gelu_tanh"), _gelu),
    "relax.nn.silu": _silu,
    "relax.nn.pixel_shuffle": _pixel_shuffle,
}
