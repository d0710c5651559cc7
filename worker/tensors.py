"""Tensor archives (npz) from users: read without pickle, bounded before anything is unpacked.

Format: a zip of ``.npy`` files, NumPy enhancement proposal 1.
"""

import io
import math
import zipfile
import zlib
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from accel.errors import InvalidTensors
from accel.frontend.inspect import TensorInfo

Array = npt.NDArray[Any]
_TYPES = ("float32", "float64", "float16", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "bool")
_CHUNK = 1 << 20
_HEADER = 4096
# what zipfile raises for an archive that is damaged, or packed in a way it does not know
_DAMAGE = (OSError, EOFError, NotImplementedError, zipfile.BadZipFile, zlib.error)


class Npz:
    """An npz archive, its headers checked against the limits.

    Raises:
        InvalidTensors: it is not an npz file, holds objects, or declares more than the limits allow.
    """

    def __init__(self, file: IO[bytes], *, max_bytes: int, max_arrays: int) -> None:
        try:
            self._zip = zipfile.ZipFile(file)
        except (ValueError, *_DAMAGE) as error:
            raise InvalidTensors(f"not an npz file: {error}") from error
        self._check_sizes(max_bytes, max_arrays)
        self.tensors = [self._header(member) for member in self._zip.infolist()]

    def _check_sizes(self, max_bytes: int, max_arrays: int) -> None:
        members = self._zip.infolist()
        if not members:
            raise InvalidTensors("the npz file holds no arrays")
        if len(members) > max_arrays:
            raise InvalidTensors(f"the npz file holds {len(members)} arrays; at most {max_arrays} are accepted")
        if len({member.filename for member in members}) != len(members):
            raise InvalidTensors("the npz file names an array twice")
        total = sum(member.file_size for member in members)
        if total > max_bytes:
            raise InvalidTensors(f"the npz file unpacks to {total} bytes; at most {max_bytes} are accepted")

    def _header(self, member: zipfile.ZipInfo) -> TensorInfo:
        name = member.filename.removesuffix(".npy")
        if name == member.filename:
            raise InvalidTensors(f"{name!r} is not a .npy array", field=name)
        shape, dtype, offset = self._read_header(member, name)
        if dtype.name not in _TYPES:
            known = ", ".join(_TYPES)
            raise InvalidTensors(f"array {name!r} has element type {dtype.name}; use one of {known}", field=name)
        nbytes = math.prod(shape) * dtype.itemsize
        if any(extent < 0 for extent in shape) or nbytes != member.file_size - offset:
            found = f"declares shape {list(shape)}, {nbytes} bytes, and holds {member.file_size - offset}"
            raise InvalidTensors(f"array {name!r} {found}", field=name)
        return TensorInfo(name=name, dtype=dtype.name, shape=shape)

    def _read_header(self, member: zipfile.ZipInfo, name: str) -> tuple[tuple[int, ...], np.dtype[Any], int]:
        """Shape, element type and the offset of the data."""
        try:
            with self._zip.open(member) as stream:
                head = io.BytesIO(stream.read(_HEADER))
            version = npy.read_magic(head)
            read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[version]
            shape, _, dtype = read(head)
        except KeyError as error:
            raise InvalidTensors(f"array {name!r} has .npy version {error}; 1.0 and 2.0 are read", field=name) from None
        except (ValueError, RuntimeError, *_DAMAGE) as error:
            raise InvalidTensors(f"array {name!r} cannot be read: {error}", field=name) from error
        return shape, dtype, head.tell()

    def check_data(self) -> None:
        """Unpack every array once, in pieces, against its checksum.

        Raises:
            InvalidTensors: an array is truncated or damaged.
        """
        for tensor in self.tensors:
            try:
                with self._zip.open(f"{tensor.name}.npy") as stream:
                    while stream.read(_CHUNK):
                        pass
            except _DAMAGE as error:
                raise InvalidTensors(f"array {tensor.name!r} is damaged: {error}", field=tensor.name) from error

    def load(self) -> dict[str, Array]:
        """All arrays by name."""
        arrays = {}
        for tensor in self.tensors:
            with self._zip.open(f"{tensor.name}.npy") as stream:
                arrays[tensor.name] = npy.read_array(stream, allow_pickle=False)
        return arrays


def check_fit(tensors: list[TensorInfo], inputs: list[TensorInfo], *, samples: bool, field: str) -> None:
    """Check that the tensors are one for each model input, of its element type and shape.

    Args:
        tensors: what was uploaded.
        inputs: the model's inputs.
        samples: calibration data, which may hold several samples (see :func:`as_samples`).
        field: path of the option that names the tensors.

    Raises:
        InvalidTensors: a tensor is missing, unknown, or of another type or shape.
    """
    given = {tensor.name: tensor for tensor in tensors}
    wanted = {tensor.name: tensor for tensor in inputs}
    if given.keys() != wanted.keys():
        raise InvalidTensors(f"the arrays are {sorted(given)}; the model's inputs are {sorted(wanted)}", field=field)
    for name, want in wanted.items():
        got = given[name]
        if got.dtype != want.dtype:
            raise InvalidTensors(f"array {name!r} is {got.dtype}; the model takes {want.dtype}", field=field)
        if got.shape != want.shape and not (samples and _samples(got.shape, want.shape)):
            hint = " or samples of it along the first axis" if samples else ""
            raise InvalidTensors(
                f"array {name!r} has shape {list(got.shape)}; the model takes {list(want.shape)}{hint}", field=field
            )


def as_samples(arrays: dict[str, Array], inputs: list[TensorInfo]) -> dict[str, Array]:
    """Calibration arrays that fit, each with an axis of samples before the input's own axes."""
    return {tensor.name: arrays[tensor.name].reshape(-1, *tensor.shape) for tensor in inputs}


def _samples(got: tuple[int, ...], want: tuple[int, ...]) -> int:
    """Samples of shape ``want``, stacked on a new axis or joined on the first one; 0 if it is neither."""
    if got[1:] == want:
        return got[0]
    joined = bool(want) and got[1:] == want[1:] and got[0] % want[0] == 0
    return got[0] // want[0] if joined else 0
