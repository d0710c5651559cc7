"""Tensor archives (npz) from users: read without pickle, bounded before anything is unpacked.

Format: a zip of ``.npy`` files, NumPy enhancement proposal 1.
"""

import io
import lzma
import math
import sys
import tokenize
import zipfile
import zlib
from collections.abc import Sequence
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from accel.errors import InvalidTensors, TensorsTooLarge
from accel.frontend.read.model_info import TensorInfo
from accel.util.arrays import Array
from accel.util.safe_names import shown, tensor_fault
from worker.execution.zip_limits import check_zip_directory

_TYPES = ("float32", "float64", "float16", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "bool")
_CHUNK = 1 << 20
_HEADER = 4096
# what zipfile raises for an archive that is damaged, or packed in a way it does not know
_DAMAGE = (OSError, EOFError, ValueError, NotImplementedError, zipfile.BadZipFile, zlib.error, lzma.LZMAError)
# what NumPy raises besides ValueError: a header is a Python literal, which it tokenizes and evaluates
_BAD_HEADER = (RuntimeError, SyntaxError, TypeError, tokenize.TokenError, MemoryError)
_MAX_RANK = 32


class NpzArchive:
    """An npz archive, its headers checked against the limits.

    Raises:
        InvalidTensors: it is not an npz file, holds objects, or declares more than the limits allow.
    """

    def __init__(self, file: IO[bytes], *, max_bytes: int, max_arrays: int) -> None:
        try:
            check_zip_directory(file)
            self._zip = zipfile.ZipFile(file)
        except _DAMAGE as error:
            raise InvalidTensors(f"not an npz file: {error}", field="tensors") from error
        self._check_sizes(max_bytes, max_arrays)
        self.tensors = [self._header(member) for member in self._zip.infolist()]

    def _check_sizes(self, max_bytes: int, max_arrays: int) -> None:
        members = self._zip.infolist()
        if not members:
            raise InvalidTensors("the npz file holds no arrays", field="tensors")
        if len(members) > max_arrays:
            found = f"the npz file holds {len(members)} arrays; at most {max_arrays} are accepted"
            raise TensorsTooLarge(found, field="tensors")
        if len({member.filename for member in members}) != len(members):
            raise InvalidTensors("the npz file names an array twice", field="tensors")
        total = sum(member.file_size for member in members)
        if total > max_bytes:
            found = f"the npz file unpacks to {total} bytes; at most {max_bytes} are accepted"
            raise TensorsTooLarge(found, field="tensors")

    def _header(self, member: zipfile.ZipInfo) -> TensorInfo:
        # ZipInfo ends a name at its first zero, and makes slashes of the system's separators
        name = member.orig_filename.removesuffix(".npy")
        if fault := tensor_fault(name):
            raise InvalidTensors(f"an array cannot be called '{shown(name)}': {fault}", field=shown(name) or "tensors")
        if name == member.filename:
            raise InvalidTensors(f"{name!r} is not a .npy array", field=name)
        shape, dtype, offset = self._read_header(member, name)
        if dtype.name not in _TYPES:
            known = ", ".join(_TYPES)
            raise InvalidTensors(f"array {name!r} has element type {dtype.name}; use one of {known}", field=name)
        if len(shape) > _MAX_RANK or not all(type(extent) is int and extent <= sys.maxsize for extent in shape):
            raise InvalidTensors(f"array {name!r} declares a shape that no array has", field=name)
        nbytes = math.prod(shape) * dtype.itemsize
        if any(extent < 0 for extent in shape) or nbytes != member.file_size - offset:
            found = f"declares shape {list(shape)}, {nbytes} bytes, and holds {member.file_size - offset}"
            raise InvalidTensors(f"array {name!r} {found}", field=name)
        return TensorInfo(name=name, dtype=dtype.name, shape=shape)

    def _read_header(self, member: zipfile.ZipInfo, name: str) -> tuple[tuple[int, ...], np.dtype[Any], int]:
        """Returns shape, element type and the offset of the data."""
        try:
            with self._zip.open(member) as stream:
                head = io.BytesIO(stream.read(_HEADER))
            version = npy.read_magic(head)
            read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[version]
            shape, _, dtype = read(head)
        except KeyError as error:
            raise InvalidTensors(f"array {name!r} has .npy version {error}; 1.0 and 2.0 are read", field=name) from None
        except (*_BAD_HEADER, *_DAMAGE) as error:
            raise InvalidTensors(f"array {name!r} cannot be read: {error}", field=name) from error
        return shape, dtype, head.tell()

    def check_data(self) -> None:
        """Unpacks every array once, in pieces, against its checksum.

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
        """Returns all arrays by name.

        Raises:
            InvalidTensors: an array is truncated or damaged.
        """
        return {tensor.name: self._array(tensor.name) for tensor in self.tensors}

    def _array(self, name: str) -> Array:
        try:
            with self._zip.open(f"{name}.npy") as stream:
                return npy.read_array(stream, allow_pickle=False)
        except _DAMAGE as error:
            raise InvalidTensors(f"array {name!r} is damaged: {error}", field=name) from error


def check_fit(
    tensors: list[TensorInfo],
    inputs: list[TensorInfo],
    *,
    field: str,
    samples: bool = False,
    partial: bool = False,
    unset: Sequence[str] = (),
) -> None:
    """Checks that the tensors are one for each input of a model or program, of its element type and shape.

    Args:
        tensors: what was uploaded.
        inputs: what it takes.
        field: path of the option that names the tensors.
        samples: calibration data, which may hold several samples (see :func:`as_samples`).
        partial: some inputs may be missing.
        unset: which axes of the inputs are 1 as nothing set them.

    Raises:
        InvalidTensors: a tensor is missing, unknown, or of another type or shape.
    """
    given = {tensor.name: tensor for tensor in tensors}
    wanted = {tensor.name: tensor for tensor in inputs}
    if not (given.keys() <= wanted.keys() if partial else given.keys() == wanted.keys()):
        raise InvalidTensors(f"the arrays are {sorted(given)}; the inputs are {sorted(wanted)}", field=field)
    for name, got in given.items():
        want = wanted[name]
        if got.dtype not in want.accepted:
            takes = " or ".join(want.accepted)
            raise InvalidTensors(f"array {name!r} is {got.dtype}; the input takes {takes}", field=field)
        if got.shape != want.shape and not (samples and _samples(got.shape, want.shape)):
            hint = " or samples of it along the first axis" if samples else ""
            if unset:
                hint += f". {', '.join(unset)} taken as 1, as nothing sets it: give options.dims or options.shapes"
            raise InvalidTensors(
                f"array {name!r} has shape {list(got.shape)}; the input takes {list(want.shape)}{hint}", field=field
            )


def as_samples(arrays: dict[str, Array], inputs: list[TensorInfo]) -> dict[str, Array]:
    """Returns fitting calibration arrays, each with an axis of samples before the input's own axes."""
    return {tensor.name: arrays[tensor.name].reshape(-1, *tensor.shape) for tensor in inputs}


def _samples(got: tuple[int, ...], want: tuple[int, ...]) -> int:
    """Returns how many samples of shape ``want`` are stacked on a new axis or joined on the first; 0 if neither."""
    if got[1:] == want:
        return got[0]
    joined = bool(want) and got[1:] == want[1:] and got[0] % want[0] == 0
    return got[0] // want[0] if joined else 0
