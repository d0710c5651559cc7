import asyncio
import hashlib
import itertools
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from starlette.requests import Request

from service.http.problems import ProblemError
from service.uploads.receive import receive_file, receive_parts
from tests.helpers.marking import share


def request(content_type: str, chunks: list[bytes]) -> Request:
    waiting = list(chunks)

    async def next_message() -> dict:
        body = waiting.pop(0) if waiting else b""
        return {"type": "http.request", "body": body, "more_body": bool(waiting)}

    scope = {"type": "http", "method": "POST", "headers": [(b"content-type", content_type.encode())]}
    return Request(scope, next_message)


def received(content_type: str, chunks: list[bytes], directory: Path) -> bytes:
    async def run() -> bytes:
        async with receive_file(request(content_type, chunks), directory) as upload:
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
        async with receive_file(Request({"type": "http", "method": "POST", "headers": []}, gone), tmp_path):
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


def test_a_file_in_json_is_base64_to_the_last_character(tmp_path: Path) -> None:
    assert received("application/json", [b'{"base64": ', b'"AAECAw=="}'], tmp_path) == bytes(range(4))
    for text in ("AAEC*Aw==", "AAEC Aw==", "AAECAw", "AAEC-w=="):
        with pytest.raises(ProblemError, match="base64") as caught:
            received("application/json", [f'{{"base64": "{text}"}}'.encode()], tmp_path)
        assert caught.value.problem.type == "/problems/invalid-request"


def received_parts(content_type: str, chunks: list[bytes], directory: Path, limit: int = 8) -> list[tuple]:
    async def run() -> list[tuple]:
        async with receive_parts(request(content_type, chunks), directory, limit=limit) as parts:
            return [(part.name, part.filename, part.path.read_bytes()) for part in parts]

    try:
        return asyncio.run(run())
    finally:
        assert list(directory.iterdir()) == []


def part(name: str, data: bytes, filename: str | None = None) -> bytes:
    also = f'; filename="{filename}"' if filename is not None else ""
    return f'--b\r\nContent-Disposition: form-data; name="{name}"{also}\r\n\r\n'.encode() + data + b"\r\n"


NAMES = st.text("abc./%", max_size=5)
PARTS = st.lists(st.tuples(NAMES, st.none() | NAMES, st.binary(min_size=1, max_size=50)), min_size=1, max_size=8)


@pytest.mark.slow
@settings(max_examples=share(50), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(PARTS, st.lists(st.integers(0, 1000), max_size=8))
def test_all_parts_come_whole_however_they_are_cut(tmp_path: Path, parts: list[tuple], cuts: list[int]) -> None:
    body = b"".join(part(name, data, filename) for name, filename, data in parts) + b"--b--\r\n"
    assume(all(b"--b" not in data for _, _, data in parts))
    assert received_parts("multipart/form-data; boundary=b", split(body, cuts), tmp_path) == parts


def test_a_raw_body_is_the_only_part(tmp_path: Path) -> None:
    assert received_parts("application/zip", [b"da", b"ta"], tmp_path) == [("", None, b"data")]


@pytest.mark.parametrize(
    ("content_type", "body", "slug"),
    [
        ("multipart/form-data; boundary=b", b"".join(part(f"{n}", b"x") for n in range(9)) + b"--b--\r\n", "too-large"),
        ("multipart/form-data; boundary=b", part("a", b"x"), "bad-request"),
        ("multipart/form-data; boundary=b", b"nothing", "bad-request"),
        ("multipart/form-data; boundary=" + "b" * 300, b"x", "bad-request"),
        ("multipart/form-data", b"x", "bad-request"),
        ("multipart/form-data; boundary=b", b"--b--\r\n", "invalid-request"),
        ("multipart/form-data; boundary=b", part("a", b"", "f") + b"--b--\r\n", "invalid-request"),
        ("multipart/form-data; boundary=b", b"--b\r\n" + b"x" * 9000 + b": y\r\n\r\n", "bad-request"),
        ("application/zip", b"", "invalid-request"),
        ("application/json", b"{}", "invalid-request"),
        ("text/plain", b"{}", "unsupported-media-type"),
    ],
)
def test_parts_that_are_refused(tmp_path: Path, content_type: str, body: bytes, slug: str) -> None:
    with pytest.raises(ProblemError) as caught:
        received_parts(content_type, [body], tmp_path)
    assert caught.value.problem.type == f"/problems/{slug}"
