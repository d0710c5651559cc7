"""Where DRAM lies in the address space: windows, which programs with 64-bit addresses may have.

Addresses of instructions and segments are those of the address space. The simulated DRAM is one array of bytes that
holds the windows one after the other; without windows an address is an index into it.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from accel.program.program_model import DramWindow
from accel.util.arrays import Int64

PAGE = 4096
_MARGIN = 1 << 20
BEGIN, END, OFFSET = range(3)  # columns of a map


def window_map(windows: Sequence[DramWindow], dram_bytes: int) -> Int64:
    """The map (windows, 3) by address: first byte, the one after the last, and what to add for an index into DRAM.

    The first page of DRAM stays unused where there are windows: on some machines index 0 means something else.
    """
    if not windows:
        return np.array([[0, dram_bytes, 0]], np.int64)
    rows, place = [], PAGE
    for window in sorted(windows, key=lambda window: window.address):
        rows.append((window.address, window.address + window.bytes, place - window.address))
        place += window.bytes
    return np.array(rows, np.int64)


def windows_bytes(windows: Sequence[DramWindow]) -> int:
    """Bytes of DRAM that hold the windows."""
    return PAGE + sum(window.bytes for window in windows)


def windows_around(spans: Iterable[tuple[int, int]]) -> list[DramWindow]:
    """Windows of whole MiB around ``[begin, end)`` of each span; those that touch are one."""
    found: list[DramWindow] = []
    for begin, end in sorted((low // _MARGIN * _MARGIN, -(-high // _MARGIN) * _MARGIN) for low, high in spans):
        if found and begin <= found[-1].address + found[-1].bytes:
            first = found.pop()
            found.append(DramWindow(first.address, max(end - first.address, first.bytes)))
        elif end > begin:
            found.append(DramWindow(begin, end - begin))
    return found


def place(table: Int64, addresses: Int64) -> Int64:
    """Indices (n,) into DRAM of addresses (n,); of an address in no window, one that means nothing."""
    row = np.maximum(np.searchsorted(table[:, BEGIN], addresses, side="right") - 1, 0)
    return np.asarray(addresses + table[row, OFFSET], np.int64)


def address_of(table: Int64, index: int) -> int:
    """The address of byte ``index`` of DRAM."""
    row = max(int(np.searchsorted(table[:, BEGIN] + table[:, OFFSET], index, side="right")) - 1, 0)
    return int(index - table[row, OFFSET])


def one_window_holds(table: Int64, begin: int, end: int) -> bool:
    """Whether one window has all bytes ``[begin, end)``."""
    row = int(np.searchsorted(table[:, BEGIN], begin, side="right")) - 1
    return row >= 0 and end <= table[row, END]
