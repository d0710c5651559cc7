"""Networks of images beside transformers: ConvNeXt, the MLP-Mixer, and MobileViT."""

import onnx

from examples.transformers.builder import Heads, Tokens
from examples.transformers.nodes import PLAIN


def _channels_last(net: Tokens, x: str) -> str:
    return net.transpose(x, 0, 2, 3, 1)


def _channels_first(net: Tokens, x: str) -> str:
    return net.transpose(x, 0, 3, 1, 2)


def _normed(net: Tokens, x: str, width: int) -> str:
    """A norm over the channels of an image."""
    return _channels_first(net, net.layer_norm(_channels_last(net, x), width, 1e-6))


def convnext(
    seed: int = 0,
    *,
    opset: int = PLAIN,
    depths: tuple[int, ...] = (3, 3, 9, 3),
    widths: tuple[int, ...] = (96, 192, 384, 768),
    image: int = 224,
) -> onnx.ModelProto:
    """Liu et al. 2022, by default the tiny one, as torchvision has it: each block scales its channels."""
    net = Tokens("convnext", seed, opset)
    x = _normed(net, net.conv(net.input("x", (1, 3, image, image)), (widths[0], 3, 4, 4), 4, pad=0), widths[0])
    for stage, (depth, width) in enumerate(zip(depths, widths, strict=True)):
        if stage:
            before = widths[stage - 1]
            x = net.conv(_normed(net, x, before), (width, before, 2, 2), 2, pad=0)
        for block in range(depth):
            with net.within(f"stage.{stage}.{block}"):
                y = _channels_last(net, net.conv(x, (width, 1, 7, 7), groups=width))
                y = net.mlp(net.layer_norm(y, width, 1e-6), width, 4 * width)
                scale = net.constant(net.random.uniform(0.2, 0.6, (width, 1, 1)), name="layer_scale")
                x = net.node("Add", net.node("Mul", scale, _channels_first(net, y)), x)
    pooled = _normed(net, net.node("GlobalAveragePool", x), widths[-1])
    net.output(net.classes(net.node("Flatten", pooled), (widths[-1], 1000)), "logits", (1, 1000))
    return net.finish()


def mlp_mixer(
    seed: int = 0, *, opset: int = PLAIN, layers: int = 8, width: int = 512, image: int = 224, patch: int = 16
) -> onnx.ModelProto:
    """Tolstikhin et al. 2021, by default S/16: dense layers over the patches, then over the channels."""
    net, patches = Tokens("mlp_mixer", seed, opset), (image // patch) ** 2
    x = net.conv(net.input("x", (1, 3, image, image)), (width, 3, patch, patch), patch, pad=0)
    x = net.transpose(net.reshape(x, 1, width, patches), 0, 2, 1)
    for layer in range(layers):
        with net.within(f"blocks.{layer}"):
            y = net.transpose(net.layer_norm(x, width, 1e-6), 0, 2, 1)
            x = net.node("Add", x, net.transpose(net.mlp(y, patches, width // 2), 0, 2, 1))
            x = net.node("Add", x, net.mlp(net.layer_norm(x, width, 1e-6), width, 4 * width))
    x = net.mean(net.layer_norm(x, width, 1e-6), 1)
    net.output(net.classes(x, (width, 1000)), "logits", (1, 1000))
    return net.finish()


def mobilevit(seed: int = 0, *, opset: int = PLAIN, image: int = 256) -> onnx.ModelProto:
    """Mehta and Rastegari 2022, XXS: inverted residuals, and transformers over pixels of one place in 2 x 2 patches."""
    net = Tokens("mobilevit", seed, opset)
    x = net.silu(net.conv(net.input("x", (1, 3, image, image)), (16, 3, 3, 3), 2))
    x, width, side = _inverted(net, x, 16, 16, 1), 16, image // 2
    for filters, stride in ((24, 2), (24, 1), (24, 1)):
        x, width, side = _inverted(net, x, width, filters, stride), filters, side // stride
    for stage, (filters, channels, layers) in enumerate(((48, 64, 2), (64, 80, 4), (80, 96, 3))):
        with net.within(f"layers.{stage}"):
            x, width, side = _inverted(net, x, width, filters, 2), filters, side // 2
            x = _over_patches(net, x, width, side, channels, layers)
    x = net.silu(net.conv(x, (320, width, 1, 1)))
    pooled = net.node("Flatten", net.node("GlobalAveragePool", x))
    net.output(net.classes(pooled, (320, 1000)), "logits", (1, 1000))
    return net.finish()


def _inverted(net: Tokens, x: str, width: int, filters: int, stride: int) -> str:
    hidden = 2 * width
    y = net.silu(net.conv(x, (hidden, width, 1, 1)))
    y = net.silu(net.conv(y, (hidden, 1, 3, 3), stride, groups=hidden))
    y = net.conv(y, (filters, hidden, 1, 1))
    return net.node("Add", x, y) if stride == 1 and width == filters else y


def _over_patches(net: Tokens, x: str, width: int, side: int, channels: int, layers: int) -> str:
    shape, half = Heads(4, 4, channels // 4), side // 2
    y = net.conv(net.silu(net.conv(x, (width, width, 3, 3))), (channels, width, 1, 1))
    # [1, channels, side, side] to [4 places, half * half patches, channels]
    y = net.transpose(net.reshape(y, channels * half, 2, half, 2), 0, 2, 1, 3)
    y = net.transpose(net.reshape(y, 1, channels, half * half, 4), 0, 3, 2, 1)
    y = net.reshape(y, 4, half * half, channels)
    for _ in range(layers):
        z = net.layer_norm(y, channels)
        q, k, v = (net.split(net.linear(z, (channels, channels)), 4, shape.depth) for _ in range(3))
        y = net.node("Add", net.linear(net.joined(net.attend(q, k, v, shape), channels), (channels, channels)), y)
        z = net.silu(net.linear(net.layer_norm(y, channels), (channels, 2 * channels)))
        y = net.node("Add", net.linear(z, (2 * channels, channels), gain=2), y)
    y = net.transpose(net.reshape(net.layer_norm(y, channels), 1, 4, half * half, channels), 0, 3, 2, 1)
    y = net.transpose(net.reshape(y, channels * half, half, 2, 2), 0, 2, 1, 3)
    y = net.silu(net.conv(net.reshape(y, 1, channels, side, side), (width, channels, 1, 1)))
    return net.silu(net.conv(net.node("Concat", x, y, axis=1), (width, 2 * width, 3, 3)))
