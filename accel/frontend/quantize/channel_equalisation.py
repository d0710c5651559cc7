"""Equalisation of the channels between two layers: one takes a factor, the other its reciprocal.

An activation has one scale, and so have the weights of a layer where machines shift. A channel that is small beside the
others has few of their levels. What lies between two layers and keeps positive factors, as a relu does, allows each
channel a factor that the first layer multiplies by and the second divides by: the network computes what it did, and
no machine takes a cycle more (Nagel et al., 2019, "Data-Free Quantization Through Weight Equalization and Bias
Correction"). Here factors are those of the least noise in the second layer's sums, of activations and of weights.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from accel.frontend.fold.float_network import FloatNetwork
from accel.frontend.fold.layer_folding import fed_layer, layer_constants, scaled_layer
from accel.frontend.onnx_model.channel_factors import note_channel_factors
from accel.frontend.onnx_model.onnx_nodes import attribute_of, set_attributes
from accel.util.arrays import Array, Float32, Float64

_MAKERS = ("Conv", "ConvTranspose", "Gemm")
_READERS = ("Conv", "Gemm", "MatMul")
_BETWEEN = ("AveragePool", "Clip", "LeakyRelu", "MaxPool", "Relu")
_ROWS, _IMAGES = 2, (3, 4, 5)  # axes
_LEFT = 0.5  # of the noise of weights, where they make up for each other
_POWERS = np.array([*itertools.product((0.0, 0.25, 0.5, 0.75, 1.0), repeat=2)])  # of tops and of weights [25, 2]
_MOST = 64.0  # that factors differ by
_WORTH = 0.97  # of the noise without factors


@dataclass(frozen=True)
class _Run:
    """A layer, what is between, and the layers that read its end; ``high`` is what a Clip in between clips at."""

    layer: onnx.NodeProto
    between: tuple[onnx.NodeProto, ...]
    readers: tuple[onnx.NodeProto, ...]
    high: float

    @property
    def end(self) -> str:
        """The tensor that the readers read."""
        return str((self.between[-1] if self.between else self.layer).output[0])


@dataclass
class _Extent:
    """How large the channels of a tensor are over the samples: [C].

    ``tops`` are means over the samples of their largest magnitudes, ``most`` the largest of all, ``squares`` mean
    squares.
    """

    tops: Float64
    most: Float64
    squares: Float64


class ChannelEqualisation:
    """The equalisation of channels in a model: first what is wanted of its tensors, then the factors.

    Args:
        model: a folded float model of named nodes; :meth:`apply` changes it in place.
        samples: how many there are.
        directory: for large new constants, as :class:`FloatNetwork` has them.

    Attributes:
        axes: the axis of the channels of each tensor whose values are wanted.
    """

    def __init__(self, model: onnx.ModelProto, samples: int, directory: Path | None = None) -> None:
        self._network = FloatNetwork(model, directory)
        self._runs = [run for node in self._network.nodes if (run := _run(self._network, node)) is not None]
        self._samples = samples
        self._extents: dict[str, _Extent] = {}
        names = (name for run in self._runs for name in (str(run.layer.input[0]), run.end))
        self.axes = {name: _axis(self._network, name) for name in names}

    @property
    def scalable(self) -> dict[str, int]:
        """How many elements each tensor has that may get factors."""
        names = (str(node.output[0]) for run in self._runs for node in (run.layer, *run.between))
        return {name: math.prod(self._network.shapes.get(name, ())) for name in names}

    def add(self, name: str, values: Sequence[Array]) -> None:
        """Count a tensor of some samples, of those in ``axes``."""
        for value in values:
            rows = np.moveaxis(value, self.axes[name], 0).reshape(value.shape[self.axes[name]], -1)
            tops = np.maximum(rows.max(1, initial=0), -rows.min(1, initial=0)).astype(np.float64)
            squares = np.einsum("ck,ck->c", rows, rows) / max(rows.shape[1], 1)
            known = self._extents.setdefault(name, _Extent(*np.zeros((3, len(rows)))))
            known.tops += tops / self._samples
            known.most = np.maximum(known.most, tops)
            known.squares += squares / self._samples

    def apply(self) -> dict[str, Array]:
        """Equalises channels; returns the factors of each tensor that has some, shaped to broadcast with it.

        Each node whose result has factors then bears them (``accel/frontend/onnx_model/channel_factors.py``).
        """
        found: dict[str, Array] = {}
        for run in self._runs:
            data, result = (self._extents.get(name) for name in (str(run.layer.input[0]), run.end))
            factors = None if data is None or result is None else _factors(self._network, run, data, result)
            if factors is not None:
                _apply(self._network, run, factors)
                for node in (run.layer, *run.between):
                    name = str(node.output[0])
                    rank = len(self._network.shapes[name])
                    found[name] = factors.reshape(-1, *[1] * (rank - 1 - _axis(self._network, name) % rank))
        if self._runs:
            self._network.finish()
        return found


def _axis(network: FloatNetwork, name: str) -> int:
    """The axis of a tensor's channels."""
    return 1 if len(network.shapes.get(name, ())) in _IMAGES else -1


