"""Labels, and the lists that show them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httpx2
import pytest

from tests.helpers.idle_service import Quiet, a_model
from tests.helpers.marking import rest_all
from tests.helpers.npz import npz_of

Check = Callable[..., dict]
UNICODE = "größer 模型 🙂"
# lists and writes over a bucket are those of jobs and of deletions
pytestmark = pytest.mark.parametrize("quiet", rest_all(["folder", "bucket"]), indirect=True)


def post_model(quiet: Quiet, seed: int, **parameters: str) -> dict[str, Any]:
    answer = quiet.client.post("/v1/models", content=a_model(seed), params=parameters)
    assert answer.status_code == 201, answer.text
    return answer.json()


def pages(quiet: Quiet, path: str, limit: int) -> list[list[dict[str, Any]]]:
    found, cursor = [], None
    while True:
        page = quiet.client.get(path, params={"limit": limit} | ({"cursor": cursor} if cursor else {})).json()
        found.append(page["items"])
        cursor = page["next_cursor"]
        if cursor is None:
            return found


def test_uploads_are_listed_newest_first_in_pages_that_do_not_move(quiet: Quiet) -> None:
    ids = [post_model(quiet, seed, label=f"model {seed}")["id"] for seed in range(20, 25)]
    first = quiet.client.get("/v1/models?limit=2").json()
    exact = quiet.settings.store_url is None  # a bucket's times are whole seconds: others may be of the same one
    assert {item["id"] for item in first["items"]} <= set(ids) or not exact
    late = post_model(quiet, 25)["id"]
    second = quiet.client.get(f"/v1/models?limit=2&cursor={first['next_cursor']}").json()
    seen = [item["id"] for item in first["items"] + second["items"]]
    assert len(set(seen)) == 4
    assert late not in seen or not exact
    listed = [item for page in pages(quiet, "/v1/models", 3) for item in page]
    own = [item for item in listed if item["created"]]
    assert sorted((item["created"] for item in own), reverse=True) == [item["created"] for item in own]
    if exact:
        assert [item["id"] for item in listed[:6]] == [late, *reversed(ids)]
    assert {item["label"] for item in listed} >= {f"model {seed}" for seed in range(20, 25)}
    example = listed[-1]
    assert (example["created"], example["bytes"], example["macs"]) == (None, 2241, 73728)
    described = quiet.client.get(f"/v1/models/{ids[0]}").json()
    shown = next(item for item in listed if item["id"] == ids[0])
    assert shown == {name: described[name] for name in shown}


def test_a_list_that_the_client_has(quiet: Quiet) -> None:
    for path in ("/v1/models", "/v1/programs", "/v1/tensors", "/v1/accelerators"):
        answer = quiet.client.get(path)
        assert answer.status_code == 200
        same = quiet.client.get(path, headers={"If-None-Match": answer.headers["ETag"]})
        assert same.status_code == 304
        assert quiet.client.head(path).headers["ETag"] == answer.headers["ETag"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["models", "tensors", "accelerators", "programs"])
def test_a_label_is_given_changed_and_taken_away(quiet: Quiet, kind: str) -> None:
    bodies = {
        "models": a_model(30),
        "tensors": npz_of(a_model(30), 3),
        "accelerators": (Path(__file__).parents[4] / "worker" / "examples" / "accelerator.json").read_bytes(),
        "programs": (Path(__file__).parents[4] / "worker" / "examples" / "program.zip").read_bytes(),
    }
    first = quiet.client.post(f"/v1/{kind}", content=bodies[kind], params={"label": UNICODE}).json()
    assert first["label"] == UNICODE
    again = quiet.client.post(f"/v1/{kind}", content=bodies[kind])
    assert again.json()["label"] == UNICODE  # without one it stays
    path = f"/v1/{kind}/{first['id']}"
    got = quiet.client.get(path)
    shown = unquote(got.headers["Cyclops-Label"]) if kind == "accelerators" else got.json()["label"]
    assert shown == UNICODE

    def labels() -> set[str | None]:
        listed = quiet.client.get(f"/v1/{kind}?limit=1000").json()["items"]
        return {item["label"] for item in listed if item["id"] == first["id"]}

    for change, wanted in (({"label": "b"}, "b"), ({}, "b"), ({"label": None}, None)):
        changed = quiet.client.patch(path, json=change)
        assert (changed.status_code, changed.json()["label"]) == (200, wanted)
        assert labels() == {wanted}
    quiet.client.patch(path, json={"label": "of one that goes"})
    assert quiet.client.delete(path).status_code == 204
    assert quiet.client.post(f"/v1/{kind}", content=bodies[kind]).json()["label"] is None


def test_the_label_of_a_form(quiet: Quiet, is_problem: Check) -> None:
    for kind, name, data in (
        ("models", "f.onnx", a_model(60)),
        ("tensors", "x.npz", npz_of(a_model(60))),
        ("accelerators", "a.yaml", quiet.client.get("/v1/accelerators/mvin-mvout?format=yaml").content),
    ):

        def post(
            label: str, query: str = "", kind: str = kind, file: tuple[str, bytes] = (name, data)
        ) -> httpx2.Response:
            return quiet.client.post(f"/v1/{kind}{query}", files={"label": (None, label), "file": file})

        answer = post(UNICODE)
        assert (answer.status_code, answer.json().get("label")) == (201, UNICODE), answer.text
        for label in ("", "x" * 5000, "two\nlines"):
            is_problem(post(label), 422, "invalid-request", "label")
        is_problem(post("a", "?label=b"), 422, "invalid-request", "label")


def test_labels_that_are_none(quiet: Quiet, is_problem: Check) -> None:
    for label in ("", " ", "x" * 201, "two\nlines", "one\n", "\x00", "\x7f", "\x85", "\u2028"):
        is_problem(quiet.client.post("/v1/models", content=a_model(0), params={"label": label}), 422, "invalid-request")
        changed = quiet.client.patch(f"/v1/models/{quiet.model}", json={"label": label})
        is_problem(changed, 422, "invalid-request", "label")
        is_problem(
            quiet.client.post("/v1/jobs", json=quiet.request() | {"label": label}), 422, "invalid-request", "label"
        )
    told = quiet.client.patch(f"/v1/models/{quiet.model}", json={"label": "two\nlines"}).json()["detail"]
    assert told == "label: must be one line of text, without control characters, and not blank"
    is_problem(quiet.client.patch("/v1/accelerators/vta", json={"label": "x"}), 409, "conflict", "id")
    assert quiet.client.patch(f"/v1/models/{quiet.model}", json={"label": "😀" * 200}).status_code == 200


def test_a_job_shows_its_label_and_an_answer_that_of_the_job_it_shows(
    quiet: Quiet, tmp_path: Path, is_problem: Check
) -> None:
    request = quiet.request(seed=40)
    posted = quiet.post(request | {"label": UNICODE})
    home = posted["links"]["self"]
    assert posted["label"] == quiet.client.get(home).json()["label"] == UNICODE
    assert quiet.client.get("/v1/jobs").json()["items"][0]["label"] == UNICODE
    assert quiet.client.get("/v1/jobs/latest").json()["id"] == posted["id"]
    quiet.succeed(posted["id"], tmp_path)
    cached = quiet.post(request | {"label": "another"}, 200)
    assert (cached["id"], cached["cached"], cached["label"]) == (posted["id"], True, UNICODE)
    assert quiet.client.patch(home, json={"label": "later"}).json()["label"] == "later"
    assert quiet.client.patch(home, json={"label": None}).json()["label"] is None
    assert quiet.client.get(home).json()["label"] is None
    assert quiet.post(quiet.request(seed=41))["label"] is None
    key = {"Idempotency-Key": "a-label-counts"}
    quiet.post(quiet.request(seed=42) | {"label": "one"}, **key)
    other = quiet.client.post("/v1/jobs", json=quiet.request(seed=42) | {"label": "two"}, headers=key)
    is_problem(other, 422, "idempotency-key-reused")


def test_a_file_in_json(quiet: Quiet, is_problem: Check) -> None:
    for body, field in (({"base64": "AAA"}, "base64"), ({"base64": "=%"}, "base64"), ({}, "base64"), ([], "body")):
        is_problem(quiet.client.post("/v1/tensors", json=body), 422, "invalid-request", field)
    is_problem(quiet.client.post("/v1/tensors", json={"base64": "A" * (1 << 20)}), 413, "too-large", "body")
    is_problem(quiet.client.post("/v1/tensors", json={"base64": ""}), 422, "invalid-request", "body")
