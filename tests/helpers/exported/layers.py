"""Layers in the shapes that networks give them: kernels, groups, pools, lines, matrices, attention."""

import numpy as np

from tests.helpers.exported.case import Catalogue
from tests.helpers.exported.graph import Exported

LAYERS = Catalogue()
C = 16


@LAYERS.add(opsets=(9, 13, 21))
def depthwise_multiplier(g: Exported) -> str:
    return g.conv(g.op("Relu", g.conv(g.x, C, 2 * C, group=C)), 2 * C, C, kernel=1)


@LAYERS.add()
def dilated_depthwise(g: Exported) -> str:
    return g.op("Relu", g.conv(g.x, C, C, group=C, dilations=[2, 2], pads=[2, 2, 2, 2]))


@LAYERS.add()
def even_kernels(g: Exported) -> str:
    c = g.op("Relu", g.conv(g.x, C, 20, kernel=2, pads=[0, 0, 1, 1]))
    return g.conv(c, 20, C, kernel=4, pads=[1, 2, 2, 1], strides=[2, 2])


@LAYERS.add()
def lopsided(g: Exported) -> str:
    c = g.op("Conv", g.x, g.weight(24, C, 1, 7), pads=[0, 3, 0, 3])
    c = g.op("Conv", g.op("Relu", c), g.weight(C, 24, 7, 1), pads=[3, 0, 3, 0])
    return g.op("Conv", c, g.weight(C, C, 3, 3), pads=[0, 2, 1, 0], strides=[2, 1], dilations=[1, 2])


@LAYERS.add((1, 3, 32, 32))
def aspp(g: Exported) -> str:
    """DeepLab: one map at several dilations, concatenated."""
    c = g.op("Relu", g.conv(g.x, 3, C, strides=[2, 2]))
    parts = [g.op("Relu", g.conv(c, C, 8, dilations=[d, d], pads=[d] * 4)) for d in (1, 2, 4)]
    return g.conv(g.op("Concat", *parts, axis=1), 24, C, kernel=1)


@LAYERS.add((1, 6, 13, 13))
def groups_of_odd_sizes(g: Exported) -> str:
    return g.conv(g.op("Relu", g.conv(g.x, 6, 9, group=3)), 9, 12, group=3)


