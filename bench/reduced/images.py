"""ConvNeXt, U-Net and a YOLO of one stage a scale, in the structure of the large ones: few channels, small images."""

import numpy as np
import onnx
from reduced.sketch import Sketch


def convnext(seed: int = 0) -> onnx.ModelProto:
    """Liu et al. 2022: depthwise 7 x 7, layer norm, two dense layers around a GELU, a scale for each channel."""
    net = Sketch("convnext", seed)
    x = net.conv(net.input("x", (1, 3, 64, 64)), (3, 32), 4, 4, gain=1)
    x = _channels_norm(net, x, 32)
    width = 32
    for filters, blocks in ((32, 2), (64, 2), (128, 2)):
        if filters != width:
            x = net.conv(_channels_norm(net, x, width), (width, filters), 2, 2, gain=1)
        width = filters
        for _ in range(blocks):
            y = net.transpose(net.conv(x, (width, width), 7, groups=width, gain=1), 0, 2, 3, 1)
            y = net.linear(net.layer_norm(y, width), (width, 4 * width))
            y = net.linear(net.gelu(y), (4 * width, width), gain=2)
            y = net.node("Mul", net.constant(net.random.uniform(0.2, 0.8, width)), y)
            x = net.node("Add", net.transpose(y, 0, 3, 1, 2), x)
    x = net.node("ReduceMean", x, axes=[-1, -2], keepdims=0)
    x = net.layer_norm(x, width)
    weight = net.normal(10, width, deviation=width**-0.5)
    return net.finish(net.node("Gemm", x, weight, net.normal(10, deviation=0.1), transB=1), (1, 10))


def _channels_norm(net: Sketch, x: str, width: int) -> str:
    return net.transpose(net.layer_norm(net.transpose(x, 0, 2, 3, 1), width), 0, 3, 1, 2)


def unet(seed: int = 0) -> onnx.ModelProto:
    """Ronneberger et al. 2015, with batch norms folded: max poolings down, transposed convolutions up, skips."""
    net = Sketch("unet", seed)
    x, width, skips = net.input("x", (1, 3, 64, 64)), 3, []
    for filters in (16, 32, 64):
        x = _double(net, x, (width, filters))
        skips.append((x, filters))
        x, width = net.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]), filters
    x, width = _double(net, x, (64, 128)), 128
    for skip, filters in reversed(skips):
        weight = net.normal(width, filters, 2, 2, deviation=width**-0.5)
        up = net.node("ConvTranspose", x, weight, net.normal(filters, deviation=0.1), strides=[2, 2])
        x, width = _double(net, net.node("Concat", skip, up, axis=1), (2 * filters, filters)), filters
    return net.finish(net.conv(x, (16, 4), 1, gain=1), (1, 4, 64, 64))


def _double(net: Sketch, x: str, channels: tuple[int, int]) -> str:
    x = net.relu(net.conv(x, channels))
    return net.relu(net.conv(x, (channels[1], channels[1])))


def yolo(seed: int = 0) -> onnx.ModelProto:
    """As YOLOv8: SiLU, split stages, a pyramid of poolings, two scales of heads; scores beside decoded boxes."""
    net = Sketch("yolo", seed)
    x = net.silu(net.conv(net.input("x", (1, 3, 96, 96)), (3, 16), 3, 2))
    x = _stage(net, net.silu(net.conv(x, (16, 32), 3, 2)), 32, 32)
    fine = _stage(net, net.silu(net.conv(x, (32, 64), 3, 2)), 64, 64)
    coarse = _stage(net, net.silu(net.conv(fine, (64, 96), 3, 2)), 96, 96)
    coarse = _pyramid(net, coarse, 96)
    scales = net.constant([1, 1, 2, 2])
    up = net.node(
        "Resize", coarse, "", scales, mode="nearest", nearest_mode="floor", coordinate_transformation_mode="asymmetric"
    )
    fine = _stage(net, net.node("Concat", up, fine, axis=1), 160, 64)
    down = net.silu(net.conv(fine, (64, 64), 3, 2))
    coarse = _stage(net, net.node("Concat", down, coarse, axis=1), 160, 96)
    heads = [_head(net, fine, 64, 144), _head(net, coarse, 96, 36)]
    both = net.node("Concat", *heads, axis=2)
    distances, scores = both, f"{both}.1"
    split = net.constant([32, 8], np.int64)
    distances = net.node("Split", both, split, axis=1, outputs=2)
    scores = net.node("Sigmoid", f"{distances}.1")
    return net.finish(net.node("Concat", _boxes(net, distances), scores, axis=1), (1, 12, 180))


def _stage(net: Sketch, x: str, inputs: int, width: int) -> str:
    """C2f: half of the channels go by, half go through a bottleneck with a residual, all are joined."""
    half = width // 2
    x = net.silu(net.conv(x, (inputs, width), 1))
    first = net.node("Split", x, net.constant([half, half], np.int64), axis=1, outputs=2)
    second = f"{first}.1"
    y = net.silu(net.conv(net.silu(net.conv(second, (half, half))), (half, half)))
    y = net.node("Add", second, y)
    return net.silu(net.conv(net.node("Concat", first, second, y, axis=1), (3 * half, width), 1))


def _pyramid(net: Sketch, x: str, width: int) -> str:
    """SPPF."""
    parts = [net.silu(net.conv(x, (width, width // 2), 1))]
    for _ in range(3):
        parts.append(net.node("MaxPool", parts[-1], kernel_shape=[5, 5], strides=[1, 1], pads=[2] * 4))
    return net.silu(net.conv(net.node("Concat", *parts, axis=1), (2 * width, width), 1))


def _head(net: Sketch, x: str, width: int, places: int) -> str:
    boxes = net.conv(net.silu(net.conv(x, (width, 32))), (32, 32), 1, gain=1)
    scores = net.conv(net.silu(net.conv(x, (width, 32))), (32, 8), 1, gain=1)
    return net.reshape(net.node("Concat", boxes, scores, axis=1), 1, 40, places)


def _boxes(net: Sketch, distances: str) -> str:
    """Each side's distance is the mean of a distribution over 8 bins, in cells, from the places of a grid."""
    bins = net.node("Softmax", net.transpose(net.reshape(distances, 1, 4, 8, 180), 0, 2, 1, 3), axis=1)
    weight = net.constant(np.arange(8).reshape(1, 8, 1, 1))
    sides = net.reshape(net.node("Conv", bins, weight), 1, 4, 180)
    cells = [np.stack(np.meshgrid(np.arange(n), np.arange(n)), 0).reshape(2, -1) + 0.5 for n in (12, 6)]
    grid = net.constant(np.concatenate(cells, 1)[None])
    near = net.node("Sub", grid, net.slice(sides, 0, 2, 1))
    far = net.node("Add", grid, net.slice(sides, 2, 4, 1))
    centre = net.node("Div", net.node("Add", near, far), net.constant(2))
    boxes = net.node("Concat", centre, net.node("Sub", far, near), axis=1)
    return net.node("Mul", boxes, net.constant([[8.0] * 144 + [16.0] * 36]))
