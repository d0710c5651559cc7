import asyncio
import hashlib
import itertools
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.requests import Request

from service.problems import ProblemError
from service.upload import receive


def request(content_type: str, chunks: list[bytes]) -> Request:
    waiting = list(chunks)

    async def next_message() -> dict:
        body = waiting.pop(0) if waiting else b""
        return {"type": "http.request", "body": body, "more_body": bool(waiting)}

    scope = {"type": "http", "method": "POST", "headers": [(b"content-type", content_type.encode())]}
    return Request(scope, next_message)


def received(content_type: str, chunks: list[bytes], directory: Path) -> bytes:
    async def run() -> bytes:
        async with receive(request(content_type, chunks), directory) as upload:
            data = upload.path.read_bytes()
            assert upload.sha256 == hashlib.sha256(data).hexdigest()
            assert upload.bytes == len(data)
            return data

    data = asyncio.run(run())
    assert list(directory.iterdir()) == []
    return data


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[begin:end] for begin, end in itertools.pairwise(edges)]


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.binary(min_size=1, max_size=300), st.lists(st.integers(0, 1000), max_size=8), st.booleans())
def test_a_file_comes_whole_however_it_is_cut(tmp_path: Path, data: bytes, cuts: list[int], form: bool) -> None:
    if not form:
        assert received("application/octet-stream", split(data, cuts), tmp_path) == data
        return
    boundary = "----" + hashlib.sha256(data).hexdigest()
    note = f'--{boundary}\r\nContent-Disposition: form-data; name="note"\r\n\r\nnot the file\r\n'
    head = f'--{boundary}\r\ncontent-disposition: form-data; name="file"; filename="m.onnx"\r\nX-Other: 1\r\n\r\n'
    end = f"\r\n--{boundary}--\r\n"
    second = f'\r\n--{boundary}\r\nContent-Disposition: form-data; name="b"; filename="b"\r\n\r\nsecond{end}'
    body = note.encode() + head.encode() + data + second.encode()
    assert received(f"multipart/form-data; boundary={boundary}", split(body, cuts), tmp_path) == data


def test_a_form_that_breaks_off(tmp_path: Path) -> None:
    part = b'--b\r\nContent-Disposition: form-data; name="file"; filename="m"\r\n\r\ndata'
    assert received("multipart/form-data; boundary=b", [part, b"\r\n--b--\r\n"], tmp_path) == b"data"
    for cut in (part, part + b"\r\n--b", part + b"\r\n--b\r\n"):
        with pytest.raises(ProblemError, match="broke off"):
            received("multipart/form-data; boundary=b", [cut], tmp_path)


def test_a_client_that_goes_away_is_no_error_of_ours(tmp_path: Path) -> None:
    async def gone() -> dict:
        return {"type": "http.disconnect"}

    async def run() -> None:
        async with receive(Request({"type": "http", "method": "POST", "headers": []}, gone), tmp_path):
            pytest.fail("received nothing")

    with pytest.raises(ProblemError, match="broke off"):
        asyncio.run(run())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "content_type", ["application/json", "text/html", "multipart/form-data", "multipart/mixed; boundary=b"]
)
def test_other_bodies(tmp_path: Path, content_type: str) -> None:
    with pytest.raises(ProblemError):
        received(content_type, [b"data"], tmp_path)
    assert list(tmp_path.iterdir()) == []
