"""What belongs to a layer though it is a node of its own: norms, biases and scales in disguise, widths of padding."""

import numpy as np

from tests.helpers.exported.case import Catalogue
from tests.helpers.exported.graph import Exported

FOLDS = Catalogue()
C = 16
LAYERS = "QuantizeLinear DequantizeLinear Conv Gemm MatMul"


@FOLDS.add(opsets=(9, 13, 14, 15, 21), host=LAYERS)
def norm_after_conv(g: Exported) -> str:
    return g.op("Relu", g.norm(g.conv(g.x, C, 24, bias=False), 24))


@FOLDS.add(opsets=(9, 13), host=f"{LAYERS} BatchNormalization Relu")
def norm_before_conv(g: Exported) -> str:
    return g.conv(g.op("Relu", g.norm(g.x, C)), C, 24)


@FOLDS.add(opsets=(9, 15), host=f"{LAYERS} Add")
def preactivation(g: Exported) -> str:
    """A block of ResNet V2 and of DenseNet."""
    c = g.conv(g.x, C, C)
    inner = g.conv(g.op("Relu", g.norm(c, C)), C, C, bias=False)
    inner = g.conv(g.op("Relu", g.norm(inner, C)), C, C, bias=False)
    return g.conv(g.op("Relu", g.norm(g.op("Add", c, inner), C)), C, 8, kernel=1)


@FOLDS.add(opsets=(9, 13))
def dense_block(g: Exported) -> str:
    c, channels = g.conv(g.x, C, C), C
    for _ in range(2):
        n = g.op("Relu", g.norm(c, channels))
        c = g.op("Concat", c, g.conv(n, channels, 8, bias=False), axis=1)
        channels += 8
    return g.conv(g.op("Relu", g.norm(c, channels)), channels, C, kernel=1)


@FOLDS.add(opsets=(9, 13), host=f"{LAYERS} MaxPool")
def norm_in_caffes_parts_alone(g: Exported) -> str:
    """A norm, then Mul and Add by channel, as light_densenet121 has them."""
    c = g.op("MaxPool", g.op("Relu", g.conv(g.x, C, C)), kernel_shape=[2, 2], strides=[2, 2])
    n = g.norm(c, C)
    scaled = g.op("Mul", n, g.vector(C, 1, 1, low=0.5, high=1.5))
    return g.conv(g.op("Relu", g.op("Add", scaled, g.vector(C, 1, 1))), C, C)


@FOLDS.add(opsets=(9, 13))
def norm_after_transposed(g: Exported) -> str:
    up = g.op("ConvTranspose", g.x, g.weight(C, 8, 2, 2), g.vector(8), strides=[2, 2])
    return g.op("Relu", g.norm(up, 8))


@FOLDS.add((4, 32), opsets=(9, 13, 15), host=LAYERS)
def norm_after_gemm(g: Exported) -> str:
    h = g.op("Gemm", g.x, g.weight(24, 32), g.vector(24), transB=1)
    return g.op("Gemm", g.op("Relu", g.norm(h, 24)), g.weight(10, 24), g.vector(10), transB=1)


@FOLDS.add((4, 32), opsets=(9, 13, 15), host=LAYERS)
def norm_after_matmul(g: Exported) -> str:
    h = g.op("Add", g.op("MatMul", g.x, g.weight(32, 24)), g.vector(24))
    return g.op("Relu", g.norm(h, 24))


@FOLDS.add((4, 32), opsets=(9, 13), host=LAYERS)
def norm_before_gemm(g: Exported) -> str:
    return g.op("Gemm", g.norm(g.x, 32), g.weight(24, 32), g.vector(24), transB=1)


@FOLDS.add(opsets=(9, 13), host=LAYERS)
def bias_in_disguise(g: Exported) -> str:
    c = g.op("Add", g.conv(g.x, C, C, bias=False), g.vector(1, C, 1, 1))
    d = g.op("Add", g.vector(C, 1, 1), g.conv(g.op("Relu", c), C, C, bias=False))
    return g.op("Relu", d)


