import errno
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import httpx2
import pytest
from fastapi import FastAPI

from accel.errors import Diagnosis, InvalidModel
from service.http import problems
from service.routes.reference import problem_catalogue
from worker.sandbox.fork_client import NotStartedError

Check = Callable[..., dict]
ROOT = Path(__file__).parents[4]


def test_no_such_path(client: httpx2.Client, is_problem: Check) -> None:
    is_problem(client.get("/v2/models"), 404, "not-found")


def test_no_such_method(client: httpx2.Client, is_problem: Check) -> None:
    response = client.delete("/v1/jobs")
    is_problem(response, 405, "method-not-allowed")
    assert response.headers["allow"] == "GET, HEAD, POST"
    assert client.put("/v1/accelerators/vta").headers["allow"] == "GET, HEAD, PATCH, DELETE"
    assert client.get(f"/v1/jobs/{'0' * 32}/cancel").headers["allow"] == "POST"


def test_an_exception_of_ours_is_a_problem_and_says_nothing_of_us(
    is_problem: Check, caplog: pytest.LogCaptureFixture
) -> None:
    app = FastAPI()
    problems.install_problem_handlers(app)

    @app.get("/broken")
    def broken() -> None:
        raise RuntimeError("secret")

    @app.get("/refused")
    def refused() -> None:
        raise InvalidModel("not ONNX", field="model")

    @app.get("/system/{number}")
    def system(number: int) -> None:
        raise OSError(number, "no luck", "/secret")

    @app.get("/crowded")
    def crowded() -> None:
        raise NotStartedError("no process")

    with httpx2.Client(transport=wsgi(app), base_url="http://test") as client:
        answer = client.get("/crowded")
        is_problem(answer, 503, "busy")
        assert answer.headers["retry-after"] == "5"
        for number in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
            answer = client.get(f"/system/{number}")
            assert "secret" not in str(is_problem(answer, 503, "disk-full"))
            assert answer.headers["retry-after"] == "30"
        assert "secret" not in str(is_problem(client.get(f"/system/{errno.EIO}"), 500, "internal-error"))
        caplog.clear()
        broken = is_problem(client.get("/broken"), 500, "internal-error")
        assert "secret" not in str(broken)
        assert broken["incident"] in caplog.text
        is_problem(client.get("/refused"), 422, "invalid-model", "model")


def wsgi(app: FastAPI) -> httpx2.BaseTransport:
    from starlette.testclient import TestClient  # noqa: PLC0415

    return TestClient(app, raise_server_exceptions=False)._transport


def test_every_type_leads_to_an_explanation(client: httpx2.Client, is_problem: Check) -> None:
    index = client.get("/problems").text
    for slug, meaning in problem_catalogue().items():
        assert f"/problems/{slug}\n" in index
        assert client.get(f"/problems/{slug}").text == f"{meaning}\n"
    is_problem(client.get("/problems/nothing"), 404, "not-found")


def test_every_type_is_documented() -> None:
    page = (ROOT / "docs" / "problems.md").read_text()
    assert [slug for slug in problem_catalogue() if f"`{slug}`" not in page] == []


def test_every_diagnosis_is_documented() -> None:
    page = (ROOT / "docs" / "problems.md").read_text()
    assert [kind for kind in get_args(Diagnosis) if f"| `{kind}` |" not in page] == []


@pytest.mark.parametrize("slug", problems.SERVICE_TYPES)
def test_the_catalogue_is_of_http_errors(slug: str) -> None:
    status, title = problems.SERVICE_TYPES[slug]
    assert 400 <= status < 600
    assert title.endswith(".")
