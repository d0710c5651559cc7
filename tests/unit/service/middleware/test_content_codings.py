import io
import zlib

import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from service.middleware.compression import is_text, new_encoder, preferred_coding


@pytest.mark.parametrize(
    ("accepted", "coding"),
    [
        ("", None),
        ("gzip", "gzip"),
        ("GZIP", "gzip"),
        ("x-gzip", "gzip"),
        ("zstd", "zstd"),
        ("gzip, deflate, br, zstd", "zstd"),
        ("gzip;q=1.0, zstd;q=0.9", "gzip"),
        ("zstd;q=0, gzip", "gzip"),
        ("gzip;q=0", None),
        ("br, deflate", None),
        ("*", "zstd"),
        ("*;q=0.5, gzip", "gzip"),
        ("zstd;q=0, *", "gzip"),
        ("*;q=0", None),
        ("identity", None),
        ("identity, gzip;q=0.5", None),
        ("identity;q=0.5, gzip;q=0.7", "gzip"),
        ("identity;q=0", None),
        ("gzip;q=2", None),
        ("gzip;q=x", None),
        ("gzip ; q=0.5 , zstd ; q=0.4", "gzip"),
        (",,;,gzip", "gzip"),
    ],
)
def test_the_coding_that_is_liked_best(accepted: str, coding: str | None) -> None:
    assert preferred_coding(accepted) == coding


@given(st.text())
def test_any_header_chooses_something(text: str) -> None:
    assert preferred_coding(text) in {None, "zstd", "gzip"}


@pytest.mark.parametrize(
    ("content_type", "gains"),
    [
        ("application/json", True),
        ("application/problem+json", True),
        ("application/jsonl", True),
        ("text/plain; charset=utf-8", True),
        ("text/csv", True),
        ("text/html", True),
        ("image/svg+xml", True),
        ("text/event-stream", False),
        ("text/event-stream; charset=utf-8", False),
        ("application/octet-stream", False),
        ("application/zip", False),
        ("image/png", False),
        ("", False),
        ("nothing", False),
    ],
)
def test_which_types_gain(content_type: str, gains: bool) -> None:
    assert is_text(content_type) == gains


@given(st.lists(st.binary()))
def test_what_is_coded_in_pieces_is_whole(pieces: list[bytes]) -> None:
    for coding in ("gzip", "zstd"):
        by = new_encoder(coding)
        coded = b"".join([*(by.code(piece, last=False) for piece in pieces), by.code(b"", last=True)])
        whole = zlib.decompress(coded, 31) if coding == "gzip" else zstd.decompress(coded)
        assert whole == b"".join(pieces)


def test_the_window_is_small_enough_for_browsers() -> None:
    by = new_encoder("zstd")
    coded = by.code(bytes(range(256)) * 65536, last=False) + by.code(b"", last=True)
    assert zstd.get_frame_info(coded).decompressed_size is None
    # RFC 9659: at most 8 MB; a decoder that takes no more than 2^18 reads it
    options = {zstd.DecompressionParameter.window_log_max: 18}
    assert len(zstd.ZstdFile(io.BytesIO(coded), options=options).read()) == 16 << 20
