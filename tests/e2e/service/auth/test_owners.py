"""Two owners of one service: what is one's is not there for the other, whatever the other knows of it."""

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from examples.single import Conv, conv_model
from tests.conftest import Service
from tests.helpers.marking import rest_all
from tests.helpers.npz import npz_of
from tests.helpers.programs.hand_programs import addition, zipped
from worker.identity.api_keys import ApiKeys
from worker.storage.object_store import Store

Check = Callable[..., dict]


def model_of(seed: int) -> bytes:
    return conv_model(Conv(channels=16, filters=32, height=10, width=10), seed=seed).SerializeToString()


MODEL = model_of(3)
# what a path needs besides the id of a thing
OTHER_PARTS = {
    "{name}": "report.json",
    "{stage}": "flatten",
    "{index}": "1",
    "{table}": "layers",
    "/search": "/search?text=conv",
}


@dataclass(frozen=True)
class Owners:
    """A service, and clients of it: of two owners, and of nobody. ``ids``: what the first has, by the path's part."""

    service: Service
    first: httpx2.Client
    second: httpx2.Client
    nobody: httpx2.Client
    ids: dict[str, str]


def made(store: Store, owner: str) -> dict[str, str]:
    # answers repeat the request's id, and are compared
    return {"Authorization": f"Bearer {ApiKeys(store).add(owner, owner)[1]}", "X-Request-Id": "the-same"}


def upload(client: httpx2.Client, model: bytes = MODEL) -> dict[str, httpx2.Response]:
    """Of each kind one; the answers by kind."""
    ours = client.get("/v1/accelerators/vta").json() | {"title": "that of a test"}
    return {
        "models": client.post("/v1/models", content=model),
        "programs": client.post("/v1/programs", content=zipped(addition())),
        "tensors": client.post("/v1/tensors", content=npz_of(model)),
        "accelerators": client.post("/v1/accelerators", json=ours),
    }


@pytest.fixture(scope="module")
def owners(start_service: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Owners]:
    with contextlib.ExitStack() as stack:
        service = stack.enter_context(start_service(tmp_path_factory.mktemp("owners"), CYCLOPS_AUTH="keys"))
        store = Store(service.data / "store")
        first, second = (
            stack.enter_context(httpx2.Client(base_url=service.url, timeout=30, headers=made(store, owner)))
            for owner in ("first", "second")
        )
        ids = {kind: answer.json()["id"] for kind, answer in upload(first).items()}
        job = {"model": ids["models"], "accelerator": ids["accelerators"], "options": {"inputs": ids["tensors"]}}
        posted = first.post("/v1/jobs", json=job)
        assert posted.status_code == 202, posted.text
        ids["jobs"] = posted.json()["id"]
        as_first = Service(service.url, service.data, service.process, first, service.lines)
        assert as_first.wait(posted.headers["Location"])["state"] == "succeeded"
        yield Owners(service, first, second, service.client, ids)


def with_ids(path: str, ids: dict[str, str]) -> str:
    for part, value in (OTHER_PARTS | {"{id}": ids.get(path.removeprefix("/v1/").split("/")[0], "")}).items():
        path = path.replace(part, value)
    assert "{" not in path, f"say what stands for the parts of {path} in this test"
    assert "//" not in path, f"say what the id of {path} is in this test"
    return path


def routes() -> list[tuple[str, str]]:
    document = json.loads((Path(__file__).parents[4] / "openapi" / "openapi.json").read_text())
    return [(method, path) for path, operations in document["paths"].items() for method in operations]


OF_ONE = [route for route in routes() if "{" in route[1]]
WEBHOOKS = "/v1/jobs/{id}/webhooks"  # links do not open them
OPEN = ("/healthz", "/readyz", "/v1/about", "/v1/schemas/")


def answer(client: httpx2.Client, method: str, path: str) -> httpx2.Response:
    wants_body = method in {"put", "patch"} or (method == "post" and path.partition("?")[0].endswith("/changes"))
    body = {"json": {}} if wants_body else {}
    return client.request(method, path, **body)