@FOLDS.add(opsets=(9, 13), host=LAYERS)
def second_bias(g: Exported) -> str:
    return g.op("Relu", g.op("Add", g.conv(g.x, C, C), g.vector(1, C, 1, 1)))


@FOLDS.add(opsets=(9, 13), host=LAYERS)
def bias_of_one_number(g: Exported) -> str:
    return g.op("Relu", g.op("Sub", g.conv(g.x, C, C), np.float32(0.25)))


@FOLDS.add(opsets=(9, 13), host=LAYERS)
def scale_in_disguise(g: Exported) -> str:
    c = g.op("Mul", g.conv(g.x, C, C), g.vector(C, 1, 1, low=0.5, high=1.5))
    return g.op("Relu", g.op("Add", c, g.vector(1, C, 1, 1)))


@FOLDS.add(opsets=(9, 13), host=LAYERS)
def division_in_disguise(g: Exported) -> str:
    c = g.op("Div", g.conv(g.x, C, C), g.vector(1, C, 1, 1, low=0.5, high=1.5))
    return g.op("Relu", g.op("Mul", c, np.float32(0.5)))


@FOLDS.add(opsets=(9, 13))
def transposed_with_bias_and_scale(g: Exported) -> str:
    up = g.op("ConvTranspose", g.x, g.weight(C, 8, 2, 2), strides=[2, 2])
    scaled = g.op("Mul", up, g.vector(8, 1, 1, low=0.5, high=1.5))
    return g.op("Relu", g.op("Add", scaled, g.vector(8, 1, 1)))


@FOLDS.add((4, 32), opsets=(9, 13), host=LAYERS)
def gemm_with_bias_and_scale(g: Exported) -> str:
    h = g.op("Gemm", g.x, g.weight(24, 32), g.vector(24), transB=1)
    return g.op("Relu", g.op("Add", g.op("Mul", h, g.vector(24, low=0.5, high=1.5)), g.vector(24)))


@FOLDS.add((1, 3, 16, 16), opsets=(9, 13))
def normalised_image(g: Exported) -> str:
    """The mean and the deviation of the training images as nodes."""
    x = g.op("Div", g.op("Sub", g.x, g.vector(1, 3, 1, 1)), g.vector(1, 3, 1, 1, low=0.5, high=1))
    return g.op("Relu", g.conv(x, 3, C))


@FOLDS.add(opsets=(9, 13), host=LAYERS)
def layer_scale(g: Exported) -> str:
    """ConvNeXt: a branch scaled by channel, then added."""
    c = g.conv(g.x, C, C)
    branch = g.op("Mul", g.conv(c, C, C), g.vector(1, C, 1, 1))
    return g.conv(g.op("Add", c, branch), C, C)


@FOLDS.add((1, 14, 14, 16), opsets=(9, 11, 13))
def keras_from_nhwc(g: Exported) -> str:
    """tf2onnx: transposed at the door, padded apart, a bias by channel, a relu6, transposed again."""
    x = g.op("Transpose", g.x, perm=[0, 3, 1, 2])
    c = g.op("Conv", x, g.weight(24, C, 3, 3), strides=[2, 2], auto_pad="SAME_UPPER")
    c = g.clip(g.op("Add", c, g.vector(1, 24, 1, 1)), 0, 6)
    d = g.op("Conv", c, g.weight(24, 1, 3, 3), group=24, pads=[1, 1, 1, 1])
    d = g.op("Transpose", g.clip(g.norm(d, 24), 0, 6), perm=[0, 2, 3, 1])
    if g.opset < 18:
        mean = g.op("ReduceMean", d, axes=[1, 2], keepdims=0)
    return g.op("Softmax", g.op("Add", g.op("MatMul", mean, g.weight(24, 10)), g.vector(10)), axis=1)


@FOLDS.add((1, 16, 14, 14), opsets=(9, 11, 13, 18, 21), host=LAYERS)
def pad_then_conv(g: Exported) -> str:
    c = g.op("Relu", g.conv(g.x, C, C))
    widths = [0, 0, 1, 1, 0, 0, 2, 2]
    if g.opset < 11:
        p = g.op("Pad", c, pads=widths, mode="constant", value=0.0)
    else:
        p = g.op("Pad", c, np.array(widths, np.int64), np.float32(0))
    return g.op("Conv", p, g.weight(24, C, 3, 3), strides=[2, 2])


