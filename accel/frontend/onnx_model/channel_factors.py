"""Factors of the channels of tensors, which two layers agree on when a model is quantised.

They travel in the metadata of the nodes whose results have them, so that these can be compared with those of the
float network.
"""

import json

import numpy as np
import onnx

from accel.frontend.onnx_model.onnx_nodes import note_of, set_note
from accel.util.arrays import Float32, Float64

_KEY = "cyclops.channel_factors"


def note_channel_factors(node: onnx.NodeProto, factors: Float64) -> None:
    """Notes on ``node`` what each channel of its result, along axis 1, is multiplied by: [C]."""
    set_note(node, _KEY, json.dumps([float(np.float32(factor)) for factor in factors]))


def channel_factors(model: onnx.ModelProto) -> dict[str, Float32]:
    """Returns by tensor what each of its channels, along axis 1, is multiplied by: [C]."""
    found: dict[str, Float32] = {}
    for node in model.graph.node:
        text = note_of(node, _KEY)
        factors = None if text is None else _factors(text)
        if factors is not None:
            found |= dict.fromkeys(map(str, node.output), factors)
    return found


def _factors(text: str) -> Float32 | None:
    """The factors that a node bears; None of a text that is none, as whoever has changed the file may have left."""
    try:
        factors = np.asarray(json.loads(text), np.float32)
    except (ValueError, TypeError):
        return None
    fit = factors.ndim == 1 and bool(np.isfinite(factors).all() and (factors > 0).all())
    return factors if fit else None