@pytest.mark.parametrize(("method", "path"), OF_ONE)
def test_what_is_anothers_is_not_there(owners: Owners, is_problem: Check, method: str, path: str) -> None:
    """Each route, with ids of the first owner's and with ids of nothing: the same, but for the id."""
    kind = path.split("/")[2]
    theirs, none = owners.ids[kind], owners.ids[kind][::-1]
    found = answer(owners.second, method, with_ids(path, owners.ids))
    unknown = answer(owners.second, method, with_ids(path, {kind: none}))
    is_problem(found, 404, "not-found")
    assert found.text == unknown.text.replace(none, theirs)
    differ = {"date", "ratelimit"}
    assert {n: v for n, v in found.headers.items() if n not in differ} == {
        n: v for n, v in unknown.headers.items() if n not in differ
    }
    if method == "get":
        assert owners.second.head(with_ids(path, owners.ids)).status_code == 404
        assert answer(owners.first, method, with_ids(path, owners.ids)).status_code == 200


@pytest.mark.parametrize(("method", "path"), routes())
def test_without_a_key_all_but_a_few_are_closed(owners: Owners, is_problem: Check, method: str, path: str) -> None:
    if path.startswith(OPEN):
        assert answer(owners.nobody, method, path).status_code == 200
        return
    for headers in ({}, {"Authorization": "Bearer x"}, {"Authorization": "Basic eDp5"}):
        refused = owners.nobody.request(method, with_ids(path, owners.ids), headers=headers)
        is_problem(refused, 401, "unauthorized")
        assert refused.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.slow
def test_lists_show_ones_own(owners: Owners) -> None:
    lists = [path for method, path in routes() if method == "get" and "{" not in path and not path.startswith(OPEN)]
    assert {"/v1/jobs", "/v1/accelerators"} <= set(lists)
    for path in lists:
        shown = owners.second.get(path).text
        assert not [one for one in owners.ids.values() if one in shown], path
    assert owners.ids["jobs"] in owners.first.get("/v1/jobs").text
    assert owners.ids["accelerators"] in owners.first.get("/v1/accelerators").text
    assert "vta" in owners.second.get("/v1/accelerators").text


def uses(ids: dict[str, str]) -> Iterator[tuple[dict, str]]:
    """Jobs that use one thing each, and the problem's field."""
    yield {"model": ids["models"], "accelerator": "vta"}, "model"
    yield {"program": ids["programs"]}, "program"
    yield {"model": ids["own"], "accelerator": ids["accelerators"]}, "accelerator"
    for option in ("inputs", "calibration"):
        job = {"model": ids["own"], "accelerator": "vta", "options": {option: ids["tensors"]}}
        yield job, f"options.{option}"


@pytest.mark.parametrize("query", ["", "?dry_run=true"])
def test_nobody_can_use_what_is_anothers(owners: Owners, is_problem: Check, query: str) -> None:
    own = owners.second.post("/v1/models", content=model_of(9)).json()["id"]
    unknown = {kind: digest[::-1] for kind, digest in owners.ids.items()}
    for (theirs, field), (none, _) in zip(uses(owners.ids | {"own": own}), uses(unknown | {"own": own}), strict=True):
        slug = "unknown-tensors" if "." in field else f"unknown-{field}"
        found = is_problem(owners.second.post(f"/v1/jobs{query}", json=theirs), 422, slug, field)
        text = json.dumps(is_problem(owners.second.post(f"/v1/jobs{query}", json=none), 422, slug, field))
        for kind, digest in unknown.items():
            text = text.replace(digest, owners.ids[kind])
        assert json.dumps(found) == text


@pytest.mark.slow
def test_an_upload_tells_nothing_of_others(owners: Owners, tmp_path: Path) -> None:
    """A third owner sends what others have, and what nobody has: the same answers. Afterwards it is the third's too."""
    store = Store(owners.service.data / "store")
    with httpx2.Client(base_url=owners.service.url, timeout=30, headers=made(store, "third")) as third:
        again, anew = upload(third), upload(third, model_of(77))
        for kind, known in again.items():
            assert known.status_code == anew[kind].status_code == 201
            assert known.json()["id"] == owners.ids[kind]
            assert known.json().keys() == anew[kind].json().keys()
            assert known.headers.keys() == anew[kind].headers.keys()
            assert third.get(known.headers["Location"]).status_code == 200
        assert third.get(f"/v1/jobs/{owners.ids['jobs']}").status_code == 404