@FOLDS.add((1, 16, 14, 14), opsets=(9, 11, 13, 19))
def pads_of_other_modes(g: Exported) -> str:
    c = g.conv(g.x, C, C)
    for mode in ("reflect", "edge", "constant"):
        widths = [0, 0, 1, 2, 0, 0, 2, 1]
        if g.opset < 11:
            c = g.op("Pad", c, pads=widths, mode=mode, value=0.5)
        else:
            c = g.op("Pad", c, np.array(widths, np.int64), np.float32(0.5), mode=mode)
        c = g.op("Conv", c, g.weight(C, C, 3, 3))
    return c


@FOLDS.add(opsets=(9, 13), host=LAYERS)
def shared_weight(g: Exported) -> str:
    """One initializer in two convolutions."""
    weight = g.constant(g.weight(C, C, 3, 3))
    bias = g.constant(g.vector(C))
    c = g.op("Relu", g.op("Conv", g.x, weight, bias, pads=[1, 1, 1, 1]))
    return g.op("Relu", g.op("Conv", c, weight, bias, pads=[1, 1, 1, 1]))


@FOLDS.add(opsets=(9, 13), host=LAYERS)
def identities(g: Exported) -> str:
    c = g.op("Identity", g.conv(g.x, C, C))
    for _ in range(3):
        c = g.op("Identity", g.op("Dropout", g.op("Relu", c)))
    return g.op("Identity", g.conv(c, C, C))


@FOLDS.add(opsets=(11, 13, 21))
def group_norm(g: Exported) -> str:
    """By reshaping, an instance norm, and reshaping again."""
    c = g.conv(g.x, C, C)
    r = g.op("Reshape", c, np.array([0, 4, -1], np.int64))
    n = g.op("InstanceNormalization", r, np.ones(4, np.float32), np.zeros(4, np.float32))
    back = g.op("Reshape", n, g.op("Shape", c))
    scaled = g.op("Add", g.op("Mul", back, g.vector(C, 1, 1, low=0.5, high=1.5)), g.vector(C, 1, 1))
    return g.conv(g.op("Relu", scaled), C, C)


@FOLDS.add(opsets=(9, 13))
def instance_norm(g: Exported) -> str:
    n = g.op("InstanceNormalization", g.conv(g.x, C, C), g.vector(C, low=0.5, high=1.5), g.vector(C))
    return g.conv(g.op("Relu", n), C, C)


@FOLDS.add((2, 10, 32), opsets=(9, 13, 18))
def layer_norm_in_parts(g: Exported) -> str:
    def mean(x: str) -> str:
        return g.axes("ReduceMean", x, [-1], since=18)

    h = g.op("Add", g.op("MatMul", g.x, g.weight(32, 32)), g.vector(32))
    centred = g.op("Sub", h, mean(h))
    deviation = g.op("Sqrt", g.op("Add", mean(g.op("Pow", centred, np.float32(2))), np.float32(1e-5)))
    n = g.op("Mul", g.op("Div", centred, deviation), g.vector(32, low=0.5, high=1.5))
    return g.op("MatMul", g.op("Add", n, g.vector(32)), g.weight(32, 16))


@FOLDS.add((2, 10, 32), opsets=(17, 21))
def layer_norm(g: Exported) -> str:
    h = g.op("Add", g.op("MatMul", g.x, g.weight(32, 32)), g.vector(32))
    n = g.op("LayerNormalization", h, g.vector(32, low=0.5, high=1.5), g.vector(32), axis=-1)
    return g.op("MatMul", n, g.weight(32, 16))


@FOLDS.add(opsets=(9, 13))
def response_norm(g: Exported) -> str:
    return g.conv(g.op("LRN", g.op("Relu", g.conv(g.x, C, C)), size=5, alpha=1e-4, beta=0.75, bias=1.0), C, C)
