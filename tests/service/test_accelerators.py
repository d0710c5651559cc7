from collections.abc import Callable

import httpx2
import pytest

from accel.accelerator.document import Accelerator


def test_the_presets_are_listed_and_described(client: httpx2.Client) -> None:
    page = client.get("/v1/accelerators").json()
    assert "vta" in [item["id"] for item in page["items"]]
    assert page["next_cursor"] is None
    document = Accelerator.model_validate(client.get("/v1/accelerators/vta").json())
    assert document.name == "vta"


def test_pages(client: httpx2.Client) -> None:
    ids, cursor = [], {}
    while True:
        page = client.get("/v1/accelerators", params={"limit": 1, **cursor}).json()
        ids += [item["id"] for item in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert ids == [item["id"] for item in client.get("/v1/accelerators").json()["items"]]


@pytest.mark.parametrize("name", ["tpu", "..%2fvta", "vta.json"])
def test_unknown_accelerators(client: httpx2.Client, is_problem: Callable[..., dict], name: str) -> None:
    is_problem(client.get(f"/v1/accelerators/{name}"), 404, "not-found")
