"""Ranges of a blob (RFC 9110, section 14)."""

import asyncio

import pytest

from service.http.conditional import send_blob
from service.http.problems import ProblemError

BLOB = bytes(range(20))


def answer(requested: str | None, blob: bytes = BLOB) -> tuple[int, str | None, bytes]:
    """Status, Content-Range and body."""
    sent = send_blob(len(blob), lambda begin, end: iter([blob[begin:end]]), "x/y", requested)

    async def body() -> bytes:
        return b"".join([bytes(chunk) async for chunk in sent.body_iterator])  # type: ignore[arg-type]

    whole = asyncio.run(body())
    assert sent.headers["content-length"] == str(len(whole))
    return sent.status_code, sent.headers.get("content-range"), whole


@pytest.mark.parametrize(
    ("requested", "begin", "end"),
    [
        *(("bytes=0-0", 0, 1), ("bytes=5-9", 5, 10), ("bytes=5-", 5, 20), ("bytes=19-", 19, 20), ("bytes=0-99", 0, 20)),
        *(("bytes=-5", 15, 20), ("bytes=-1", 19, 20), ("bytes=-20", 0, 20), ("bytes=-21", 0, 20)),
        *(("Bytes=-5", 15, 20), ("bytes=-99999999999999999999", 0, 20), ("bytes=5-99999999999999999999", 5, 20)),
    ],
)
def test_a_part(requested: str, begin: int, end: int) -> None:
    assert answer(requested) == (206, f"bytes {begin}-{end - 1}/20", BLOB[begin:end])


@pytest.mark.parametrize("requested", ["bytes=20-", "bytes=20-30", "bytes=-0", "bytes=99999999999999999999-"])
def test_what_cannot_be_had(requested: str) -> None:
    with pytest.raises(ProblemError) as caught:
        answer(requested)
    assert caught.value.problem.status == 416
    assert caught.value.headers == {"Content-Range": "bytes */20"}


def test_of_nothing() -> None:
    for requested in ("bytes=0-", "bytes=-5"):
        with pytest.raises(ProblemError) as caught:
            answer(requested, b"")
        assert caught.value.headers == {"Content-Range": "bytes */0"}


@pytest.mark.parametrize(
    "requested",
    [None, "", "bytes", "bytes=", "bytes=-", "bytes=a-", "bytes=--5", "bytes=0-1,5-6", "lines=0-1", "bytes=-5-"],
)
def test_what_is_ignored(requested: str | None) -> None:
    assert answer(requested) == (200, None, BLOB)
