"""Operators that make, move or choose elements, between layers."""

import numpy as np
from onnx import TensorProto, numpy_helper

from tests.helpers.exported.case import Catalogue
from tests.helpers.exported.graph import Exported

SHAPES = Catalogue()
C = 16
OLD, INPUTS = 10, 13


def i64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


@SHAPES.add((1, 16, 7, 7), opsets=(9, 10, 11, 13, 18, 19, 21))
def upsampled_by_scales(g: Exported) -> str:
    c, scales = g.op("Relu", g.conv(g.x, C, C)), f32(1, 1, 2, 2)
    if g.opset < OLD:
        up = g.op("Upsample", c, scales, mode="nearest")
    elif g.opset == OLD:
        up = g.op("Resize", c, scales, mode="nearest")
    else:
        up = g.op("Resize", c, f32() if g.opset < INPUTS else None, scales, mode="nearest",
                  coordinate_transformation_mode="asymmetric", nearest_mode="floor")  # fmt: skip
    return g.conv(up, C, C)


@SHAPES.add((1, 16, 7, 7), opsets=(9, 10, 11, 13, 18, 21))
def upsampled_linearly(g: Exported) -> str:
    c, scales = g.op("Relu", g.conv(g.x, C, C)), f32(1, 1, 2, 2)
    if g.opset < OLD:
        up = g.op("Upsample", c, scales, mode="linear")
    elif g.opset == OLD:
        up = g.op("Resize", c, scales, mode="linear")
    else:
        up = g.op("Resize", c, f32() if g.opset < INPUTS else None, scales, mode="linear",
                  coordinate_transformation_mode="pytorch_half_pixel")  # fmt: skip
    return g.conv(up, C, C)


@SHAPES.add((1, 16, 7, 7), opsets=(11, 13))
def upsampled_with_an_empty_constant_node(g: Exported) -> str:
    """PyTorch: the region is a Constant of no elements."""
    c = g.op("Relu", g.conv(g.x, C, C))
    up = g.op("Resize", c, g.constant(f32()), g.constant(f32(1, 1, 2, 2)), mode="linear",
              coordinate_transformation_mode="half_pixel")  # fmt: skip
    return g.conv(up, C, C)


@SHAPES.add((1, 16, 7, 7), opsets=(11, 13, 21))
def upsampled_to_sizes(g: Exported) -> str:
    """PyTorch: the sizes are computed of the shape."""
    c = g.op("Relu", g.conv(g.x, C, C))
    front = g.op("Slice", g.op("Shape", c), i64(0), i64(2), i64(0))
    sizes = g.op("Concat", front, i64(13, 15), axis=0)
    none = f32() if g.opset < INPUTS else None
    up = g.op("Resize", c, none, none, sizes, mode="linear", coordinate_transformation_mode="align_corners")
    return g.conv(up, C, C)


@SHAPES.add((1, 16, 7, 7), opsets=(13, 19))
def upsampled_cubically(g: Exported) -> str:
    up = g.op("Resize", g.conv(g.x, C, C), None, f32(1, 1, 2, 2), mode="cubic", cubic_coeff_a=-0.75)
    return g.conv(up, C, C)


@SHAPES.add((1, 16, 7, 7), opsets=(11, 13))
def lateral(g: Exported) -> str:
    """A pyramid of features: upsampled, added to a finer map."""
    fine = g.conv(g.x, C, C)
    coarse = g.conv(g.op("MaxPool", fine, kernel_shape=[2, 2], strides=[2, 2], pads=[0, 0, 1, 1]), C, C)
    none = f32() if g.opset < INPUTS else None
    up = g.op("Resize", coarse, none, none, i64(1, C, 7, 7), mode="nearest")
    return g.conv(g.op("Add", up, g.conv(fine, C, C, kernel=1)), C, C)


@SHAPES.add(opsets=(9, 11, 13, 18, 21))
def split_and_concat(g: Exported) -> str:
    c = g.conv(g.x, C, C)
    if g.opset < INPUTS:
        a, b = g.ops("Split", c, outputs=2, axis=1, split=[4, 12])
    else:
        a, b = g.ops("Split", c, i64(4, 12), outputs=2, axis=1)
    return g.conv(g.op("Concat", b, g.op("Relu", g.conv(a, 4, 8)), axis=1), 20, C)


