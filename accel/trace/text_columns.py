"""Many lines of text at once, with no loop over lines.

A line is a row of a byte matrix. Cells of different lengths are filled up with a byte that no UTF-8 text has, and
the filling is taken out of the whole matrix in the end.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from accel.util.arrays import Array, Bools, Bytes, Integers

# one text for each line: n numbers of 1, 2 or 4 bytes, or n raw byte strings
Cell = Array
Part = bytes | Sequence[Cell]

_FILL = 0xFF
_GROUP = 10_000
_LINES = 512  # packed at a time: their places should stay in the cache
_WIDTHS = ((10, np.uint8), (100, np.uint16), (_GROUP, np.uint32))


def encoded(text: str) -> bytes:
    """UTF-8; what has no UTF-8 form becomes a question mark."""
    return text.encode(errors="replace")


def lookup(texts: Sequence[bytes], index: Integers) -> Part:
    """``texts[index]`` for each line; as wide as the longest of those that occur."""
    occurs = np.bincount(index, minlength=len(texts)) > 0
    used = np.flatnonzero(occurs).tolist()
    if len(used) == 1:
        return texts[used[0]]
    return [np.take(_table([texts[number] for number in used]), np.take(np.cumsum(occurs) - 1, index))]


def _table(texts: Sequence[bytes]) -> Cell:
    """The texts (t,), each filled up to the longest."""
    width = max((len(text) for text in texts), default=0) or 1
    table = np.full((len(texts), width), _FILL, np.uint8)
    for row, text in zip(table, texts, strict=True):
        row[: len(text)] = np.frombuffer(text, np.uint8)
    return table.view(f"V{width}")[:, 0]


def decimal(values: Integers, where: Bools | None = None) -> list[Cell]:
    """The numbers in decimal; nothing in the lines where ``where`` is False."""
    low, high = int(values.min(initial=0)), int(values.max(initial=0))
    cells: list[Cell] = []
    if low < 0:
        cells.append(np.where(values < 0, np.uint8(ord("-")), np.uint8(_FILL)))
        values, high = np.abs(values.astype(np.int64)), max(high, -low)
    cells += _digits(values, high)
    return cells if where is None else [_blank(cell, where) for cell in cells]


def fixed(values: Integers, places: int) -> list[Cell]:
    """Numbers that count in units of ``10 ** -places``, such as thousandths, with a point; none is negative."""
    unit = 10**places
    whole, rest = np.divmod(values, unit)
    point = np.full(len(values), ord("."), np.uint8)
    return [*decimal(whole), point, *(_grown(rest // 10**p % 10) for p in reversed(range(places)))]


def _grown(digit: Integers) -> Cell:
    return (digit + ord("0")).astype(np.uint8)


def _digits(values: Integers, high: int) -> list[Cell]:
    """Groups of four digits, those in front as narrow as they can be."""
    if high < _GROUP:
        return [np.take(_numbers(high, zero="0"), values)]
    upper, last = np.divmod(values, values.dtype.type(_GROUP))
    follows = np.take(_lower(), last + np.where(upper > 0, _GROUP, 0))
    return [*_upper(upper, high // _GROUP), follows]


def _upper(values: Integers, high: int) -> list[Cell]:
    """All but the last four digits; nothing for zero."""
    if high < _GROUP:
        return [np.take(_numbers(high, zero=""), values)]
    upper, last = np.divmod(values, values.dtype.type(_GROUP))
    follows = np.take(_lower(zero=""), last + np.where(upper > 0, _GROUP, 0))
    return [*_upper(upper, high // _GROUP), follows]


@cache
def _numbers_of(width: int, zero: str) -> Cell:
    limit, dtype = _WIDTHS[width]
    texts = [zero.encode(), *(b"%d" % value for value in range(1, limit))]
    return _wide(texts, np.dtype(dtype))


def _numbers(high: int, zero: str) -> Cell:
    """The texts of 0 to at least ``high``, which is less than 10,000."""
    return _numbers_of(next(number for number, (limit, _) in enumerate(_WIDTHS) if high < limit), zero)


@cache
def _lower(zero: str = "0") -> Cell:
    """The texts of 0 to 9999, then the same with leading zeros."""
    plain = [zero.encode(), *(b"%d" % value for value in range(1, _GROUP))]
    return _wide([*plain, *(b"%04d" % value for value in range(_GROUP))], np.dtype(np.uint32))


def _wide(texts: Sequence[bytes], dtype: np.dtype[Any]) -> Cell:
    padded = b"".join(text.ljust(dtype.itemsize, bytes([_FILL])) for text in texts)
    return np.frombuffer(padded, dtype)


def _blank(cell: Cell, where: Bools) -> Cell:
    """The cell, emptied where ``where`` is False."""
    empty = np.full(1, _FILL, np.dtype((np.uint8, cell.dtype.itemsize))).view(cell.dtype)
    return np.where(where, cell, empty[0])


def render(parts: Sequence[Part], lines: int) -> Bytes:
    """The parts of each line side by side: bytes that all lines share, and cells."""
    widths = [len(part) if isinstance(part, bytes) else sum(c.dtype.itemsize for c in part) for part in parts]
    same = [part if isinstance(part, bytes) else b"\xff" * width for part, width in zip(parts, widths, strict=True)]
    row = np.frombuffer(b"".join(same), np.uint8)
    matrix = np.empty((lines, len(row)), np.uint8)
    matrix[:] = row
    at = 0
    for part, width in zip(parts, widths, strict=True):
        begin = at
        for cell in () if isinstance(part, bytes) else part:
            matrix[:, begin : begin + cell.dtype.itemsize].view(cell.dtype)[:, 0] = cell
            begin += cell.dtype.itemsize
        at += width
    return matrix


def by_group(group: Integers, groups: int, parts: Callable[[int, npt.NDArray[np.intp]], Sequence[Part]]) -> Cell:
    """A cell whose lines have one form a group: ``parts(number, lines)`` gives that of the group's lines."""
    made = []
    for number in range(groups):
        lines = np.flatnonzero(group == number)
        if len(lines):
            made.append((lines, render(parts(number, lines), len(lines))))
    width = max((matrix.shape[1] for _, matrix in made), default=0) or 1
    cell = np.full((len(group), width), _FILL, np.uint8)
    for lines, matrix in made:
        cell[lines, : matrix.shape[1]] = matrix
    return cell.view(f"V{width}")[:, 0]


def pack(matrix: Bytes) -> bytes:
    """The lines one after the other, without the filling."""
    pieces = []
    for begin in range(0, len(matrix), _LINES):
        flat = matrix[begin : begin + _LINES].reshape(-1)
        pieces.append(np.compress(flat != _FILL, flat).tobytes())
    return b"".join(pieces)