def test_keys_of_one_owner_see_the_same(owners: Owners) -> None:
    headers = made(Store(owners.service.data / "store"), "first")
    assert owners.nobody.get(f"/v1/jobs/{owners.ids['jobs']}", headers=headers).status_code == 200


@pytest.fixture(scope="module")
def others(owners: Owners) -> dict[str, str]:
    """More that the first owner has, of each kind."""
    ids = {kind: answer.json()["id"] for kind, answer in upload(owners.first, model_of(5)).items()}
    ids["jobs"] = owners.first.post("/v1/jobs", json={"model": ids["models"], "accelerator": "vta"}).json()["id"]
    assert owners.first.post(f"/v1/jobs/{ids['jobs']}/cancel").json()["state"] == "canceled"  # it need not run
    vta = owners.first.get("/v1/accelerators/vta").json()
    ids["accelerators"] = owners.first.post("/v1/accelerators", json=vta | {"title": "another"}).json()["id"]
    program = zipped(addition() | {"y.bin": bytes(64)})
    ids["programs"] = owners.first.post("/v1/programs", content=program).json()["id"]
    ids["tensors"] = owners.first.post("/v1/tensors", content=npz_of(MODEL, 1)).json()["id"]
    return ids


@pytest.mark.slow
@pytest.mark.parametrize("kind", rest_all(["jobs", "models", "programs", "tensors", "accelerators"], keep=2))
def test_a_link_opens_one_thing_for_reading(
    owners: Owners, others: dict[str, str], is_problem: Check, kind: str
) -> None:
    thing = f"/v1/{kind}/{owners.ids[kind]}"
    shared = owners.first.post(f"{thing}/share")
    assert shared.status_code == 201
    token, links = shared.json()["token"], shared.json()["links"]
    query, bearer = f"share={token}", {"Authorization": f"Bearer {token}"}
    for link in links.values():
        assert owners.nobody.get(link).status_code == 200
        assert owners.nobody.head(link).status_code == 200
        assert owners.nobody.get(link.partition("?")[0], headers=bearer).status_code == 200
        assert owners.second.get(link).status_code == 200
    for method, path in OF_ONE:
        here, elsewhere = (
            f"{found}{'&' if '?' in found else '?'}{query}"
            for found in (with_ids(path, owners.ids), with_ids(path, others))
        )
        if path.startswith(f"/v1/{kind}/{{id}}") and method == "get" and path != WEBHOOKS:
            assert answer(owners.nobody, method, here).status_code == 200, path
            is_problem(answer(owners.nobody, method, elsewhere), 401, "unauthorized")
            is_problem(answer(owners.second, method, elsewhere), 404, "not-found")
        else:
            is_problem(answer(owners.nobody, method, here), 401, "unauthorized")
            is_problem(answer(owners.second, method, here), 404, "not-found")
    is_problem(owners.nobody.get(f"/v1/jobs?{query}"), 401, "unauthorized")
    is_problem(owners.second.delete(f"{thing}/share"), 404, "not-found")
    assert owners.first.delete(f"{thing}/share").status_code == 204
    is_problem(owners.nobody.get(links["self"]), 401, "unauthorized")
    is_problem(owners.second.get(links["self"]), 404, "not-found")
    assert not [line for line in owners.service.lines if token in line]


def test_an_opened_door_tells_versions_only(owners: Owners) -> None:
    told = owners.nobody.get("/v1/about").json()
    assert (told["limits"], told["confinement"]) == (None, None)
    assert owners.first.get("/v1/about").json()["limits"]["job"]["seconds"] > 0


def test_a_body_is_not_read_before_the_key(owners: Owners, is_problem: Check) -> None:
    headers = {"content-type": "application/json"}
    is_problem(owners.nobody.post("/v1/jobs", content=b"{", headers=headers), 401, "unauthorized")
    is_problem(owners.nobody.post("/v1/jobs", content=bytes(20 << 20), headers=headers), 401, "unauthorized")


def test_each_request_is_counted(owners: Owners) -> None:
    answers = [owners.second.get("/v1/jobs") for _ in range(2)]
    assert answers[0].headers["RateLimit-Policy"] == '"reads";q=6000;w=60'
    assert '"uploads"' in owners.second.post("/v1/models", content=MODEL).headers["RateLimit"]
    assert "RateLimit" not in owners.nobody.get("/healthz").headers