def _run(network: FloatNetwork, layer: onnx.NodeProto) -> _Run | None:
    """What begins with ``layer``; None if no layers alone read what comes of it, or a factor would not come through."""
    images = layer.op_type != "Gemm"
    rank = len(network.shapes.get(layer.output[0], ()))
    if layer.op_type not in _MAKERS or rank not in (_IMAGES if images else (_ROWS,)):
        return None
    between: list[onnx.NodeProto] = []
    high = math.inf
    reader = network.only_reader(layer.output[0])
    while reader is not None and reader.op_type in _BETWEEN and len(reader.output) == 1:
        if reader.op_type == "Clip":
            bounds = [network.constant(name) if name else None for name in [*reader.input[1:], "", ""][:2]]
            if bounds[0] is None or bounds[0].any() or (bounds[1] is None and len(reader.input) > 2):
                return None
            high = min(high, math.inf if bounds[1] is None else float(bounds[1].reshape(())))
        between.append(reader)
        reader = network.only_reader(reader.output[0])
    end = str((between[-1] if between else layer).output[0])
    readers = network.readers(end)
    fit = all(
        node.op_type in (_READERS if not images else "Conv")
        and list(node.input).count(end) == 1
        and node.input[0] == end
        and not attribute_of(node, "transA", 0)
        and layer_constants(network, node) is not None
        for node in readers
    )
    if not readers or not fit or network.is_output(end) or layer_constants(network, layer) is None or high <= 0:
        return None
    return _Run(layer, tuple(between), tuple(readers), high)


def _factors(network: FloatNetwork, run: _Run, data: _Extent, result: _Extent) -> Float64 | None:
    """The factors of about the least noise, [C]; None if they are not worth it.

    Noise is that of the readers' sums, in units of a twelfth of the square of a 127th: the activation's, that of the
    first layer's weights, and that of the readers'. Each is of one scale, so the largest channel of any sets it.
    """
    first = _by_channel(run.layer, _weight(network, run.layer), outputs=True)
    readers = [_by_channel(node, _weight(network, node), outputs=False) for node in run.readers]
    tops, channels = result.tops, len(result.tops)
    if len(first) != channels or any(len(reader) != channels for reader in readers) or not np.isfinite(tops).all():
        return None
    live = (tops > 0) & (result.most > 0)
    if not live.any():
        return None
    largest_first = np.abs(first).max(1)
    largest = np.max([np.abs(reader).max(1) for reader in readers], axis=0)
    energy = np.sum([np.einsum("ck,ck->c", reader, reader) for reader in readers], axis=0)  # of what reads a channel
    count = sum(reader.shape[1] for reader in readers)  # of weights that read a channel
    into = float(data.squares.mean()) * first.shape[1] * _LEFT

    def noise(factors: Float64) -> Float64:
        """Of each of several choices of the factors: [choices] of [choices, C]."""
        scale = (factors * tops).max(1) ** 2 + (factors * largest_first).max(1) ** 2 * into
        weights = (largest / factors).max(1) ** 2 * count * _LEFT
        sums: Float64 = scale * (energy / factors**2).sum(1) + weights * (result.squares * factors**2).sum(1)
        return sums

    balance = np.sqrt(np.maximum(largest[live], 1e-12) / np.maximum(largest_first[live], 1e-12))
    moved = (tops[live].max() / tops[live]) ** _POWERS[:, :1] * balance ** _POWERS[:, 1:]
    moved *= tops[live].max() / (moved * tops[live]).max(1, keepdims=True)
    found = np.ones((len(_POWERS), channels))
    found[:, live] = moved
    found = np.clip(found, 1 / _MOST, _MOST)
    if math.isfinite(run.high):  # what is clipped stays so, and nothing else comes to be
        found[:, live] = np.minimum(found[:, live], run.high / result.most[live])
        found[:, result.most >= run.high] = 1.0
    sums = noise(found)
    best = int(sums.argmin())
    return found[best] if sums[best] < _WORTH * noise(np.ones((1, channels)))[0] else None


def _of(network: FloatNetwork, node: onnx.NodeProto) -> tuple[Float32, Float64]:
    found = layer_constants(network, node)
    assert found is not None
    return found


def _weight(network: FloatNetwork, node: onnx.NodeProto) -> Array:
    """The weight in float32: of doubles there would be a copy, for what is no more than an estimate."""
    found = network.constant(node.input[1])
    assert found is not None
    return found


def _by_channel(node: onnx.NodeProto, weight: Array, *, outputs: bool) -> Array:
    """The weights of a layer by its output channel, or its input channel: [channels, weights]."""
    groups = attribute_of(node, "group", 1)
    if node.op_type in ("Gemm", "MatMul"):
        rows = weight if attribute_of(node, "transB", 0) else weight.T  # [outputs, inputs]
        return np.ascontiguousarray(rows if outputs else rows.T)
    of_groups = weight.reshape(groups, -1, weight.shape[1], math.prod(weight.shape[2:]))
    ahead = (node.op_type == "Conv") == outputs  # whether the channels wanted are the axis behind the groups
    moved = of_groups if ahead else of_groups.swapaxes(1, 2)
    return moved.reshape(groups * moved.shape[1], -1)


def _apply(network: FloatNetwork, run: _Run, factors: Float64) -> None:
    zeros = np.zeros(len(factors))
    weight, bias = _of(network, run.layer)
    _set(network, run.layer, *scaled_layer(run.layer, weight, bias, factors, zeros))
    for node in run.readers:
        _set(network, node, *fed_layer(node, *_of(network, node), 1 / factors, zeros))
    for node in (run.layer, *run.between):
        note_channel_factors(node, factors)


def _set(network: FloatNetwork, node: onnx.NodeProto, weight: Float64, bias: Float64) -> None:
    """Give a layer new constants; others may read the old ones."""
    inputs = list(node.input)
    set_attributes(node, beta=None)
    node.input[1] = network.add_constant(weight.astype(np.float32), f"{node.name}_equalised_weight")
    if len(inputs) > 2 and inputs[2]:
        node.input[2] = network.add_constant(bias.astype(np.float32), f"{node.name}_equalised_bias")
    network.replace([], [], changed=[node])
