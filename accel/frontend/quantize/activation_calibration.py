"""Calibration: the samples, and what running them tells of each activation."""

from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from accel.errors import InvalidModel, InvalidTensors
from accel.frontend.quantize.input_moments import Feedback, InputMoments, moments_by_tensor
from accel.frontend.quantize.quantization_targets import Targets
from accel.frontend.quantize.sample_runs import Sample
from accel.frontend.quantize.scale_grid import CalibrationMethod, Grid, Loss
from accel.frontend.quantize.threads import in_threads
from accel.frontend.quantize.value_histogram import ENOUGH, Histogram
from accel.util.arrays import Array

RANDOM_SAMPLES = 8
_FEWEST = 1 << 14  # elements of a tensor that are counted of each sample, if it has as many


def calibration_samples(model: onnx.ModelProto, calibration: Mapping[str, Array] | None, seed: int) -> list[Sample]:
    """Returns the samples to run, one dict of inputs each.

    Raises:
        InvalidTensors: an input is missing, unknown, of another shape or type, not finite, or the numbers of
            samples differ; ``field`` is ``calibration.<input>``.
    """
    initializers = {tensor.name for tensor in model.graph.initializer}
    inputs = [info for info in model.graph.input if info.name not in initializers]
    if calibration is None:
        random = np.random.default_rng(seed)
        return [{info.name: _draw(random, info) for info in inputs} for _ in range(RANDOM_SAMPLES)]
    unknown = sorted(set(calibration) - {info.name for info in inputs})
    if unknown:
        raise InvalidTensors(f"the model has no input {unknown[0]!r}", field=f"calibration.{unknown[0]}")
    stacks = {info.name: _stack(info, calibration.get(info.name)) for info in inputs}
    counts = {name: len(stack) for name, stack in stacks.items()}
    for name, count in counts.items():
        if count != next(iter(counts.values())):
            raise InvalidTensors(f"the inputs have different numbers of samples: {counts}", field=f"calibration.{name}")
    samples = zip(*stacks.values(), strict=True)
    return [dict(zip(stacks, map(np.asarray, values), strict=True)) for values in samples]


@dataclass(frozen=True)
class Calibrated:
    """What the samples tell of the activations.

    ``losses`` are the errors of each tensor at the candidate scales; ``means`` are those of the elements along an axis.
    """

    losses: dict[str, Loss]
    means: dict[str, Array]


@dataclass
class _Observed:
    """What is kept of one tensor, sample by sample; ``sums`` are of the means along ``axis``, if it has one."""

    histogram: Histogram
    moments: Mapping[str, InputMoments]
    axis: int | None
    sums: Array | None = None
    finite: bool = True

    def add(self, value: Array) -> None:
        """Observe the tensor of a sample."""
        self.finite = self.finite and self.histogram.add(value)
        if not self.finite:
            return
        for counted in self.moments.values():
            counted.add(value)
        if self.axis is not None and value.size:
            others = tuple(axis for axis in range(value.ndim) if axis != self.axis % value.ndim)
            means = value.mean(others, np.float64)
            self.sums = means if self.sums is None else self.sums + means


class Observations:
    """What samples tell of the tensors to quantise, whatever the scales are.

    Args:
        targets: the tensors, and the layers that read them.
        samples: how many there are.
    """

    def __init__(self, targets: Targets, samples: int) -> None:
        self._samples = samples
        axes = {str(layer.node.input[0]): layer.input_axis for layer in targets.layers}
        moments = moments_by_tensor(targets.layers, samples)
        most = max(ENOUGH // samples, _FEWEST)
        self._tensors = {
            name: _Observed(Histogram(most), moments.get(name, {}), axes.get(name)) for name in targets.activations
        }

    def add(self, name: str, values: Sequence[Array]) -> None:
        """Observe a tensor of some samples."""
        for value in values:
            self._tensors[name].add(value)

    def with_others(self, others: "Observations") -> "Observations":
        """Returns these observations and others, which count where both have a tensor."""
        found = copy(self)
        found._tensors = {**self._tensors, **others._tensors}  # noqa: SLF001
        return found

    def feedback(self) -> dict[str, Feedback]:
        """Returns what the inputs of each layer tell of the rounding of its weights, by the name of its node."""
        moments = {node: each for tensor in self._tensors.values() for node, each in tensor.moments.items()}
        return dict(zip(moments, in_threads(InputMoments.feedback, moments.values()), strict=True))

    def calibrated(
        self, grids: Mapping[str, Grid], *, method: CalibrationMethod = "mse", shifted: Collection[str] = ()
    ) -> Calibrated:
        """Returns what the samples tell of the tensors that have a grid.

        Args:
            grids: of the tensors' scales.
            method: how a tensor's range is chosen.
            shifted: the tensors that may have a zero point.

        Raises:
            InvalidModel: the values of one are not finite.
        """
        found = {name: self._tensors[name] for name in grids}
        for name, tensor in found.items():
            if not tensor.finite:
                raise InvalidModel(
                    f"the values of {name!r} are not finite on the samples; if these are random, send some of your own",
                    field="model",
                )

        def loss(name: str) -> Loss:
            return found[name].histogram.loss(grids[name], method, shifts=name in shifted)

        losses = dict(zip(found, in_threads(loss, found), strict=True))
        sums = {name: tensor.sums for name, tensor in found.items() if tensor.sums is not None}
        means = {name: total / self._samples for name, total in sums.items()}
        return Calibrated(losses, means)


def _draw(random: np.random.Generator, info: onnx.ValueInfoProto) -> Array:
    shape, dtype = _signature(info)
    if dtype.kind == "f":
        return np.asarray(random.standard_normal(shape)).astype(dtype)
    if dtype.kind in "iu" and dtype.itemsize == 1:  # an image, say; wider integers are mostly indices
        limits = np.iinfo(dtype)
        return np.asarray(random.integers(limits.min, limits.max, shape, dtype, endpoint=True))
    return np.asarray(random.integers(0, 2, shape)).astype(dtype)


def _stack(info: onnx.ValueInfoProto, array: Array | None) -> Array:
    """The samples of one input, along the leading axis."""
    field = f"calibration.{info.name}"
    shape, dtype = _signature(info)
    if array is None:
        raise InvalidTensors(f"no samples for the input {info.name!r}", field=field)
    if array.shape == shape:
        array = array[None]
    if array.shape[1:] != shape or len(array) == 0:
        raise InvalidTensors(f"{array.shape} is neither {shape} nor samples of it", field=field)
    if array.dtype.kind not in "fiub" or (dtype.kind != "f" and array.dtype != dtype):
        raise InvalidTensors(f"the element type is {array.dtype}, not {dtype}", field=field)
    converted = array.astype(dtype)
    if not np.isfinite(converted).all():
        raise InvalidTensors("some values are not finite", field=field)
    return converted


def _signature(info: onnx.ValueInfoProto) -> tuple[tuple[int, ...], np.dtype[Any]]:
    tensor = info.type.tensor_type
    return tuple(size.dim_value for size in tensor.shape.dim), np.dtype(
        onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    )
