"""A file, here or in a store, read by ranges of bytes."""

import io
import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

_BLOCK = 1 << 16
_KEEP = 16


class Ranges:
    """Bytes of a file that does not change. Small reads fetch whole blocks, and the last few blocks are cached.

    Threads may share it.
    """

    def __init__(self, read: Callable[[int, int], bytes], size: int) -> None:
        """``read(begin, end)`` gives bytes ``[begin, end)`` of the file, ``size`` bytes long."""
        self._fetch = read
        self.size = size
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        self._lock = threading.Lock()

    @staticmethod
    def of_file(path: Path) -> "Ranges":
        """Returns the bytes of a local file.

        Raises:
            OSError: it cannot be read.
        """

        def read(begin: int, end: int) -> bytes:
            with path.open("rb") as file:
                file.seek(begin)
                return file.read(end - begin)

        return Ranges(read, path.stat().st_size)

    def read(self, begin: int, end: int) -> bytes:
        """Returns the bytes ``[begin, end)``; fewer where the file ends."""
        begin, end = max(begin, 0), min(end, self.size)
        if begin >= end:
            return b""
        first, last = begin // _BLOCK, (end - 1) // _BLOCK
        if last - first >= _KEEP // 2:
            return self._fetch(begin, end)
        data = b"".join(self._blocks_at(range(first, last + 1)))
        return data[begin - first * _BLOCK : end - first * _BLOCK]

    def _blocks_at(self, numbers: range) -> list[bytes]:
        """These blocks; what is missing is fetched in one go."""
        with self._lock:
            blocks = {number: self._blocks[number] for number in numbers if number in self._blocks}
        missing = [number for number in numbers if number not in blocks]
        if missing:
            first, last = missing[0], missing[-1]
            data = self._fetch(first * _BLOCK, min((last + 1) * _BLOCK, self.size))
            cut = range(0, len(data), _BLOCK)
            blocks |= {first + number: data[begin : begin + _BLOCK] for number, begin in enumerate(cut)}
        with self._lock:
            for number in numbers:
                self._blocks[number] = blocks.get(number, b"")
                self._blocks.move_to_end(number)
            while len(self._blocks) > _KEEP:
                self._blocks.popitem(last=False)
        return [blocks.get(number, b"") for number in numbers]


class RangesFile(io.RawIOBase):
    """A view of :class:`Ranges` as a file to read and seek in."""

    def __init__(self, ranges: Ranges) -> None:
        self._ranges = ranges
        self._at = 0

    def readable(self) -> bool:
        """Returns True."""
        return True

    def seekable(self) -> bool:
        """Returns True."""
        return True

    def tell(self) -> int:
        """Returns the offset of the next byte."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Moves to an offset, and returns it.

        Raises:
            ValueError: it is before the first byte.
        """
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._ranges.size}[whence]
        if base + offset < 0:
            raise ValueError(f"byte {base + offset}")
        self._at = base + offset
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fills the buffer up to the end of the file; returns the number of bytes read."""
        data = self._ranges.read(self._at, self._at + len(buffer))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)
