"""Blocks of decoders: GPT-2, and Llama with all tokens at once or with one and those before it in a cache."""

import numpy as np
import onnx

from examples.transformers.builder import LOWEST, Heads, Tokens, angles
from examples.transformers.nodes import PLAIN


def gpt2_block(
    seed: int = 0, *, opset: int = PLAIN, width: int = 768, heads: int = 12, tokens: int = 64
) -> onnx.ModelProto:
    """Radford et al. 2019: input and output [1, tokens, width]; one product makes queries, keys and values."""
    net, shape = Tokens("gpt2_block", seed, opset), Heads(heads, heads, width // heads)
    x = net.input("hidden_states", (1, tokens, width))
    with net.within("attn"):
        wide = net.linear(net.layer_norm(x, width), (width, 3 * width))
        q, k, v = (net.split(part, heads, shape.depth) for part in net.parts(wide, 3, 2))
        causal = net.constant(np.triu(np.full((1, 1, tokens, tokens), LOWEST), 1), name="mask")
        y = net.joined(net.attend(q, k, v, shape, causal, causal=True), width)
        x = net.node("Add", net.linear(y, (width, width)), x)
    x = net.node("Add", x, net.mlp(net.layer_norm(x, width), width, 4 * width, tanh=True))
    net.output(x, "output", (1, tokens, width))
    return net.finish()


def llama_block(
    seed: int = 0,
    *,
    opset: int = PLAIN,
    width: int = 512,
    heads: int = 8,
    groups: int = 2,
    tokens: int = 64,
    past: int = 0,
) -> onnx.ModelProto:
    """Touvron et al. 2023: norms by the mean square, rotary places, heads that share keys, a gated product of SiLU.

    Where there are tokens ``past``, their keys and values [1, groups, past, depth] are inputs, and all that are there
    then are outputs.
    """
    net, shape = Tokens("llama_block", seed, opset), Heads(heads, groups, width // heads)
    x = net.input("hidden_states", (1, tokens, width))
    cosines, sines = angles(range(past, past + tokens), shape.depth)
    with net.within("self_attn"):
        y, narrow = net.rms_norm(x, width), groups * shape.depth
        q = net.split(net.linear(y, (width, width), bias=False), heads, shape.depth)
        k, v = (net.split(net.linear(y, (width, narrow), bias=False), groups, shape.depth) for _ in range(2))
        q, k = net.rotated(q, cosines, sines), net.rotated(k, cosines, sines)
        if past:
            kept = (1, groups, past, shape.depth)
            k = net.node("Concat", net.input("past_key", kept), k, axis=2)
            v = net.node("Concat", net.input("past_value", kept), v, axis=2)
        mask = ""
        if tokens > 1:
            later = np.triu(np.full((tokens, past + tokens), LOWEST), past + 1)
            mask = net.constant(later[None, None], name="mask")
        y = net.attend(q, k, v, shape, mask, causal=tokens > 1 and not past)
        x = net.node("Add", x, net.linear(net.joined(y, width), (width, width), bias=False))
    with net.within("mlp"):
        y, hidden = net.rms_norm(x, width), 11 * width // 4
        gate = net.silu(net.linear(y, (width, hidden), bias=False))
        gated = net.node("Mul", gate, net.linear(y, (width, hidden), bias=False))
        x = net.node("Add", x, net.linear(gated, (hidden, width), bias=False, gain=2))
    net.output(x, "output", (1, tokens, width))
    if past:
        there = (1, groups, past + tokens, shape.depth)
        net.output(k, "present_key", there)
        net.output(v, "present_value", there)
    return net.finish()


def llama_decode(seed: int = 0, *, opset: int = PLAIN) -> onnx.ModelProto:
    """One token behind 63 others, whose keys and values are inputs."""
    return llama_block(seed, opset=opset, tokens=1, past=63)
