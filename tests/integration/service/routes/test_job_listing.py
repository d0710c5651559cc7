from collections.abc import Callable

import pytest

from tests.helpers.idle_service import Quiet

Check = Callable[..., dict]


@pytest.fixture(scope="module")
def ids(quiet: Quiet, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Three that are queued, one that has succeeded, one canceled; oldest first."""
    made = [quiet.post(quiet.request(seed=seed))["id"] for seed in range(5)]
    quiet.succeed(made[1], tmp_path_factory.mktemp("out"))
    quiet.client.post(f"/v1/jobs/{made[3]}/cancel")
    return made


def listed(quiet: Quiet, query: str) -> list[str]:
    answer = quiet.client.get(f"/v1/jobs?{query}")
    assert answer.status_code == 200, answer.text
    return [job["id"] for job in answer.json()["items"]]


def test_filters(quiet: Quiet, ids: list[str]) -> None:
    oldest_last = ids[::-1]
    assert listed(quiet, "") == listed(quiet, f"model={quiet.model}&accelerator=vta") == oldest_last
    assert listed(quiet, "state=succeeded") == [ids[1]]
    assert listed(quiet, "state=succeeded&state=canceled") == [ids[3], ids[1]]
    assert listed(quiet, f"state=queued&model={quiet.model}") == [ids[4], ids[2], ids[0]]
    for nothing in ("state=failed", "accelerator=other", f"model={'0' * 64}", f"program={quiet.model[::-1]}"):
        assert listed(quiet, nothing) == []


def test_pages(quiet: Quiet, ids: list[str]) -> None:
    first = quiet.client.get("/v1/jobs?limit=2&state=queued").json()
    assert [job["id"] for job in first["items"]] == [ids[4], ids[2]]
    second = quiet.client.get(f"/v1/jobs?limit=2&state=queued&cursor={first['next_cursor']}").json()
    assert [job["id"] for job in second["items"]] == [ids[0]]
    assert second["next_cursor"] is None


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("state=done", "state.0"),
        ("state=", "state.0"),
        ("model=x", "model"),
        ("program=../x", "program"),
        (f"accelerator={'x' * 101}", "accelerator"),
        (f"model={'0' * 64}&program={'0' * 64}", "program"),
    ],
)
def test_filters_that_are_none(quiet: Quiet, is_problem: Check, query: str, field: str) -> None:
    is_problem(quiet.client.get(f"/v1/jobs?{query}"), 422, "invalid-request", field)


def test_a_job_that_was_never_recorded_is_passed_over(quiet: Quiet, ids: list[str]) -> None:
    quiet.store.create(f"open/{'f' * 32}", b"")
    if quiet.settings.store_url is None:
        (quiet.settings.store_dir / "jobs" / ("f" * 32)).mkdir()
    assert listed(quiet, "") == ids[::-1]
