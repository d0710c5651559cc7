"""Content codings (RFC 9110, sections 8.4 and 12.5.3): which one an answer has, and what does the coding."""

import re
import zlib
from typing import Literal, Protocol

from backports import zstd

Coding = Literal["zstd", "gzip"]
_CODINGS: tuple[Coding, ...] = ("zstd", "gzip")  # of equals the first
_ALIASES = {"x-gzip": "gzip"}
_QUALITY = re.compile(r"0(\.\d{0,3})?|1(\.0{0,3})?")
# both as fast as they can; of zstd the window, and with it the memory, is bounded: gzip's is 32 KiB
_ZSTD: dict[int, int] = {zstd.CompressionParameter.compression_level: 1, zstd.CompressionParameter.window_log: 18}
_GZIP_LEVEL, _GZIP_FORM = 1, 16 + zlib.MAX_WBITS
_TEXT = re.compile(r"text/(?!event-stream$).+|application/(json|jsonl|javascript|xml|yaml)|.+/.+\+(json|xml|yaml)")


class Coder(Protocol):
    """Codes a body piece by piece."""

    def code(self, data: bytes, *, last: bool) -> bytes:
        """What there is of the coded body so far; all of it, with the ``last`` piece."""


class _Gzip:
    def __init__(self) -> None:
        self._inner = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_FORM)

    def code(self, data: bytes, *, last: bool) -> bytes:
        coded = self._inner.compress(data)
        return coded + self._inner.flush() if last else coded


class _Zstd:
    def __init__(self) -> None:
        self._inner = zstd.ZstdCompressor(options=_ZSTD)

    def code(self, data: bytes, *, last: bool) -> bytes:
        return self._inner.compress(data, self._inner.FLUSH_FRAME if last else self._inner.CONTINUE)


def coder(coding: Coding) -> Coder:
    """A new one."""
    return _Zstd() if coding == "zstd" else _Gzip()


def chosen(accept_encoding: str) -> Coding | None:
    """The coding that the client likes best; None: it wants none, or none that there is."""
    found: dict[str, float] = {}
    for part in accept_encoding.split(","):
        name, *parameters = (item.strip().lower() for item in part.split(";"))
        given = next((item[2:].strip() for item in parameters if item.startswith("q=")), "1")
        found[_ALIASES.get(name, name)] = float(given) if _QUALITY.fullmatch(given) else 0.0
    others = found.get("*", 0.0)
    best = max(_CODINGS, key=lambda coding: found.get(coding, others))
    quality = found.get(best, others)
    return best if quality > 0 and quality >= found.get("identity", 0.0) else None


def is_text(content_type: str) -> bool:
    """Whether a body of this type gains by it: text that is not told piece by piece."""
    return _TEXT.fullmatch(content_type.partition(";")[0].strip().lower()) is not None
