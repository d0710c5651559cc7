"""Encoders: BERT, the vision transformer, and Whisper's."""

import numpy as np
import onnx
from onnx import TensorProto

from examples.transformers.builder import LOWEST, Heads, Tokens
from examples.transformers.nodes import PLAIN

_WORDS = 30_522  # of BERT's vocabulary


def _attended(net: Tokens, x: str, heads: Heads, mask: str = "") -> str:
    """Self-attention with its projections."""
    with net.within("attention"):
        width = heads.width
        q, k, v = (net.split(net.linear(x, (width, width)), heads.queries, heads.depth) for _ in range(3))
        return net.linear(net.joined(net.attend(q, k, v, heads, mask), width), (width, width))


def bert(
    seed: int = 0, *, opset: int = PLAIN, layers: int = 12, width: int = 768, heads: int = 12, tokens: int = 128
) -> onnx.ModelProto:
    """Devlin et al. 2019: inputs ``input_ids`` and ``attention_mask`` int64 [1, tokens], output the hidden states."""
    net, shape = Tokens("bert", seed, opset), Heads(heads, heads, width // heads)
    ids = net.input("input_ids", (1, tokens), TensorProto.INT64)
    kept = net.input("attention_mask", (1, tokens), TensorProto.INT64)
    mask = net.node("Expand", net.reshape(kept, 1, 1, 1, tokens), net.constant([1, 1, tokens, tokens], np.int64))
    mask = net.node("Cast", mask, to=TensorProto.FLOAT)
    mask = net.node("Mul", net.node("Sub", net.constant(1), mask), net.constant(LOWEST))
    with net.within("embeddings"):
        x = net.node("Gather", net.normal(_WORDS, width), ids)
        x = net.node("Add", x, net.normal(1, tokens, width, deviation=0.5))
        x = net.layer_norm(x, width, 1e-12)
    for layer in range(layers):
        with net.within(f"layer.{layer}"):
            x = net.layer_norm(net.node("Add", _attended(net, x, shape, mask), x), width, 1e-12)
            x = net.layer_norm(net.node("Add", net.mlp(x, width, 4 * width), x), width, 1e-12)
    net.output(x, "last_hidden_state", (1, tokens, width))
    return net.finish()


def bert_tiny(seed: int = 0, *, opset: int = PLAIN) -> onnx.ModelProto:
    """BERT of two layers of 128 channels (Turc et al. 2019)."""
    return bert(seed, opset=opset, layers=2, width=128, heads=2)


def vit(
    seed: int = 0, *, opset: int = PLAIN, layers: int = 12, width: int = 192, heads: int = 3, image: int = 224
) -> onnx.ModelProto:
    """Dosovitskiy et al. 2021, by default at the size of DeiT-Ti: patches of 16 x 16 and a token of the class."""
    net, shape, patches = Tokens("vit", seed, opset), Heads(heads, heads, width // heads), (image // 16) ** 2
    with net.within("embeddings"):
        x = net.conv(net.input("pixel_values", (1, 3, image, image)), (width, 3, 16, 16), 16, pad=0)
        x = net.transpose(net.reshape(x, 1, width, patches), 0, 2, 1)
        x = net.node("Concat", net.normal(1, 1, width), x, axis=1)
        x = net.node("Add", x, net.normal(1, patches + 1, width, deviation=0.5))
    for layer in range(layers):
        with net.within(f"layer.{layer}"):
            x = net.node("Add", _attended(net, net.layer_norm(x, width, 1e-6), shape), x)
            x = net.node("Add", net.mlp(net.layer_norm(x, width, 1e-6), width, 4 * width), x)
    first = net.node("Gather", net.layer_norm(x, width, 1e-6), net.constant(0, np.int64), axis=1)
    net.output(net.classes(first, (width, 1000)), "logits", (1, 1000))
    return net.finish()


def whisper_encoder(
    seed: int = 0, *, opset: int = PLAIN, layers: int = 4, width: int = 384, heads: int = 6, frames: int = 3000
) -> onnx.ModelProto:
    """Radford et al. 2022, by default the tiny one: ``frames`` spectra of 80 bands, halved by a convolution."""
    net, shape, tokens = Tokens("whisper_encoder", seed, opset), Heads(heads, heads, width // heads), frames // 2
    x = net.gelu(net.conv(net.input("input_features", (1, 80, frames)), (width, 80, 3)))
    x = net.transpose(net.gelu(net.conv(x, (width, width, 3), 2)), 0, 2, 1)
    rates = np.exp(-np.log(10_000) / (width // 2 - 1) * np.arange(width // 2))
    turns = np.outer(np.arange(tokens), rates)
    x = net.node("Add", x, net.constant(np.concatenate([np.sin(turns), np.cos(turns)], 1), name="embed_positions"))
    for layer in range(layers):
        with net.within(f"layers.{layer}"):
            x = net.node("Add", x, _attended(net, net.layer_norm(x, width), shape))
            x = net.node("Add", x, net.mlp(net.layer_norm(x, width), width, 4 * width))
    net.output(net.layer_norm(x, width), "last_hidden_state", (1, tokens, width))
    return net.finish()
