"""The inputs of a run: given, and checked against the model, or drawn at random."""

import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

import numpy as np

from accel.errors import InvalidTensors
from accel.frontend.read.model_info import CONVERTED, ModelInfo
from accel.frontend.read.single_precision import as_single
from accel.util.arrays import Array
from accel.util.safe_names import shown, tensor_fault
from accel.util.whole_files import whole_file

Tensors = Mapping[str, Array]


class Described(Protocol):
    """A tensor by its name, shape and element type: a model's input, or a program's segment."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its extents."""

    @property
    def dtype(self) -> str:
        """Its element type, as numpy calls it."""


def draw_inputs(tensors: Iterable[Described], seed: int) -> dict[str, Array]:
    """Returns seeded random inputs by name: normal for floats, uniform over the whole range for int8 and uint8.

    Wider integers, which are mostly indices, are 0 or 1. Floats are float32, and numbers of the tensor's own type.
    """
    random = np.random.default_rng(seed)
    return {tensor.name: _draw(random, tensor) for tensor in tensors}


def _draw(random: np.random.Generator, tensor: Described) -> Array:
    dtype = np.dtype(tensor.dtype)
    if dtype.kind == "f" or tensor.dtype in CONVERTED:
        return _single(np.asarray(random.standard_normal(tensor.shape)), tensor.dtype)
    if dtype.kind == "b" or dtype.itemsize > 1:
        return np.asarray(random.integers(0, 2, tensor.shape)).astype(dtype)
    low, high = (0, 256) if dtype.kind == "u" else (-128, 128)
    return np.asarray(random.integers(low, high, tensor.shape)).astype(dtype)


def checked_inputs(info: ModelInfo, inputs: Tensors) -> dict[str, Array]:
    """Returns the inputs by name, once they are checked to be exactly the model's.

    Floats of the types that a model is read without become float32, and numbers of the model's own type.

    Raises:
        InvalidTensors: one is missing, unknown, or of another shape or type.
    """
    wanted = {tensor.name: tensor for tensor in info.inputs}
    if wanted.keys() != inputs.keys():
        raise InvalidTensors(
            f"the model's inputs are {', '.join(wanted)}; got {', '.join(inputs) or 'none'}", field="inputs"
        )
    for name, tensor in wanted.items():
        array = inputs[name]
        if array.shape != tensor.shape or array.dtype.name not in tensor.accepted:
            raise InvalidTensors(
                f"{name} is {' or '.join(tensor.accepted)}{list(tensor.shape)}; got {array.dtype}{list(array.shape)}",
                field=f"inputs.{name}",
            )
        if (array.dtype.kind == "f" or tensor.dtype in CONVERTED) and np.isnan(array).any():
            raise InvalidTensors(f"{name} holds NaN, which no integer stands for", field=f"inputs.{name}")
    return {
        name: _single(array, wanted[name].dtype) if wanted[name].dtype in CONVERTED else array
        for name, array in inputs.items()
    }


def _single(array: Array, dtype: str) -> Array:
    """Numbers of ``dtype``, as float32."""
    with np.errstate(over="ignore"):
        return as_single(array.astype(np.dtype(dtype)))


def save_tensors(path: Path, tensors: Tensors) -> None:
    """Writes an npz file. ``numpy.savez`` takes the names as keywords, and so cannot have one called ``file``.

    Raises:
        InvalidTensors: a name could be a path out of the folder in which the file is unpacked.
    """
    with whole_file(path) as unfinished, zipfile.ZipFile(unfinished, "w") as archive:
        for name, array in tensors.items():
            if fault := tensor_fault(name):
                raise InvalidTensors(f"no array can be called '{shown(name)}': {fault}", field=shown(name))
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, np.asanyarray(array), allow_pickle=False)
