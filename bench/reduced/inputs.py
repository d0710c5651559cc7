"""Inputs with structure: images of shapes and shades, sums of waves, words of which few are frequent."""

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

Array = npt.NDArray[Any]


def structured_inputs(model: onnx.ModelProto, count: int, seed: int) -> dict[str, Array]:
    """Returns ``count`` samples of each input along a leading axis."""
    random = np.random.default_rng(seed)
    constants = {tensor.name for tensor in model.graph.initializer}
    return {
        info.name: np.stack([_drawn(random, info) for _ in range(count)])
        for info in model.graph.input
        if info.name not in constants
    }


def _drawn(random: np.random.Generator, info: onnx.ValueInfoProto) -> Array:
    tensor = info.type.tensor_type
    shape = tuple(size.dim_value for size in tensor.shape.dim)
    if tensor.elem_type == onnx.TensorProto.FLOAT:
        return (_image if len(shape) == 4 else _waves)(random, shape).astype(np.float32)
    if "mask" in info.name:
        kept = np.arange(shape[-1]) < random.integers(shape[-1] // 2, shape[-1] + 1)
        return np.broadcast_to(kept, shape).astype(np.int64)
    return np.minimum(random.zipf(1.3, shape) - 1, 199)


def _image(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Shades that change slowly, rectangles with edges, a little noise; normalised as photographs are."""
    _, channels, height, width = shape
    rows, columns = np.mgrid[0:height, 0:width] / max(height, width)
    image = np.zeros((channels, height, width))
    for _ in range(4):
        phase, direction = random.uniform(0, 2 * np.pi), random.normal(0, 4, 2)
        image += random.normal(0, 1, (channels, 1, 1)) * np.sin(direction[0] * rows + direction[1] * columns + phase)
    for _ in range(8):
        top, left = random.integers(0, height), random.integers(0, width)
        below, right = top + random.integers(2, height // 2 + 3), left + random.integers(2, width // 2 + 3)
        image[:, top:below, left:right] = random.normal(0, 1.5, (channels, 1, 1))
    image += random.normal(0, 0.05, image.shape)
    return np.clip(image, -2.1, 2.6)[None]


def _waves(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    steps = np.arange(shape[-1])
    waves = np.zeros(shape)
    for _ in range(4):
        period, phase = random.uniform(4, 64), random.uniform(0, 2 * np.pi)
        waves += random.normal(0, 0.7, (*shape[:-1], 1)) * np.sin(2 * np.pi * steps / period + phase)
    return waves + random.normal(0, 0.05, shape)
