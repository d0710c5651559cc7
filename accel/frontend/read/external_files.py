"""Models that keep the elements of tensors in other files, as PyTorch exports them, made one file.

The model says of such a tensor where its bytes are: a file, by a path from the model's folder, an offset and a length.
Format: https://github.com/onnx/onnx/blob/main/docs/ExternalData.md.
"""

import contextlib
import errno
import io
import math
import os
import re
import stat
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from onnx import TensorProto

from accel.errors import ExternalData, ModelTooLarge
from accel.frontend.onnx_model.model_limits import LIMITS, ModelLimits
from accel.frontend.onnx_model.tensor_types import READ_BYTES, check_dimensions, check_type
from accel.frontend.read.model_checks import constants, is_in_other_file
from accel.frontend.read.model_parser import decode_model

# opens the file at a path from the model's folder, which has no ".." in it; OSError, with what is wrong, if it cannot
OpenData = Callable[[PurePosixPath], AbstractContextManager[BinaryIO]]

_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)
_SHOWN = 256  # characters of a path in a message
_LOCATION = b"location"  # the key of a path
_ELEMENTS = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")


@dataclass(frozen=True)
class _Place:
    """Where the elements of a tensor are: bytes ``[begin, end)`` of a file. ``field`` names the tensor."""

    tensor: TensorProto
    field: str
    begin: int
    end: int


def single_file(data: bytes, open_data: OpenData, limits: ModelLimits = LIMITS) -> bytes:
    """Returns ``data``, or, if its model keeps elements in other files, the model as one file with all elements inside.

    Equal models have equal bytes, however their elements are spread over files.

    Args:
        data: an ONNX file; one that names no place of elements is not parsed.
        open_data: opens the others.
        limits: the limits of the whole model, which are checked before any element is read.

    Raises:
        InvalidModel, ModelTooLarge: as ``inspect_model``, for the parts that are read to find the tensors.
        ExternalData: a file is missing, is outside the model's folder, or has too few bytes.
        UnsupportedShape, UnsupportedType: such a tensor has an unsupported shape or type.
    """
    if _LOCATION not in data:
        return data
    model = decode_model(data, limits)
    files: dict[PurePosixPath, list[_Place]] = defaultdict(list)
    total = len(data)
    for field, tensor in constants(model):
        if not is_in_other_file(tensor):
            continue
        path, place = _place(tensor, field, limits)
        files[path].append(place)
        total += place.end - place.begin
        if total > limits.file_bytes:
            raise ModelTooLarge(
                f"with the data that it keeps in other files the model has more than {limits.file_bytes} bytes",
                field="model",
            )
    if not files:
        return data
    for path, places in files.items():
        _read(path, places, open_data)
    return bytes(model.SerializeToString(deterministic=True))


def folder_data(folder: Path) -> OpenData:
    """Returns a function that opens regular files below ``folder``; it follows no link, and refuses hard links."""

    @contextlib.contextmanager
    def open_data(path: PurePosixPath) -> Iterator[BinaryIO]:
        with contextlib.ExitStack() as opened:
            at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            opened.callback(os.close, at)
            for part in path.parts[:-1]:
                at = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
                opened.callback(os.close, at)
            try:  # a pipe must not be waited for
                found = os.open(path.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
            except OSError as error:
                if error.errno != errno.ELOOP:
                    raise
                raise OSError("it is a link; copy the file that it leads to") from None
            opened.callback(os.close, found)
            status = os.fstat(found)
            if not stat.S_ISREG(status.st_mode):
                raise OSError("it is no regular file")
            if status.st_nlink > 1:
                raise OSError("it has several names, and so may be another's; copy it")
            yield opened.enter_context(os.fdopen(found, "rb", closefd=False))

    return open_data


def _place(tensor: TensorProto, field: str, limits: ModelLimits) -> tuple[PurePosixPath, _Place]:
    """The file, and the bytes in it."""
    check_type(tensor.data_type, field)
    check_dimensions(tuple(tensor.dims), field, limits, smallest=0)
    wanted = math.prod(tensor.dims) * READ_BYTES[tensor.data_type]
    entries: dict[str, str] = {}
    for entry in tensor.external_data:
        if entry.key in entries or not isinstance(entry.value, str):
            raise ExternalData(f"{tensor.name!r} states its {entry.key!r} twice, or not in UTF-8", field=field)
        entries[entry.key] = entry.value
    begin = _number(tensor, entries, "offset", 0, field)
    length = _number(tensor, entries, "length", wanted, field)
    if length != wanted:
        raise ExternalData(
            f"{tensor.name!r} of shape {list(tensor.dims)} takes {wanted} bytes, and says that {length} are kept",
            field=field,
        )
    return _path(tensor, entries.get("location", ""), field), _Place(tensor, field, begin, begin + wanted)


def _number(tensor: TensorProto, entries: dict[str, str], key: str, default: int, field: str) -> int:
    text = entries.get(key)
    if text is None:
        return default
    if not _NUMBER.fullmatch(text):
        raise ExternalData(
            f"the {key} of {tensor.name!r} is {text[:_SHOWN]!r}, which is not a number of bytes", field=field
        )
    return int(text)


def _path(tensor: TensorProto, location: str, field: str) -> PurePosixPath:
    path = PurePosixPath(location)
    if not path.name or path.is_absolute() or ".." in path.parts or "\0" in location:
        raise ExternalData(
            f"{tensor.name!r} is kept in {location[:_SHOWN]!r}; it must be a file in the model's own folder, or in one "
            "there",
            field=field,
        )
    return path


def _read(path: PurePosixPath, places: list[_Place], open_data: OpenData) -> None:
    """Put the elements into the tensors that are kept in one file."""
    first = places[0]
    shown = f"{first.tensor.name!r} is kept in {str(path)[:_SHOWN]!r}"
    with contextlib.ExitStack() as opened:
        try:
            file = opened.enter_context(open_data(path))
            size = file.seek(0, io.SEEK_END)
        except OSError as error:
            raise ExternalData(
                f"{shown}, which cannot be used: {error.strerror or error}", field=first.field
            ) from error
        for place in places:
            if place.end > size:
                raise ExternalData(
                    f"{place.tensor.name!r} is kept in bytes {place.begin} to {place.end} of {str(path)[:_SHOWN]!r}, "
                    f"which has {size}",
                    field=place.field,
                )
        for place in sorted(places, key=lambda place: place.begin):
            file.seek(place.begin)
            elements = file.read(place.end - place.begin)
            if len(elements) != place.end - place.begin:
                raise ExternalData(f"{str(path)[:_SHOWN]!r} changed while it was read", field=place.field)
            _put(place.tensor, elements)


def _put(tensor: TensorProto, elements: bytes) -> None:
    for name in ("external_data", "data_location", *_ELEMENTS):
        tensor.ClearField(name)
    tensor.raw_data = elements