@SHAPES.add(opsets=(9, 13, 18, 21))
def split_in_halves(g: Exported) -> str:
    c = g.conv(g.x, C, C)
    number = {"num_outputs": 2} if g.opset >= 18 else {}
    a, b = g.ops("Split", c, outputs=2, axis=1, **number)
    return g.conv(g.op("Add", a, g.conv(b, 8, 8)), 8, C)


@SHAPES.add(opsets=(18,))
def split_unevenly_in_numbers(g: Exported) -> str:
    a, b, c = g.ops("Split", g.conv(g.x, C, C), outputs=3, axis=1, num_outputs=3)
    return g.conv(g.op("Concat", c, b, a, axis=1), C, C)


@SHAPES.add(opsets=(9, 13, 21))
def shuffled(g: Exported) -> str:
    """ShuffleNet: groups, channels shuffled."""
    c = g.op("Relu", g.conv(g.x, C, C, kernel=1, group=4))
    r = g.op("Transpose", g.op("Reshape", c, i64(1, 4, 4, 14, 14)), perm=[0, 2, 1, 3, 4])
    return g.conv(g.op("Reshape", r, i64(1, C, 14, 14)), C, C, group=C)


@SHAPES.add(opsets=(10, 11, 13))
def focus(g: Exported) -> str:
    """YOLOv5's first layer: every second element, four times, as channels."""
    parts = []
    for row in (0, 1):
        for column in (0, 1):
            p = g.x
            for axis, start in ((2, row), (3, column)):
                p = g.op("Slice", p, i64(start), i64(2**63 - 1), i64(axis), i64(2))
            parts.append(p)
    return g.conv(g.op("Concat", *parts, axis=1), 4 * C, C)


@SHAPES.add(opsets=(9, 11, 13, 18))
def squeezed(g: Exported) -> str:
    pooled = g.op("GlobalAveragePool", g.conv(g.x, C, C))
    s = g.axes("Squeeze", pooled, [2, 3])
    return g.op("Add", g.op("MatMul", s, g.weight(C, 10)), g.vector(10))


@SHAPES.add(opsets=(9, 11, 13))
def squeeze_and_excite(g: Exported) -> str:
    c = g.op("Relu", g.conv(g.x, C, C))
    s = g.op("Relu", g.conv(g.op("GlobalAveragePool", c), C, 4, kernel=1))
    return g.conv(g.op("Mul", c, g.op("Sigmoid", g.conv(s, 4, C, kernel=1))), C, C)


@SHAPES.add(opsets=(9, 13, 18))
def squeeze_and_excite_by_rows(g: Exported) -> str:
    """EfficientNet by Keras: means, dense layers, unsqueezed."""
    c = g.op("Relu", g.conv(g.x, C, C))
    s = g.axes("ReduceMean", c, [2, 3], since=18, keepdims=0)
    s = g.op("Relu", g.op("Gemm", s, g.weight(4, C), g.vector(4), transB=1))
    s = g.op("HardSigmoid", g.op("Gemm", s, g.weight(C, 4), g.vector(C), transB=1))
    return g.conv(g.op("Mul", g.axes("Unsqueeze", s, [2, 3]), c), C, C)


@SHAPES.add(opsets=(9, 11, 13, 21))
def flattened_by_a_computed_shape(g: Exported) -> str:
    c = g.op("MaxPool", g.conv(g.x, C, 8), kernel_shape=[7, 7], strides=[7, 7])
    batch = g.axes("Unsqueeze", g.op("Gather", g.op("Shape", c), np.array(0)), [0])
    rows = g.op("Reshape", c, g.op("Concat", batch, i64(-1), axis=0))
    return g.op("Gemm", rows, g.weight(10, 32), g.vector(10), transB=1)


@SHAPES.add(opsets=(9, 11, 13))
def flatten_axes(g: Exported) -> str:
    c = g.op("MaxPool", g.conv(g.x, C, 8), kernel_shape=[7, 7], strides=[7, 7])
    return g.op("Gemm", g.op("Flatten", c, axis=1), g.weight(32, 10), g.vector(10))


@SHAPES.add(opsets=(11, 13))
def flatten_to_rows_of_pixels(g: Exported) -> str:
    return g.op("MatMul", g.op("Flatten", g.conv(g.x, C, C), axis=-1), g.weight(14, 10))


@SHAPES.add(opsets=(9, 13))
def expanded_and_tiled(g: Exported) -> str:
    pooled = g.op("GlobalAveragePool", g.conv(g.x, C, C))
    like = g.op("ConstantOfShape", i64(1, C, 4, 4), value=numpy_helper.from_array(f32(0)))
    e = g.op("Expand", pooled, g.op("Shape", like))
    return g.conv(g.op("Tile", e, i64(1, 1, 2, 2)), C, C)


