"""What no client sends: whatever arrives, the answer is a success or a problem of a documented type, and comes soon."""

from collections.abc import Callable, Iterator

import pytest

from examples.single import Conv, conv_model
from service.http.problems import SERVICE_TYPES, accel_types
from tests.conftest import Service
from tests.fuzz.raw import request, send
from worker.records.problem_details import LONGEST

JSON, FORM = b"application/json", b"multipart/form-data; boundary=x"
DIGITS = b"9" * 5000  # more than Python makes a number of
DIGEST = b"0" * 64
TYPES = {f"/problems/{slug}" for slug in (*SERVICE_TYPES, *accel_types())}

PATHS = [
    b"/v1/jobs/%00", b"/v1/jobs/%2F", b"/v1/jobs/%ED%A0%80", b"/v1/jobs/%ff", b"/v1/jobs/\xff", b"/v1/jobs/%",
    b"//v1/jobs",
    b"/v1/models/..%2f..%2fetc", b"/v1/accelerators/%00", b"/v1/accelerators/../vta", b"/v1/schemas/%00",
    b"/problems/%00",
    b"/static-offline-docs/%00", b"/static-offline-docs/..%2f..%2fx", b"/static-offline-docs/" + b"a" * 5000,
    b"http://elsewhere/v1/jobs", b"*", b"/v1/jobs;x=y", b"/" + b"a" * 60_000, b"/v1/jobs?" + b"a=1&" * 15_000,
    b"/v1/jobs?limit=" + DIGITS, b"/v1/jobs?limit=1e3", b"/v1/jobs?limit=1&limit=x", b"/v1/jobs?cursor=%00",
    b"/v1/jobs?cursor=%ED%A0%80", b"/v1/jobs?accelerator=%ED%A0%80%00", b"/v1/jobs?state=%00", b"/v1/jobs?share=%ff%00",
    b"/v1/accelerators?cursor=%ff%00", b"/v1/accelerators/vta?format=%00", b"/v1/jobs/a/trace?begin=" + DIGITS,
]  # fmt: skip
BODIES = [
    b"\xff\xfe", b"\xef\xbb\xbf{}", "{}".encode("utf-16"), b"null", b"3", b'"x"', b"", b"{", b'{"model":NaN}',
    b'{"options":{"seed":' + DIGITS + b"}}", b'{"options":{"verify_seconds":Infinity}}', b"[" * 60_000,
    b'{"a":' * 10_000,
    b'{"options":{"verify_seconds":1e999}}', b'{"\\ud800":1}', b'{"model":"\\ud800"}', b'{"options":{"\\ud800":1}}',
    b'{"accelerator":"\\ud800","model":"' + DIGEST + b'"}', b'{"accelerator":"\\u0000","model":"' + DIGEST + b'"}',
    b'{"model":"' + DIGEST + b'","model":3}', b'{"options":{"host_nodes":["\\ud800"]}}',
    b'{"' + b"k" * 60_000 + b'":1}',
    b"{" + b",".join(b'"%d":1' % number for number in range(6000)) + b"}",
]  # fmt: skip
MEDIA_TYPES = [
    None, b"text/plain", b"application/json; charset=nope", b"\xff", b"multipart/form-data", b";;;=;", FORM,
    b"multipart/form-data; boundary=" + b"x" * 5000, b"multipart/form-data; boundary=\xff",
    b'multipart/form-data; boundary="a',
    b"multipart/form-data; boundary*0*=utf-8''%zz",
]  # fmt: skip
FORMS = [
    b"--x\r\n", b"--x--\r\n", b"--x\r\n\r\nabc\r\n--x--\r\n",
    b"--x\r\n" + b"A: b\r\n" * 10_000 + b"\r\nabc\r\n--x--\r\n",
    b'--x\r\nContent-Disposition: form-data; name="\xff"; filename="\xff\x00"\r\n\r\nabc\r\n--x--\r\n',
    b"--x\r\nContent-Disposition: form-data; name*=utf-9''x; filename=a\r\n\r\nabc\r\n--x--\r\n",
    b'--x\r\nContent-Disposition: form-data; name="f"; filename="../../x"\r\n\r\n\r\n--x--\r\n',
    b'--x\r\nContent-Disposition: form-data; name="f"; filename="a"\r\n\r\nabc\r\n' * 2000 + b"--x--\r\n",
]  # fmt: skip
HEADERS = [
    b"Range: bytes=%b-" % DIGITS, b"Range: bytes=0-%b" % DIGITS, b"Range: bytes=-5", b"Range: bytes=5-2",
    b"Range: \xff",
    b"Range: bytes=0-0,5-6", b"If-None-Match: \xff,*", b"If-None-Match: " + b"," * 30_000,
    b"If-Range: \xff\r\nRange: bytes=0-1",
    b"If-Match: x", b"Last-Event-ID: " + DIGITS, b"Last-Event-ID: \xff", b"Last-Event-ID: 999999999-999999999",
    b"Prefer: wait=" + DIGITS, b'Prefer: wait="', b'Prefer: wait=1, "' + b"\\" * 30_000, b"Prefer: \xff",
    b"Idempotency-Key: \xff",
    b"Idempotency-Key: " + b"a" * 300, b"Accept: \xff;q=", b"Accept: ;;;,,,q=9", b"Accept: application/json;q=0",
    b"X-Request-Id: " + b"a" * 1000, b"X-Request-Id: a\x0bb", b"traceparent: \xff", b"Authorization: Bearer \xff",
    b"Authorization:", b"Expect: nope", b"Upgrade: h2c", b"Origin: \xff", b"Cookie: \xff", b"Accept-Encoding: \xff",
    b"Upgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13",
    b"Host: y", b"Host: \xff", b"Bad Header: x", b"A\x00: b", b"A: b\x00c", b"A: b\r\n folded", b"A: " + b"b" * 60_000,
    b"Content-Length: -1", b"Content-Length: 1e3", b"Content-Length: " + DIGITS, b"Content-Length: 99999999999999999",
    b"Content-Length: 5\r\nContent-Length: 6", b"Transfer-Encoding: gzip",
    b"Transfer-Encoding: chunked\r\nContent-Length: 4",
]  # fmt: skip
NO_HTTP = [
    b"GET /\r\n\r\n", b"\x16\x03\x01\x00\xa5\x01\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n", b"\r\n\r\nx\r\n\r\n",
    b"GET / HTTP/9.9\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    b"POST /v1/models HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"GET /" + b"a" * 200_000, b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 50_000,
]  # fmt: skip
METHODS = [b"OPTIONS", b"TRACE", b"PATCH", b"PUT", b"CONNECT", b"PROPFIND", b"QUERY", b"post", b"G" * 300]


