"""Frames between two processes: a JSON document and bytes, each after its length. Nothing in them is ever called."""

import json
import struct
from collections.abc import Iterator, Mapping
from typing import Any

_LENGTHS = struct.Struct("!II")  # bytes of the document, bytes of the body
_MOST_DOCUMENT = 1 << 20
_HEADROOM = 4096  # a body may be its limit and a little more: what limits it may count without its own header

Frame = tuple[dict[str, Any], bytes]


class BrokenFrameError(Exception):
    """What arrived is no frame, or a larger one than may be."""


def frame(document: Mapping[str, Any], body: bytes = b"") -> bytes:
    """The bytes of a frame."""
    text = json.dumps(document).encode()
    return _LENGTHS.pack(len(text), len(body)) + text + body


class Frames:
    """Puts frames together from bytes as they arrive.

    Args:
        most_body: the most bytes of a frame's body.
    """

    def __init__(self, most_body: int) -> None:
        self._most_body = most_body + _HEADROOM
        self._arrived = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that are whole with this.

        Raises:
            BrokenFrameError: the other side does not keep to the form.
        """
        self._arrived += data
        while len(self._arrived) >= _LENGTHS.size:
            document, body = _LENGTHS.unpack_from(self._arrived)
            if document > _MOST_DOCUMENT or body > self._most_body:
                raise BrokenFrameError(f"a frame of {document} and {body} bytes")
            begin, end = _LENGTHS.size + document, _LENGTHS.size + document + body
            if len(self._arrived) < end:
                return
            found = _parsed(bytes(self._arrived[_LENGTHS.size : begin])), bytes(self._arrived[begin:end])
            del self._arrived[:end]
            yield found


def _parsed(text: bytes) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BrokenFrameError(f"a frame that is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise BrokenFrameError("a frame that is no object")
    return document