@SHAPES.add(opsets=(9, 13))
def cast_there_and_back(g: Exported) -> str:
    c = g.op("Cast", g.conv(g.x, C, C), to=TensorProto.FLOAT)
    whole = g.op("Cast", g.op("Cast", g.op("Mul", c, np.float32(10)), to=TensorProto.INT32), to=TensorProto.FLOAT)
    return g.conv(whole, C, C)


@SHAPES.add(opsets=(9, 13))
def gathered(g: Exported) -> str:
    c = g.conv(g.x, C, C)
    weight = g.op("Gather", g.weight(2, C, C, 3, 3), np.array(1), axis=0)
    d = g.op("Conv", c, weight, pads=[1, 1, 1, 1])
    return g.conv(g.op("Gather", d, i64(3, 2, 1, 0), axis=1), 4, C)


@SHAPES.add((1, 16, 14, 14), (1, 16, 7, 7), opsets=(9, 13))
def two_inputs_two_outputs(g: Exported) -> list[str]:
    a = g.op("Relu", g.conv(g.x, C, C, strides=[2, 2]))
    total = g.op("Add", a, g.conv(g.inputs[1], C, C))
    return [g.conv(total, C, C), g.op("Relu", total)]


@SHAPES.add(opsets=(9, 13))
def inner_output(g: Exported) -> list[str]:
    """An output that another layer reads too."""
    c = g.op("Relu", g.conv(g.x, C, C))
    return [g.conv(c, C, C), c]


@SHAPES.add((1, 16, 14, 14), (1, 4), opsets=(13,))
def input_as_output(g: Exported) -> list[str]:
    return [g.conv(g.x, C, C), g.inputs[1]]


@SHAPES.add((2, 16, 14, 14), opsets=(9, 13))
def batch_of_two(g: Exported) -> str:
    c = g.op("Relu", g.conv(g.x, C, C, strides=[2, 2]))
    c = g.op("Add", g.conv(c, C, C), c)
    pooled = g.op("Flatten", g.op("GlobalAveragePool", c))
    return g.op("Gemm", pooled, g.weight(10, C), g.vector(10), transB=1)


@SHAPES.add((4, 3, 10, 10), opsets=(13,))
def batch_of_four(g: Exported) -> str:
    c = g.op("Relu", g.conv(g.x, 3, 20))
    c = g.op("MaxPool", c, kernel_shape=[2, 2], strides=[2, 2])
    return g.conv(g.conv(c, 20, 20, group=20), 20, 10, kernel=1)


@SHAPES.add(opsets=(9, 11, 13))
def depth_to_space(g: Exported) -> str:
    c = g.op("DepthToSpace", g.conv(g.x, C, C), blocksize=2)
    return g.conv(g.op("SpaceToDepth", g.conv(c, 4, 4), blocksize=2), C, C)


@SHAPES.add(opsets=(11, 13))
def depth_to_space_pytorch(g: Exported) -> str:
    return g.conv(g.op("DepthToSpace", g.conv(g.x, C, C), blocksize=2, mode="CRD"), 4, 4)


@SHAPES.add(opsets=(9, 11, 13, 18))
def reduced(g: Exported) -> str:
    c = g.conv(g.x, C, C)
    m = g.axes("ReduceMax", c, [1], since=18, keepdims=1)
    a = g.axes("ReduceMean", c, [1], since=18, keepdims=1)
    return g.op("Mul", c, g.op("Sigmoid", g.conv(g.op("Concat", a, m, axis=1), 2, 1, kernel=7)))


@SHAPES.add(opsets=(9, 11, 13))
def chosen(g: Exported) -> str:
    """A detector's end: the best class and its index."""
    c = g.conv(g.x, C, C)
    best = g.op("ArgMax", c, axis=1, keepdims=0)
    return g.op("Cast", best, to=TensorProto.FLOAT)


@SHAPES.add(opsets=(9, 11, 13))
def top(g: Exported) -> str:
    c = g.op("Flatten", g.op("GlobalAveragePool", g.conv(g.x, C, C)))
    if g.opset < OLD:
        return g.ops("TopK", c, outputs=2, k=3)[0]
    return g.ops("TopK", c, i64(3), outputs=2)[0]