@pytest.fixture(scope="module")
def job(service: Service) -> str:
    location = service.submit(conv_model(Conv(16, 16, 8, 8)).SerializeToString())
    assert service.wait(location)["state"] == "succeeded"
    return location


@pytest.fixture
def ask(service: Service) -> Iterator[Callable[[bytes], int]]:
    """Send bytes, check the answer's form, and give its status."""
    before = len(service.lines)

    def ask(data: bytes) -> int:
        answer = send(service.url, data)
        assert answer.seconds < 10, data[:200]
        if answer.status >= 400 and not data.startswith(b"HEAD"):
            assert answer.problem is not None, (data[:200], answer)
            assert answer.problem["type"] in TYPES, data[:200]
            assert answer.problem["status"] == answer.status < 500, (data[:200], answer)
            assert 0 < len(answer.problem["detail"]) <= LONGEST
            assert len(answer.body) < 4 * LONGEST + 100 * 200
        assert answer.status == 405 or "allow" not in answer.headers
        return answer.status

    yield ask
    assert service.client.get("/healthz").status_code == 200
    assert not [line for line in service.lines[before:] if "Traceback" in line]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: repr(path[:40]))
def test_paths(ask: Callable[[bytes], int], path: bytes) -> None:
    for method in (b"GET", b"HEAD", b"DELETE"):
        assert ask(request(method, path)) in {200, 307, 400, 404, 405, 409, 422}


