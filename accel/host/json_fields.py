"""Checked fields of a host graph's JSON; each error names the field and what was expected."""

import base64
import binascii
import functools
import math
import reprlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from accel.errors import InvalidProgram

Tensor = tuple[tuple[int, ...], str]
"""Shape and element type."""

DTYPES = frozenset(
    [*(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)), "float16", "float32", "float64", "bool"]
)
MOST_TENSOR_BYTES = 1 << 32
_MOST_DIMENSIONS = 16
_INT64 = 1 << 63
_MOST_NAME = 1 << 12
_SHOWN = 60


def wrong(where: str, expected: str, got: object) -> InvalidProgram:
    """Returns the error for a field at ``where`` that is not what was expected."""
    return InvalidProgram(f"{where}: expected {expected}; got {reprlib.repr(got)}")


def keys(value: Any, names: tuple[str, ...], where: str, *, optional: tuple[str, ...] = ()) -> Mapping[str, Any]:
    """Returns an object that has the keys ``names``, perhaps some of ``optional``, and no others."""
    if not isinstance(value, dict):
        raise wrong(where, "an object", value)
    missing = [name for name in names if name not in value]
    unknown = [name for name in value if name not in (*names, *optional)]
    if missing or unknown:
        what = f"the key {missing[0]!r} is missing" if missing else f"there is no key {unknown[0][:_SHOWN]!r}"
        raise InvalidProgram(f"{where}: {what}; the keys are {', '.join((*names, *optional))}")
    return value


def array(value: Any, where: str) -> list[Any]:
    """Returns a list."""
    if not isinstance(value, list):
        raise wrong(where, "a list", value)
    return value


def string(value: Any, where: str) -> str:
    """Returns a string of bounded length, without NUL."""
    if not isinstance(value, str) or len(value) > _MOST_NAME or "\0" in value:
        raise wrong(where, "a string", value)
    return value


def integer(value: Any, where: str, low: int = -_INT64, high: int = _INT64 - 1) -> int:
    """Returns an integer of [low, high]; refuses true and false."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise wrong(where, "an integer" + (f" of {low} to {high}" if low > -_INT64 else ""), value)
    return value


def number(value: Any, where: str) -> float:
    """Returns a float from a number, or from the text of an infinity or a NaN, which JSON does not have."""
    if value in ("inf", "-inf", "nan") and isinstance(value, str):
        return float(value)
    if not isinstance(value, int | float) or isinstance(value, bool) or abs(value) > _LARGEST:
        raise wrong(where, "a number", value)
    return float(value)


_LARGEST = np.finfo(np.float64).max


@functools.cache
def element_bytes(name: str) -> int:
    """Returns the bytes of an element of a type, one of ``DTYPES``."""
    return np.dtype(name).itemsize


def dtype(value: Any, where: str) -> str:
    """Returns the name of an element type."""
    if not isinstance(value, str) or value not in DTYPES:
        raise wrong(where, f"one of {', '.join(sorted(DTYPES))}", value)
    return value


def shape(value: Any, where: str) -> tuple[int, ...]:
    """Returns the extents of a tensor, elements; none are in the list that states the shape of a scalar."""
    extents = tuple(
        integer(extent, where, 0 if value == [0] else 1, MOST_TENSOR_BYTES) for extent in array(value, where)
    )
    if len(extents) > _MOST_DIMENSIONS:
        raise wrong(where, f"at most {_MOST_DIMENSIONS} dimensions", list(extents))
    return extents


def tensor(value: Mapping[str, Any], where: str) -> tuple[tuple[int, ...], str]:
    """Returns the shape and type of an object with ``shape`` and ``dtype``, within the limit of bytes."""
    extents, element = shape(value["shape"], f"{where}.shape"), dtype(value["dtype"], f"{where}.dtype")
    nbytes = math.prod(extents) * element_bytes(element)
    if nbytes > MOST_TENSOR_BYTES:
        raise InvalidProgram(f"{where}: a tensor of {nbytes} bytes; the limit is {MOST_TENSOR_BYTES}")
    return extents, element


def constant(value: Any, where: str) -> npt.NDArray[Any]:
    """Returns the array of ``{"dtype", "shape", "data"}``, or of ``{"dtype", "shape", "values"}``."""
    if isinstance(value, dict) and "values" in value:
        return _listed(keys(value, ("dtype", "shape", "values"), where), where)
    entry = keys(value, ("dtype", "shape", "data"), where)
    extents, element = tensor(entry, where)
    if not isinstance(entry["data"], str):
        raise wrong(f"{where}.data", "base64", entry["data"])
    try:
        data = base64.b64decode(entry["data"], validate=True)
    except (binascii.Error, ValueError) as error:
        raise wrong(f"{where}.data", "base64", entry["data"]) from error
    little = np.dtype(element).newbyteorder("<")
    if len(data) != math.prod(extents) * little.itemsize:
        raise InvalidProgram(f"{where}.data: {len(data)} bytes for {element}{list(extents)}")
    if element == "bool" and data.strip(b"\0\1"):
        raise wrong(f"{where}.data", "0 or 1 for a bool", data.strip(b"\0\1")[0])
    return np.frombuffer(data, little).astype(element).reshape(extents)


def _listed(entry: Mapping[str, Any], where: str) -> npt.NDArray[Any]:
    extents, element = tensor(entry, where)
    where = f"{where}.values"
    items = array(entry["values"], where)
    if len(items) != math.prod(extents):
        raise InvalidProgram(f"{where}: {len(items)} numbers for {element}{list(extents)}")
    if element == "bool":
        if any(not isinstance(item, bool) for item in items):
            raise wrong(where, "true or false", items)
    elif element.startswith("float"):
        items = [number(item, where) for item in items]
    else:
        limits = np.iinfo(element)
        items = [integer(item, where, int(limits.min), int(limits.max)) for item in items]
    with np.errstate(over="ignore"):
        return np.array(items, element).reshape(extents)
