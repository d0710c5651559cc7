"""The documentation of a fresh installation: every form works as it stands."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.conftest import Service
from tests.helpers.marking import rest_all
from tests.helpers.swagger_requests import Pressed, all_pressed
from worker.identity.api_keys import ApiKeys
from worker.storage.object_store import Store

pytestmark = pytest.mark.slow
Start = Callable[..., Any]


@pytest.fixture(scope="module", params=rest_all(["keys", "off"]))
def fresh(request: pytest.FixtureRequest, start_service: Start, tmp_path_factory: pytest.TempPathFactory) -> Iterator:
    data = tmp_path_factory.mktemp("fresh")
    with start_service(data, CYCLOPS_AUTH=request.param) as service:
        if request.param == "keys":
            key = ApiKeys(Store(service.data / "store")).add("newcomer")[1]
            service.client.headers["Authorization"] = f"Bearer {key}"
        yield service


def send(client: httpx2.Client, form: Pressed) -> httpx2.Response:
    return client.request(form.method, form.url, params=form.parameters, headers=form.headers, content=form.content)


def test_every_form_can_be_executed_as_it_stands(fresh: Service) -> None:
    """First what makes and changes, in the document's order; then what reads, of a job that has ended; then DELETE."""
    forms = all_pressed(fresh.client.get("/openapi.json").json())
    answers: dict[tuple[str, str], httpx2.Response] = {}

    def press(*methods: str) -> None:
        for form in forms:
            if form.method in methods:
                answer = answers[form.method, form.path] = send(fresh.client, form)
                assert answer.is_success, (form, answer.status_code, answer.text)

    press("post", "put", "patch")
    job = answers["post", "/v1/jobs"].headers["Location"]
    assert fresh.wait(job)["state"] == "canceled"  # its cancel was pressed, too
    submission = next(form for form in forms if (form.method, form.path) == ("post", "/v1/jobs"))
    again = send(fresh.client, submission)
    done = fresh.wait(again.headers["Location"])
    assert (done["state"], done["result"]["verified"], done["label"]) == ("succeeded", True, "my first job")
    press("get")
    assert answers["get", "/v1/jobs/{id}"].json()["id"] == done["id"]
    press("delete")


def test_all_examples_of_submissions_succeed(fresh: Service) -> None:
    document = fresh.client.get("/openapi.json").json()
    examples = document["paths"]["/v1/jobs"]["post"]["requestBody"]["content"]["application/json"]["examples"]
    assert len(examples) > 2
    posted = {name: fresh.client.post("/v1/jobs", json=shown["value"]) for name, shown in examples.items()}
    for name, answer in posted.items():
        assert answer.is_success, (name, answer.text)
        job = fresh.wait(answer.headers["Location"])
        assert (job["state"], job["result"]["verified"]) == ("succeeded", True), (name, job)
    plan = fresh.client.post("/v1/jobs?dry_run=true", json=examples["a model"]["value"])
    assert plan.status_code == 200, plan.text
    assert plan.json()["nodes"]


def test_what_is_uploaded_as_an_example_is_the_example(fresh: Service, tmp_path: Path) -> None:
    """The file can be downloaded without a key, and what the form sends is that file."""
    document = fresh.client.get("/openapi.json").json()
    for kind in ("models", "tensors", "programs"):
        form = next(form for form in all_pressed(document) if (form.method, form.path) == ("post", f"/v1/{kind}"))
        listed = fresh.client.get(f"/v1/{kind}").json()["items"][-1]
        link = f"/v1/{kind}/{listed['id']}/content"
        assert f"]({link})" in document["paths"][f"/v1/{kind}"]["post"]["description"]
        with httpx2.Client(base_url=fresh.url) as nobody:
            data = nobody.get(link).content
        assert len(data) == listed["bytes"]
        described = fresh.client.get(f"/v1/{kind}/{listed['id']}").json()
        for sent in (send(fresh.client, form), fresh.client.post(f"/v1/{kind}", content=data)):
            assert sent.status_code == 201
            ours = {name: sent.json()[name] for name in described if name not in {"created", "id", "bytes", "label"}}
            assert kind == "programs" or sent.json()["id"] == listed["id"]  # a program is kept in its long form
            assert ours == {name: described[name] for name in ours}, "run `make examples`"
