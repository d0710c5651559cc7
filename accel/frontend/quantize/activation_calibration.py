"""Calibration: the samples, and what running them tells of each activation."""

import collections
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnxruntime import GraphOptimizationLevel

from accel.errors import InvalidModel, InvalidTensors
from accel.frontend.onnx_model.ort_session import session, with_outputs
from accel.frontend.quantize.input_moments import Feedback, InputMoments, moments_by_tensor
from accel.frontend.quantize.quantization_targets import WeightedNode
from accel.frontend.quantize.scale_grid import CalibrationMethod, Grid, Loss
from accel.frontend.quantize.value_histogram import ENOUGH, Histogram
from accel.util.arrays import Array

Sample = dict[str, Array]

RANDOM_SAMPLES = 8
THREADS = 2  # numpy counts and rounds without Python's lock
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
    feedback: dict[str, Feedback]


def calibrate(
    model: onnx.ModelProto,
    grids: Mapping[str, Grid],
    inputs: Sequence[Sample],
    *,
    method: CalibrationMethod = "mse",
    shifted: Collection[str] = (),
    layers: Sequence[WeightedNode] = (),
) -> Calibrated:
    """Returns what the samples tell of the tensors that have a grid.

    Args:
        model: the float model.
        grids: of the tensors' scales.
        inputs: the samples.
        method: how a tensor's range is chosen.
        shifted: the tensors that may have a zero point.
        layers: those that read them.

    Raises:
        InvalidModel: onnxruntime cannot run the model.
    """
    axes = {str(layer.node.input[0]): layer.input_axis for layer in layers}
    moments = moments_by_tensor(layers, len(inputs))
    most = max(ENOUGH // len(inputs), _FEWEST)
    observed = {
        name: _Observed(name, Histogram(grid, most), moments.get(name, {}), axes.get(name))
        for name, grid in grids.items()
    }

    def loss(name: str) -> Loss:
        return observed[name].histogram.loss(method, shifts=name in shifted)

    count_values(model, list(grids), inputs, lambda name, value: observed[name].add(value))
    by_node = {node: each for of_tensor in moments.values() for node, each in of_tensor.items()}
    with ThreadPoolExecutor(THREADS, "calibration") as pool:
        losses = dict(zip(observed, pool.map(loss, observed), strict=True))
        feedback = dict(zip(by_node, pool.map(InputMoments.feedback, by_node.values()), strict=True))
    sums = {name: tensor.sums for name, tensor in observed.items() if tensor.sums is not None}
    return Calibrated(losses, {name: total / len(inputs) for name, total in sums.items()}, feedback)


@dataclass
class _Observed:
    """What is counted of one tensor, sample by sample; ``sums`` are of the means along ``axis``, if it has one."""

    name: str
    histogram: Histogram
    moments: Mapping[str, InputMoments]
    axis: int | None
    sums: Array | None = None

    def add(self, value: Array) -> None:
        """Count the tensor of a sample.

        Raises:
            InvalidModel: it is not finite.
        """
        if not self.histogram.add(value):
            raise InvalidModel(
                f"the values of {self.name!r} are not finite on the samples; if these are random, send some of your "
                "own",
                field="model",
            )
        for counted in self.moments.values():
            counted.add(value)
        if self.axis is not None and value.size:
            others = tuple(axis for axis in range(value.ndim) if axis != self.axis % value.ndim)
            means = value.mean(others, np.float64)
            self.sums = means if self.sums is None else self.sums + means


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


def count_values(
    model: onnx.ModelProto, tensors: Sequence[str], inputs: Sequence[Sample], count: Callable[[str, Array], None]
) -> None:
    """Calls ``count`` with the name and the values of each of ``tensors``, sample by sample.

    Tensors are counted in threads, each in one at a time, so that its sums have one order.

    Raises:
        InvalidModel: onnxruntime cannot load the model, or run it.
        Exception: as ``count`` does.
    """
    with ThreadPoolExecutor(THREADS, "calibration") as pool:
        counted: Iterator[None] = iter(())
        for values in _tensor_values(model, tensors, inputs):  # one sample is run while that before it is counted
            collections.deque(counted, 0)
            counted = pool.map(count, values.keys(), values.values())
        collections.deque(counted, 0)


def _tensor_values(model: onnx.ModelProto, tensors: Sequence[str], inputs: Sequence[Sample]) -> Iterator[Sample]:
    """The values of ``tensors``, sample by sample."""
    computed = {name for node in model.graph.node for name in node.output}
    wanted = [name for name in tensors if name in computed]
    try:
        running = session(with_outputs(model, wanted), GraphOptimizationLevel.ORT_DISABLE_ALL)
    except Exception as error:  # onnxruntime's exceptions have no common base
        raise InvalidModel(f"onnxruntime cannot load the model: {error}", field="model") from error
    for sample in inputs:
        try:
            results = running.run(wanted, sample) if wanted else []
        except Exception as error:  # as above
            raise InvalidModel(f"onnxruntime cannot run the model: {error}", field="model") from error
        given = {name: sample[name] for name in tensors if name not in computed and name in sample}
        yield dict(zip(wanted, results, strict=True)) | given
