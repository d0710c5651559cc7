"""Compressed answers of a real service over HTTP."""

import asyncio
import gzip
import hashlib
import http.client
import json
import random
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from backports import zstd

from service.middleware.compression import Compression
from tests.helpers.idle_service import Quiet, quiet_service
from tests.helpers.records import RESULT, publish_all
from worker.records.event_journal import EVENTS_FILE

TEXT = ("// primfn: a module after a stage\n" * 90_000).encode()  # 3 MB
NOISE = random.Random(1).randbytes(1 << 20)
REPORT = json.dumps({"layers": list(range(2000))}).encode()


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quiet]:
    with quiet_service(tmp_path_factory.mktemp("quiet")) as made:
        yield made


@pytest.fixture(scope="module")
def job(quiet: Quiet, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a job that has left files."""
    job_id = quiet.post(quiet.request(seed=1))["id"]
    directory = tmp_path_factory.mktemp("left")
    (directory / "tir").mkdir()
    files = {"tir/05-flatten.txt": TEXT, "outputs.npz": NOISE, "report.json": REPORT, "small.txt": b"a" * 1000}
    for name, data in files.items():
        (directory / name).write_bytes(data)
    told = [f'{{"id":"1-{number}","event":"log","data":{{"line":"x"}}}}\n' for number in range(100)]
    (directory / EVENTS_FILE).write_text("".join(told))
    publish_all(quiet.store, job_id, 1, directory)
    quiet.jobs.succeed(job_id, 1, RESULT)
    return f"/v1/jobs/{job_id}"


class Raw:
    """An answer as it is on the wire."""

    def __init__(self, quiet: Quiet, path: str, method: str = "GET", body: bytes | None = None, **headers: str) -> None:
        url = urlsplit(str(quiet.client.base_url))
        connection = http.client.HTTPConnection(url.hostname or "", url.port)
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        self.status, self.headers, self.body = answer.status, answer.headers, answer.read()
        connection.close()

    @property
    def plain(self) -> bytes:
        coding = self.headers["content-encoding"]
        return {"gzip": gzip.decompress, "zstd": zstd.decompress, None: bytes}[coding](self.body)

    @property
    def varies(self) -> set[str]:
        return {each.strip().lower() for each in (self.headers["vary"] or "").split(",")}


@pytest.mark.parametrize(
    ("accepted", "coding"), [("gzip", "gzip"), ("zstd", "zstd"), ("gzip, zstd", "zstd"), ("zstd;q=.5, br", None)]
)
def test_texts_are_compressed_as_the_client_accepts(quiet: Quiet, job: str, accepted: str, coding: str | None) -> None:
    for path, whole in (("/tir/flatten", TEXT), ("/report", REPORT)):
        answer = Raw(quiet, job + path, accept_encoding=accepted)
        assert (answer.status, answer.headers["content-encoding"]) == (200, coding)
        assert "accept-encoding" in answer.varies
        assert answer.plain == whole
        if coding:
            assert len(answer.body) < len(whole) / 2
            assert answer.headers["content-length"] in {None, str(len(answer.body))}
        else:
            assert answer.headers["content-length"] == str(len(whole))


def test_without_the_header_nothing_is_compressed(quiet: Quiet, job: str) -> None:
    answer = Raw(quiet, job + "/tir/flatten")
    assert answer.headers["content-encoding"] is None
    assert answer.body == TEXT
    assert "accept-encoding" in answer.varies


def test_what_does_not_gain_is_left(quiet: Quiet, job: str) -> None:
    for path in ("/outputs", "/artifacts/small.txt", "/artifacts/outputs.npz"):
        answer = Raw(quiet, job + path, accept_encoding="gzip, zstd")
        assert answer.headers["content-encoding"] is None
        assert answer.headers["content-length"] == str(len(answer.body))
        assert not answer.headers["etag"].startswith("W/")
    assert Raw(quiet, "/healthz", accept_encoding="gzip").headers["content-encoding"] is None
    events = Raw(quiet, job + "/events", accept_encoding="gzip, zstd")
    assert events.headers["content-type"].startswith("text/event-stream")
    assert events.headers["content-encoding"] is None
    assert len(events.body) > 1400


def test_artifacts_are_the_same_for_ever_in_each_coding(quiet: Quiet, job: str) -> None:
    digest = hashlib.sha256(TEXT).hexdigest()
    strong, weak = f'"{digest}"', f'W/"{digest}"'
    for accepted, etag in (("identity", strong), ("gzip", weak), ("zstd", weak)):
        answer = Raw(quiet, job + "/tir/flatten", accept_encoding=accepted)
        assert answer.headers["etag"] == etag
        assert "immutable" in answer.headers["cache-control"]
        for known in (strong, weak, f'"other", {weak}'):
            again = Raw(quiet, job + "/tir/flatten", accept_encoding=accepted, if_none_match=known)
            assert (again.status, again.body) == (304, b"")
            assert again.headers["etag"] == known.split(", ")[-1]
            assert "accept-encoding" in again.varies
            assert again.headers["content-encoding"] is None


def test_ranges_are_of_what_is_stored(quiet: Quiet, job: str) -> None:
    digest = hashlib.sha256(TEXT).hexdigest()
    path = job + "/tir/flatten"
    part = Raw(quiet, path, accept_encoding="gzip, zstd", range="bytes=5000-9999")
    assert (part.status, part.headers["content-encoding"]) == (206, None)
    assert part.body == TEXT[5000:10_000]
    assert part.headers["etag"] == f'"{digest}"'
    resumed = Raw(quiet, path, accept_encoding="gzip", range="bytes=5000-", if_range=f'"{digest}"')
    assert (resumed.status, resumed.body) == (206, TEXT[5000:])
    # what was compressed is no beginning of it
    whole = Raw(quiet, path, accept_encoding="gzip", range="bytes=5000-", if_range=f'W/"{digest}"')
    assert (whole.status, whole.headers["content-encoding"], whole.body) == (200, None, TEXT)
    beyond = Raw(quiet, path, accept_encoding="gzip", range="bytes=99999999-")
    assert beyond.status == 416


@pytest.mark.parametrize("accepted", ["gzip", "zstd", "identity"])
def test_head_is_get_without_its_body(quiet: Quiet, job: str, accepted: str) -> None:
    for path in ("/tir/flatten", "/report", "/outputs", "", "/artifacts/small.txt"):
        got = Raw(quiet, job + path, accept_encoding=accepted)
        head = Raw(quiet, job + path, "HEAD", accept_encoding=accepted)
        assert (head.status, head.body) == (200, b"")
        names = ("content-encoding", "content-length", "content-type", "etag", "vary", "cache-control")
        for name in names:
            assert head.headers[name] == got.headers[name], (path, name)


def test_polling_is_answered_with_304_whatever_the_coding(quiet: Quiet) -> None:
    for _ in range(3):
        quiet.post(quiet.request(seed=random.Random().randrange(1 << 30)))
    path = "/v1/jobs?limit=3"
    first = Raw(quiet, path, accept_encoding="gzip")
    assert first.headers["content-encoding"] == "gzip"
    assert first.headers["etag"].startswith('W/"')
    for accepted in ("gzip", "zstd", "identity"):
        assert Raw(quiet, path, accept_encoding=accepted, if_none_match=first.headers["etag"]).status == 304
    quiet.post(quiet.request(seed=random.Random().randrange(1 << 30)))
    again = Raw(quiet, path, accept_encoding="gzip", if_none_match=first.headers["etag"])
    assert again.status == 200
    assert again.headers["etag"] != first.headers["etag"]


@pytest.mark.slow
def test_problems_and_the_documentation(quiet: Quiet) -> None:
    document = Raw(quiet, "/openapi.json", accept_encoding="gzip")
    assert document.headers["content-encoding"] == "gzip"
    assert json.loads(document.plain)["openapi"]
    missing = Raw(quiet, "/v1/models/" + "a" * 2000, accept_encoding="zstd")
    assert missing.status >= 400
    assert missing.headers["content-encoding"] == "zstd"
    assert json.loads(missing.plain)["type"]


@pytest.mark.parametrize("coding", ["gzip", "zstd", "br", "deflate", "gzip, identity", "x" * 100])
def test_bodies_in_a_coding_are_refused(quiet: Quiet, is_problem: Any, coding: str) -> None:
    for path in ("/v1/models", "/v1/jobs", "/v1/tensors", "/v1/programs", "/v1/accelerators"):
        answer = quiet.client.post(path, content=gzip.compress(bytes(100_000)), headers={"content-encoding": coding})
        is_problem(answer, 415, "unsupported-media-type", "Content-Encoding")
        assert answer.headers["accept-encoding"] == "identity"


def test_a_body_that_is_said_to_be_plain_is_taken(quiet: Quiet) -> None:
    answer = quiet.client.post("/v1/jobs", json=quiet.request(), headers={"content-encoding": "identity"})
    assert answer.status_code == 202


def test_large_bodies_go_through_piece_by_piece() -> None:
    """What waits in the middle is bounded, and beyond so many streams they go as they are."""
    piece, pieces = b"a line of a trace\n" * 4096, 50

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/csv")]})
        for _ in range(pieces):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": b""})

    async def ask(middleware: Compression) -> tuple[bytes | None, bytes]:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"accept-encoding", b"zstd")]}
        await middleware(scope, None, send)  # type: ignore[arg-type]
        assert [each.get("more_body", False) for each in sent[1:]] == [True] * (len(sent) - 2) + [False]
        coding = dict(sent[0]["headers"]).get(b"content-encoding")
        return coding, b"".join(each["body"] for each in sent[1:])

    async def everybody() -> list[tuple[bytes | None, bytes]]:
        middleware = Compression(app)
        found = await asyncio.gather(*(ask(middleware) for _ in range(40)))
        return [*found, await ask(middleware)]

    answers = asyncio.run(everybody())
    assert [coding for coding, _ in answers].count(b"zstd") == 24 + 1
    assert answers[-1][0] == b"zstd"
    for coding, body in answers:
        assert (zstd.decompress(body) if coding else body) == piece * pieces
