"""A block of a transformer whose attention is within windows."""

from typing import Any

import numpy as np
import onnx

from examples.graph import Graph


def windowed_attention(windows: int = 4, width: int = 4, channels: int = 16) -> onnx.ModelProto:
    """A block of a Swin transformer: attention within windows that are rolled by half their width, and two layers."""
    graph, side = Graph("windows"), windows * width
    tokens, every = width * width, windows * windows

    def move(op: str, name: str, x: str, **more: Any) -> str:
        return graph.node(op, name, [x], **more)

    def reshape(name: str, x: str, shape: tuple[int, ...]) -> str:
        return graph.node("Reshape", name, [x, graph.constant(f"{name}_shape", np.array(shape, np.int64))])

    def rolled(name: str, x: str, by: int) -> str:
        parts = []
        for part, (low, high) in enumerate(((by, side), (0, by))):
            given = {"from": low, "to": high, "axis": 1}
            bounds = [graph.constant(f"{name}_{part}_{k}", np.array([v], np.int64)) for k, v in given.items()]
            parts.append(graph.node("Slice", f"{name}_{part}", [x, *bounds]))
        return graph.node("Concat", name, parts, axis=1)

    def layer(name: str, x: str, shape: tuple[int, int]) -> str:
        drawn = np.random.default_rng(len(name)).normal(size=shape).astype(np.float32) / 4
        return graph.node("MatMul", name, [x, graph.constant(f"{name}_w", drawn)])

    x = graph.input("x", (1, side, side, channels))
    apart = reshape("apart", rolled("ahead", x, width // 2), (1, windows, width, windows, width, channels))
    inside = reshape("inside", move("Transpose", "split", apart, perm=[0, 1, 3, 2, 4, 5]), (every, tokens, channels))
    query, key, value = (layer(name, inside, (channels, channels)) for name in ("query", "key", "value"))
    scores = graph.node("MatMul", "scores", [query, move("Transpose", "turned", key, perm=[0, 2, 1])])
    mixed = graph.node("MatMul", "mixed", [move("Softmax", "shares", scores, axis=-1), value])
    out = layer("out", mixed, (channels, channels))
    whole = reshape("whole", out, (1, windows, windows, width, width, channels))
    joined = move("Transpose", "joined", whole, perm=[0, 1, 3, 2, 4, 5])
    back = rolled("behind", reshape("back", joined, (1, side, side, channels)), side - width // 2)
    total = graph.node("Add", "residual", [x, back])
    wide = move("Relu", "act", layer("wide", total, (channels, 4 * channels)))
    result = graph.node("Add", "sum", [total, layer("narrow", wide, (4 * channels, channels))])
    graph.output(result, (1, side, side, channels))
    return graph.model()
