"""Models whose large constants lie in a file of their own.

A model is copied, checked, optimised and run many times on its way. Its large constants stay in one file meanwhile:
the copies say where, and whoever needs the numbers maps the file into memory.
"""

import itertools
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from accel.frontend.onnx_model.tensor_types import READ_BYTES
from accel.util.arrays import Array

LARGE = 4096  # elements of the largest constant that stays in the model
_ALIGNMENT = 4096  # bytes: of pages
_CHUNK = 1 << 24  # elements that are looked at together


def externalize(model: onnx.ModelProto, directory: Path) -> onnx.ModelProto:
    """Returns a copy of ``model`` whose initializers of more than ``LARGE`` elements are in a file in ``directory``.

    Where some are in a file already, they stay there; in a file of another folder, the others stay in the model. The
    file must outlive the copy.
    """
    light = _without_initializers(model)
    if folders_of(model) - {directory}:
        light.graph.initializer.extend(model.graph.initializer)  # onnxruntime maps files of one folder
        return light
    if not any(map(_is_movable, model.graph.initializer)):
        light.graph.initializer.extend(model.graph.initializer)
        return light
    written = iter(written_constants(_movable_arrays(model), directory))
    for tensor in model.graph.initializer:
        light.graph.initializer.append(next(written) if _is_movable(tensor) else tensor)
    return light


def _movable_arrays(model: onnx.ModelProto) -> Iterator[tuple[str, Array]]:
    for tensor in model.graph.initializer:
        if _is_movable(tensor):
            yield tensor.name, numpy_helper.to_array(tensor)


def written_constants(constants: Iterable[tuple[str, Array]], directory: Path) -> Iterator[TensorProto]:
    """Writes constants, with their names, one after the other into a new file in ``directory``; yields their tensors.

    The file must outlive these.
    """
    path = next(path for index in itertools.count() if not (path := directory / f"weights-{index}.bin").exists())
    with path.open("wb") as file:
        for name, array in constants:
            file.write(b"\0" * (-file.tell() % _ALIGNMENT))
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            entry = TensorProto(name=name, dims=array.shape, data_type=kind)
            set_location(entry, {"location": file.name, "offset": file.tell(), "length": array.nbytes})
            little = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False))
            file.write(little.view(np.uint8).data)
            yield entry


def _is_movable(tensor: TensorProto) -> bool:
    return math.prod(tensor.dims) > LARGE and tensor.data_type in READ_BYTES and not is_external(tensor)


def folders_of(model: onnx.ModelProto) -> set[Path]:
    """Returns the folders in whose files ``model`` keeps constants."""
    return {
        Path(entry.value).parent
        for tensor in model.graph.initializer
        if is_external(tensor)
        for entry in tensor.external_data
        if entry.key == "location"
    }


def with_embedded_data(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns ``model`` itself, or a copy with its external constants embedded."""
    if not any(map(is_external, model.graph.initializer)):
        return model
    full = _without_initializers(model)
    for tensor in model.graph.initializer:
        full.graph.initializer.append(embedded(tensor))
    return full


def embedded(tensor: TensorProto) -> TensorProto:
    """Returns ``tensor`` with its elements embedded."""
    return numpy_helper.from_array(array_of(tensor), tensor.name) if is_external(tensor) else tensor


def is_external(tensor: TensorProto) -> bool:
    """Returns whether the elements are in a file."""
    return bool(tensor.data_location == TensorProto.EXTERNAL)


def array_of(tensor: TensorProto) -> Array:
    """Returns the elements of a constant; they are not for writing."""
    if not is_external(tensor):
        return np.asarray(numpy_helper.to_array(tensor))
    place = {entry.key: entry.value for entry in tensor.external_data}
    dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type).newbyteorder("<")
    return np.asarray(np.memmap(place["location"], dtype, "r", int(place["offset"]), tuple(tensor.dims)))


def all_finite(array: Array) -> bool:
    """Returns whether no element is infinite or NaN."""
    flat = array.reshape(-1)
    return all(bool(np.isfinite(flat[at : at + _CHUNK]).all()) for at in range(0, flat.size, _CHUNK))


def set_location(tensor: TensorProto, values: dict[str, Any]) -> None:
    """Sets where the elements are; entries that are not in ``values`` are unchanged."""
    entries = {entry.key: entry.value for entry in tensor.external_data} | values
    del tensor.external_data[:]
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=str(value))
    tensor.data_location = TensorProto.EXTERNAL


def _without_initializers(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy of ``model`` that has none; they are not copied in between."""
    copy = onnx.ModelProto()
    for field, value in model.ListFields():
        if field.name == "graph":
            for part, content in value.ListFields():
                if part.name != "initializer":
                    _copy(copy.graph, part.name, content)
        else:
            _copy(copy, field.name, value)
    return copy


def _copy(message: Any, field: str, value: Any) -> None:
    if hasattr(value, "extend") or isinstance(value, list):
        getattr(message, field).extend(value)
    elif hasattr(value, "CopyFrom"):
        getattr(message, field).CopyFrom(value)
    else:
        setattr(message, field, value)
