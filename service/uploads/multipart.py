"""multipart/form-data (RFC 7578), part by part as its bytes arrive."""

from collections.abc import Callable

from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header

Write = Callable[[bytes], None]
OpenPart = Callable[[str, str | None], Write | None]


class BrokenMultipartError(Exception):
    """The body is not multipart/form-data with this boundary."""


class MultipartReader:
    """Passes the content of each part on to the function that ``open_part`` returns for it.

    Args:
        boundary: the delimiter between parts, of the Content-Type header.
        open_part: called with the part's name and its filename (None for a field that is not a file); returns the
            function that takes the part's content, or None to skip it.

    Raises:
        BrokenMultipartError: the boundary is too long.
    """

    def __init__(self, boundary: bytes, open_part: OpenPart) -> None:
        self._open_part = open_part
        self._header = b""
        self._field = b""
        self._disposition: dict[bytes, bytes] = {}
        self._write: Write | None = None
        self.complete = False
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._part_begin,
                    "on_header_field": self._header_field,
                    "on_header_value": self._header_value,
                    "on_header_end": self._header_end,
                    "on_headers_finished": self._headers_finished,
                    "on_part_data": self._part_data,
                    "on_end": self._end,
                },
            )
        except FormParserError as error:
            raise BrokenMultipartError(str(error)) from error

    def write(self, data: bytes) -> None:
        """Parses the next bytes of the body.

        Raises:
            BrokenMultipartError: they are not multipart/form-data.
        """
        try:
            self._parser.write(data)
        except FormParserError as error:
            raise BrokenMultipartError(str(error)) from error

    def _part_begin(self) -> None:
        self._field = self._header = b""
        self._disposition = {}

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._field += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _header_end(self) -> None:
        if self._field.lower() == b"content-disposition":
            self._disposition = parse_options_header(self._header)[1]
        self._field = self._header = b""

    def _headers_finished(self) -> None:
        filename = self._disposition.get(b"filename")
        self._write = self._open_part(
            self._disposition.get(b"name", b"").decode(errors="replace"),
            None if filename is None else filename.decode(errors="replace"),
        )

    def _part_data(self, data: bytes, start: int, end: int) -> None:
        if self._write is not None:
            self._write(data[start:end])

    def _end(self) -> None:
        self.complete = True