@LAYERS.add((1, 16, 10, 10), opsets=(9, 13, 18))
def pools(g: Exported) -> str:
    c = g.op("MaxPool", g.conv(g.x, C, C), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    c = g.op("AveragePool", g.conv(c, C, C), kernel_shape=[2, 2], strides=[1, 1], pads=[0, 0, 1, 1])
    c = g.op("AveragePool", g.conv(c, C, C), kernel_shape=[2, 2], strides=[2, 2], count_include_pad=1)
    return g.op("GlobalMaxPool", g.conv(c, C, C))


@LAYERS.add((1, 16, 11, 11), opsets=(10, 13))
def pools_rounded_up(g: Exported) -> str:
    c = g.op("MaxPool", g.conv(g.x, C, C), kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
    return g.op("AveragePool", g.conv(c, C, C), kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)


@LAYERS.add((1, 16, 14, 14))
def spatial_pyramid(g: Exported) -> str:
    """YOLO's SPPF: maxima of maxima, concatenated."""
    c = g.op("Relu", g.conv(g.x, C, 8))
    parts = [c]
    for _ in range(3):
        parts.append(g.op("MaxPool", parts[-1], kernel_shape=[5, 5], strides=[1, 1], pads=[2, 2, 2, 2]))
    return g.conv(g.op("Concat", *parts, axis=1), 32, C, kernel=1)


@LAYERS.add((1, 8, 40), opsets=(9, 13))
def lines(g: Exported) -> str:
    c = g.op("Relu", g.norm(g.op("Conv", g.x, g.weight(C, 8, 5), pads=[2, 2], strides=[2]), C))
    c = g.op("MaxPool", c, kernel_shape=[2], strides=[2])
    c = g.op("Relu", g.op("Conv", c, g.weight(C, 1, 3), g.vector(C), group=C, pads=[1, 1]))
    c = g.op("AveragePool", c, kernel_shape=[2], strides=[2])
    c = g.op("Conv", c, g.weight(24, C, 3), g.vector(24), pads=[2, 2], dilations=[2])
    return g.op("Gemm", g.op("Flatten", g.op("GlobalAveragePool", c)), g.weight(24, 10), g.vector(10))


@LAYERS.add((1, 8, 20))
def causal_lines(g: Exported) -> str:
    """WaveNet: padded on one side, tanh times sigmoid, a residual."""
    c = g.x
    for dilation in (1, 2, 4):
        p = g.op("Pad", c, np.array([0, 0, 2 * dilation, 0, 0, 0], np.int64))
        both = [g.op("Conv", p, g.weight(8, 8, 3), g.vector(8), dilations=[dilation]) for _ in range(2)]
        gated = g.op("Mul", g.op("Tanh", both[0]), g.op("Sigmoid", both[1]))
        c = g.op("Add", c, g.op("Conv", gated, g.weight(8, 8, 1), g.vector(8)))
    return c


@LAYERS.add((1, 4, 6, 8, 8), opsets=(9, 13), share=0.0)
def volumes(g: Exported) -> str:
    c = g.op("Conv", g.x, g.weight(8, 4, 3, 3, 3), g.vector(8), pads=[1] * 6)
    return g.op("MaxPool", g.op("Relu", c), kernel_shape=[2, 2, 2], strides=[2, 2, 2])


@LAYERS.add((5, 32), opsets=(9, 11, 13))
def gemm_of_all_kinds(g: Exported) -> str:
    h = g.op("Gemm", g.x, g.weight(32, 24), g.vector(1, 24), alpha=0.5, beta=2.0)
    h = g.op("Gemm", g.op("Relu", h), g.weight(20, 24), g.vector(1), transB=1)
    h = g.op("Gemm", h, g.weight(20, 16), *([] if g.opset >= 11 else [np.zeros(16, np.float32)]))
    return g.op("Gemm", h, g.weight(16, 8), g.vector(5, 1))


@LAYERS.add((24, 6), opsets=(9, 13))
def gemm_of_columns(g: Exported) -> str:
    return g.op("Gemm", g.x, g.weight(24, 10), g.vector(10), transA=1)


@LAYERS.add((32, 6), opsets=(9, 13))
def constant_on_the_left(g: Exported) -> str:
    return g.op("Relu", g.op("MatMul", g.weight(24, 32), g.x))


@LAYERS.add((3, 7, 32), opsets=(9, 13))
def rows_of_batches(g: Exported) -> str:
    h = g.op("Relu", g.op("Add", g.op("MatMul", g.x, g.weight(32, 24)), g.vector(24)))
    return g.op("Add", g.op("MatMul", h, g.weight(24, 8)), g.vector(8))


@LAYERS.add((2, 3, 7, 32), opsets=(9, 13))
def rows_of_batches_of_batches(g: Exported) -> str:
    return g.op("Add", g.vector(24), g.op("MatMul", g.x, g.weight(32, 24)))


@LAYERS.add((2, 7, 32), opsets=(9, 13))
def weight_with_batch_axes(g: Exported) -> str:
    return g.op("MatMul", g.x, g.weight(1, 32, 24))


@LAYERS.add((32,), opsets=(9, 13))
def vector_times_matrix(g: Exported) -> str:
    return g.op("MatMul", g.x, g.weight(32, 24))


@LAYERS.add((5, 32), opsets=(9, 13))
def matrix_times_vector(g: Exported) -> str:
    return g.op("MatMul", g.x, g.vector(32))


@LAYERS.add((1, 12, 32), opsets=(13, 17, 21), share=0.9)
def attention(g: Exported) -> str:
    """A transformer's block: projections on the accelerator, products of activations on the host."""
    x = g.x

    def heads(perm: list[int]) -> str:
        p = g.op("Add", g.op("MatMul", x, g.weight(32, 32)), g.vector(32))
        return g.op("Transpose", g.op("Reshape", p, np.array([1, 12, 4, 8], np.int64)), perm=perm)

    q, k, v = heads([0, 2, 1, 3]), heads([0, 2, 3, 1]), heads([0, 2, 1, 3])
    scores = g.op("Softmax", g.op("Div", g.op("MatMul", q, k), np.float32(np.sqrt(8))), axis=-1)
    joined = g.op("Reshape", g.op("Transpose", g.op("MatMul", scores, v), perm=[0, 2, 1, 3]), np.array([1, 12, 32]))
    a = g.op("Add", x, g.op("Add", g.op("MatMul", joined, g.weight(32, 32)), g.vector(32)))
    if g.opset >= 17:
        a = g.op("LayerNormalization", a, g.vector(32, low=0.5, high=1.5), g.vector(32))
    h = g.op("Add", g.op("MatMul", a, g.weight(32, 64)), g.vector(64))
    h = g.op("Mul", h, g.op("Sigmoid", g.op("Mul", h, np.float32(1.702))))
    return g.op("Add", a, g.op("Add", g.op("MatMul", h, g.weight(64, 32)), g.vector(32)))


@LAYERS.add((1, 3, 16, 16), opsets=(13,), share=0.9)
def vision_transformer(g: Exported) -> str:
    """Patches, a class token, positions."""
    p = g.op("Conv", g.x, g.weight(32, 3, 4, 4), g.vector(32), strides=[4, 4])
    p = g.op("Transpose", g.op("Reshape", p, np.array([0, 0, -1], np.int64)), perm=[0, 2, 1])
    t = g.op("Add", g.op("Concat", g.vector(1, 1, 32), p, axis=1), g.vector(1, 17, 32))
    first = g.op("Gather", g.op("MatMul", t, g.weight(32, 32)), np.array(0), axis=1)
    return g.op("Gemm", first, g.weight(10, 32), g.vector(10), transB=1)


@LAYERS.add((1, 16, 7, 7), opsets=(9, 11, 13))
def u_net(g: Exported) -> str:
    down = g.op("Relu", g.conv(g.x, C, C, strides=[2, 2]))
    up = g.op("ConvTranspose", down, g.weight(C, C, 3, 3), g.vector(C), strides=[2, 2], pads=[1, 1, 1, 1])
    return g.conv(g.op("Relu", g.op("Concat", up, g.x, axis=1)), 2 * C, 8)


@LAYERS.add((1, 16, 7, 7), opsets=(9, 13))
def broadcast_addition(g: Exported) -> str:
    c = g.conv(g.x, C, C)
    return g.conv(g.op("Add", c, g.conv(g.op("GlobalAveragePool", c), C, C, kernel=1)), C, C)


@LAYERS.add((1, 16, 7, 7), opsets=(9, 13))
def sums_and_means(g: Exported) -> str:
    a, b, c = (g.conv(g.x, C, C) for _ in range(3))
    return g.conv(g.op("Sum", g.op("Mean", a, b), g.op("Max", b, c), g.op("Min", a, c)), C, C)


@LAYERS.add((1, 16, 7, 7), opsets=(9, 13))
def same_twice(g: Exported) -> str:
    c = g.op("Relu", g.conv(g.x, C, C))
    return g.conv(g.op("Sub", g.op("Add", c, c), g.conv(c, C, C)), C, C)


@LAYERS.add((1, 16, 7, 7), opsets=(12, 13))
def contracted_by_einsum(g: Exported) -> str:
    return g.op("Einsum", g.conv(g.x, C, C), g.weight(C, 8), equation="nchw,cd->ndhw")


@LAYERS.add((2, 16, 9, 9), opsets=(18, 21), host="QuantizeLinear DequantizeLinear")
def dynamo_head(g: Exported) -> str:
    """PyTorch's second exporter: means by an input, Reshape to a shape that may hold zeros."""
    c = g.op("ReduceMean", g.op("Relu", g.conv(g.x, C, C)), np.array([-1, -2]), keepdims=1, noop_with_empty_axes=0)
    return g.op("Gemm", g.op("Reshape", c, np.array([2, 16]), allowzero=1), g.weight(10, C), g.vector(10), transB=1)


@LAYERS.add((1, 16, 7, 7), opsets=(9, 13))
def residual_by_sum(g: Exported) -> str:
    """Caffe2: residuals of two and of three."""
    a = g.conv(g.x, C, C)
    b = g.op("Relu", g.op("Sum", a, g.conv(a, C, C)))
    return g.conv(g.op("Relu", g.op("Sum", a, b, g.conv(b, C, C))), C, C)