@pytest.mark.slow
def test_numbers_of_a_real_trace(ask: Callable[[bytes], int], job: str) -> None:
    trace = job.encode() + b"/trace?format=perfetto&"
    for query in (
        b"begin=" + DIGITS,
        b"end=1" + b"0" * 30,
        b"begin=9223372036854775807",
        b"clock_mhz=nan",
        b"begin=1&end=1",
    ):
        assert ask(request(path=trace + query)) == 422
    for query in (b"begin=9007199254740991", b"end=9007199254740991", b"clock_mhz=1e-320"):
        assert ask(request(path=trace + query)) == 200


@pytest.mark.parametrize("body", BODIES, ids=lambda body: repr(body[:40]))
def test_json(ask: Callable[[bytes], int], body: bytes) -> None:
    for dry_run in (b"", b"?dry_run=1"):
        assert ask(request(b"POST", b"/v1/jobs" + dry_run, body=body, media_type=JSON)) in {400, 422}


@pytest.mark.parametrize("name", ["jobs", "models", "programs", "tensors", "accelerators"])
def test_media_types(ask: Callable[[bytes], int], name: str) -> None:
    for media_type in MEDIA_TYPES:
        data = request(b"POST", f"/v1/{name}".encode(), body=b'{"a":1}', media_type=media_type)
        assert ask(data) in {400, 415, 422}, media_type


@pytest.mark.slow
@pytest.mark.parametrize("name", ["models", "programs", "tensors", "accelerators"])
def test_forms(ask: Callable[[bytes], int], name: str) -> None:
    for form in FORMS:
        data = request(b"POST", f"/v1/{name}".encode(), body=form, media_type=FORM)
        assert ask(data) in {400, 413, 422}, form[:100]


@pytest.mark.parametrize("header", HEADERS, ids=lambda header: repr(header[:40]))
def test_headers(ask: Callable[[bytes], int], job: str, header: bytes) -> None:
    paths = ("", "/report", "/outputs", "/tir/flatten", "/artifacts/program.zip", "/trace?format=binary", "/events")
    for path in (
        *(f"{job}{path}" for path in paths),
        "/v1/jobs",
        "/v1/accelerators/vta",
        "/metrics",
        "/v1/schemas/accelerator",
    ):
        status = ask(request(path=path.encode(), headers=header + b"\r\n"))
        assert status in {200, 204, 206, 304, 400, 403, 406, 413, 416, 422}
    if b"Content-Length" not in header and b"Transfer-Encoding" not in header:
        assert ask(request(b"POST", b"/v1/jobs", header + b"\r\n", b"{}", JSON)) in {400, 403, 422}


@pytest.mark.parametrize("data", NO_HTTP, ids=lambda data: repr(data[:40]))
def test_what_is_no_http(ask: Callable[[bytes], int], data: bytes) -> None:
    assert ask(data) in {200, 400, 404}


@pytest.mark.slow
def test_methods(service: Service, ask: Callable[[bytes], int]) -> None:
    for path, operations in service.client.get("/openapi.json").json()["paths"].items():
        known = {method.upper().encode() for method in operations} | ({b"HEAD"} if "get" in operations else set())
        for method in (*METHODS, b"GET", b"POST", b"DELETE"):
            if method in known:
                continue
            answer = send(service.url, request(method, path.replace("{", "").replace("}", "").encode()))
            assert answer.status == 405, (method, path)
            assert answer.problem["type"] == "/problems/method-not-allowed"
            allowed = set(answer.headers["allow"].encode().split(b", "))
            assert allowed == known, (method, path)


def test_a_body_larger_than_its_limit(ask: Callable[[bytes], int]) -> None:
    for method, path in (
        (b"POST", b"/v1/jobs"),
        (b"GET", b"/v1/jobs"),
        (b"POST", b"/v1/accelerators"),
        (b"DELETE", b"/v1/jobs/x"),
    ):
        assert ask(request(method, path, body=b" " * ((1 << 20) + 1), media_type=JSON)) == 413


def test_a_header_is_never_written_by_a_request(service: Service) -> None:
    for path in (
        b"/v1/jobs/%0d%0aX-Evil:%201",
        b"/v1/accelerators/%0d%0aX-Evil:%201/",
        b"/v1/jobs/x%0aX-Evil:1/events",
    ):
        answer = send(service.url, request(path=path, headers=b"Origin: http://a%0d%0aX-Evil: 1\r\n"))
        assert "x-evil" not in answer.headers
