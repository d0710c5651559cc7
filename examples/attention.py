"""A block of multi-head self-attention over a short sequence, as an encoder of a transformer has it: post-norm.

Four projections, two products of activations, a softmax, the addition that goes around them, and a layer norm.
Float32; its weights are drawn at random. 0.66 million multiply-accumulates, 0.52 million of them in the projections.
"""

import numpy as np
import onnx

from examples.command import write_model
from examples.graph import OPSET, Array, Graph

TOKENS, WIDTH, HEADS = 32, 64, 4
_HEAD = WIDTH // HEADS


def attention(seed: int = 0, *, opset: int = OPSET) -> onnx.ModelProto:
    """The model: input ``tokens`` float32 [32, 64], output ``norm`` of the same shape; four heads of 16 channels."""
    rng = np.random.default_rng(seed)
    graph = Graph("attention")
    tokens = graph.input("tokens", (TOKENS, WIDTH))
    query, key, value = (_heads(graph, rng, name, tokens) for name in ("query", "key", "value"))
    keys = graph.node("Transpose", "key_transposed", [key], perm=[0, 2, 1])
    scores = graph.node("MatMul", "scores", [query, keys])
    scaled = graph.node("Mul", "scaled", [scores, graph.constant("scale", np.array(_HEAD**-0.5, np.float32))])
    weights = graph.node("Softmax", "softmax", [scaled], axis=-1)
    mixed = graph.node("MatMul", "mixed", [weights, value])
    together = graph.node("Transpose", "together", [mixed], perm=[1, 0, 2])
    joined = graph.node("Reshape", "joined", [together, graph.constant("joined_shape", np.array([TOKENS, WIDTH]))])
    summed = graph.node("Add", "residual", [tokens, _projected(graph, rng, "output", joined)])
    scale = graph.constant("norm_scale", np.ones(WIDTH, np.float32))
    bias = graph.constant("norm_bias", np.zeros(WIDTH, np.float32))
    graph.output(graph.node("LayerNormalization", "norm", [summed, scale, bias]), (TOKENS, WIDTH))
    return graph.model(opset)


def scores_to_context(
    heads: int, queries: int, keys: int, width: int, *, mask: Array | None = None, transposed: bool = False
) -> onnx.ModelProto:
    """Attention without its projections: inputs ``q``, ``k`` and ``v``, float32 [heads, queries or keys, width].

    ``mask`` is added to the scores; ``transposed``: ``k`` is [heads, width, keys].
    """
    graph = Graph("scores_to_context")
    query = graph.input("q", (heads, queries, width))
    key = graph.input("k", (heads, width, keys) if transposed else (heads, keys, width))
    value = graph.input("v", (heads, keys, width))
    if not transposed:
        key = graph.node("Transpose", "key_transposed", [key], perm=[0, 2, 1])
    scores = graph.node("MatMul", "scores", [query, key])
    scores = graph.node("Div", "scaled", [scores, graph.constant("scale", np.array(width**0.5, np.float32))])
    if mask is not None:
        scores = graph.node("Add", "masked", [scores, graph.constant("mask", mask.astype(np.float32))])
    weights = graph.node("Softmax", "softmax", [scores], axis=-1)
    graph.node("MatMul", "context", [weights, value], "y")
    graph.output("y", (heads, queries, width))
    return graph.model()


def _projected(graph: Graph, rng: np.random.Generator, name: str, value: str) -> str:
    """A dense layer from all channels to all."""
    weights = rng.normal(0, WIDTH**-0.5, (WIDTH, WIDTH)).astype(np.float32)
    bias = rng.normal(0, 0.1, WIDTH).astype(np.float32)
    inputs = [value, graph.constant(f"{name}_weights", weights), graph.constant(f"{name}_bias", bias)]
    return graph.node("Gemm", name, inputs)


def _heads(graph: Graph, rng: np.random.Generator, name: str, value: str) -> str:
    """A projection, [32, 64], as heads: [4, 32, 16]."""
    shape = graph.constant(f"{name}_shape", np.array([TOKENS, HEADS, _HEAD]))
    split = graph.node("Reshape", f"{name}_split", [_projected(graph, rng, name, value), shape])
    return graph.node("Transpose", f"{name}_heads", [split], perm=[1, 0, 2])


def main() -> None:
    """Write the model to the file named on the command line."""
    write_model(attention, __doc__)


if __name__ == "__main__":
    main()
