"""Lists over the API: search, filters, sorts and cursors; notes and tags."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest

from accel.catalog.load_accelerator import canonical, load_accelerator
from tests.helpers.idle_service import Quiet, a_model, quiet_service
from tests.helpers.marking import rest_all
from worker.identity.api_keys import ApiKeys
from worker.records.job_record import Summary
from worker.storage.identifiers import utc_now
from worker.storage.redis_server import connect

Check = Callable[..., dict]
HOSTILE = "(a+)+$ <b>%*?[\\ \u202e\ufdfa 'OR 1=1 --"
# lists and writes over a bucket are those of jobs and of deletions
STORES = pytest.mark.parametrize("quiet", rest_all(["folder", "bucket"]), indirect=True)


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quiet]:
    """An api that needs keys, with jobs of two owners; those of this client are numbered by their labels."""
    with quiet_service(tmp_path_factory.mktemp("listed"), auth="keys") as quiet:
        quiet.client.patch(f"/v1/models/{quiet.model}", json={"label": "Net of mine"})
        results = [(True, 30), (False, 10), (None, 20), (True, None)]
        for number, (verified, cycles) in enumerate(results):
            said = {"label": f"job {number}", "tags": ["sweep 1", f"t{number}"], "note": f"line one\r\nof {number}"}
            job_id = quiet.post(quiet.request(seed=number) | said)["id"]
            quiet.jobs.progress(job_id, 1, utc_now(), None)
            quiet.jobs.succeed(job_id, 1, Summary(verified=verified, cycles=cycles, macs_share=1.0))
        quiet.post(quiet.request(seed=4) | {"note": HOSTILE})
        other = httpx2.Client(base_url=quiet.client.base_url)
        other.headers["Authorization"] = f"Bearer {ApiKeys(quiet.store).add('other', 'other')[1]}"
        with other:
            model = other.post("/v1/models", content=a_model(9), params={"label": "Net of theirs"}).json()["id"]
            theirs = {"model": model, "accelerator": "vta", "label": "job theirs", "tags": ["sweep 1"]}
            assert other.post("/v1/jobs", json=theirs).status_code == 202
        yield quiet


def labels(quiet: Quiet, limit: int = 50, path: str = "/v1/jobs", **query: Any) -> list[Any]:
    """The labels of all pages; every one has the ETag by which it is asked for again."""
    found, cursor = [], None
    while True:
        asked = query | {"limit": limit} | ({"cursor": cursor} if cursor else {})
        answer = quiet.client.get(path, params=asked)
        assert answer.status_code == 200, answer.text
        again = quiet.client.get(path, params=asked, headers={"If-None-Match": answer.headers["ETag"]})
        assert again.status_code == 304
        found += [item["label"] for item in answer.json()["items"]]
        cursor = answer.json()["next_cursor"]
        if cursor is None:
            return found


NUMBERED = ["job 0", "job 1", "job 2", "job 3"]


@pytest.mark.parametrize("limit", [1, 2, 50])
@pytest.mark.parametrize(
    ("sort", "wanted"),
    [
        ("-submitted", [None, "job 3", "job 2", "job 1", "job 0"]),
        ("submitted", [*NUMBERED, None]),
        ("cycles", ["job 1", "job 2", "job 0", None, "job 3"]),
        ("-cycles", ["job 0", "job 2", "job 1", None, "job 3"]),
        ("label", [*NUMBERED, None]),
        ("-label", [*NUMBERED[::-1], None]),
    ],
)
def test_sorts(listed: Quiet, sort: str, wanted: list[str | None], limit: int) -> None:
    assert labels(listed, limit, sort=sort) == wanted


def test_the_duration_is_that_of_the_record(listed: Quiet) -> None:
    found = [item for item in listed.client.get("/v1/jobs?sort=-duration").json()["items"] if item["finished"]]
    ran = [listed.jobs.get(item["id"]) for item in found]
    spans = [job.finished - job.started for job in ran if job.finished and job.started]
    assert len(spans) == len(found) == 4
    assert spans == sorted(spans, reverse=True)


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ({"q": "JOB 2"}, ["job 2"]),
        ({"q": "net mine"}, [*NUMBERED, None]),
        ({"q": "theirs"}, []),
        ({"q": "vta 16x16 line"}, NUMBERED),
        ({"q": "of 3"}, ["job 3"]),
        ({"q": HOSTILE}, [None]),
        ({"q": "(a+)+$"}, [None]),
        ({"q": "(b+)+$"}, []),
        ({"q": "%"}, [None]),
        ({"q": "\x00"}, []),
        ({"tag": "sweep 1"}, NUMBERED),
        ({"tag": ["sweep 1", "t2"]}, ["job 2"]),
        ({"tag": "sweep"}, []),
        ({"verified": "true"}, ["job 0", "job 3"]),
        ({"verified": "false"}, ["job 1"]),
        ({"verified": "null"}, ["job 2"]),
        ({"verified": "true", "tag": "t3", "q": "line", "state": "succeeded", "accelerator": "vta"}, ["job 3"]),
        ({"state": "queued", "verified": "true"}, []),
        ({"pinned": "true"}, []),
    ],
    ids=str,
)
def test_filters_and_searches(listed: Quiet, query: dict[str, Any], wanted: list[str | None]) -> None:
    assert labels(listed, 2, sort="submitted", **query) == wanted
    assert labels(listed, 2, **query) == wanted[::-1]


def test_an_id_is_found_by_its_first_digits(listed: Quiet) -> None:
    job_id = listed.client.get("/v1/jobs/latest").json()["id"]
    assert labels(listed, q=job_id) == labels(listed, q=job_id[:13].upper()) == [None]
    assert len(labels(listed, q=listed.model[:12])) == 5
    assert labels(listed, q=listed.model[1:13]) == []


def test_pinned_jobs(listed: Quiet) -> None:
    first = listed.client.get("/v1/jobs", params={"tag": "t1"}).json()["items"][0]["id"]
    listed.client.put(f"/v1/jobs/{first}/pin")
    assert labels(listed, pinned="true") == ["job 1"]
    listed.client.delete(f"/v1/jobs/{first}/pin")
    assert "job 1" in labels(listed, pinned="false")


@pytest.mark.parametrize(
    ("sort", "cursor"),
    [
        ("-cycles", "0" * 32),
        ("-submitted", f"cycles~1~{'0' * 32}"),
        ("-cycles", f"cycles~1~{'0' * 32}"),
        ("cycles", f"cycles~tYQ~{'0' * 32}"),
        ("label", f"label~1~{'0' * 32}"),
        ("label", f"label~t_w~{'0' * 32}"),
        ("cycles", "cycles~1~"),
        ("cycles", f"cycles~-1~{'0' * 32}"),
        ("cycles", "x" * 5000),
    ],
)
def test_cursors_that_do_not_fit(listed: Quiet, is_problem: Check, sort: str, cursor: str) -> None:
    answer = listed.client.get("/v1/jobs", params={"sort": sort, "cursor": cursor})
    told = is_problem(answer, 422, "invalid-request", "cursor")
    if sort == "-cycles":
        assert "sort=-cycles" in told["detail"]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("sort=age", "sort"),
        ("q=" + "x" * 201, "q"),
        ("tag=" + "x" * 41, "tag.0"),
        ("&".join(["tag=x"] * 11), "tag"),
        ("pinned=perhaps", "pinned"),
        ("verified=maybe", "verified"),
    ],
)
def test_queries_that_are_none(listed: Quiet, is_problem: Check, query: str, field: str) -> None:
    is_problem(listed.client.get(f"/v1/jobs?{query}"), 422, "invalid-request", field)


def test_a_label_of_the_longest_kind_is_continued(listed: Quiet) -> None:
    """Its cursor is the longest that there is, and must be taken back."""
    longest = "\u0390" * 200
    latest = listed.client.get("/v1/jobs/latest").json()
    listed.client.patch(latest["links"]["self"], json={"label": longest})
    assert labels(listed, 1, sort="-label") == [longest, *NUMBERED[::-1]]
    listed.client.patch(latest["links"]["self"], json={"label": None})


def test_lost_redis_changes_nothing(listed: Quiet) -> None:
    asked: list[dict[str, str]] = [{"sort": "-cycles"}, {"q": "job", "sort": "label"}, {"tag": "sweep 1"}]
    before = [labels(listed, 2, **each) for each in asked]
    with connect(str(listed.settings.redis_url)) as redis:
        redis.flushall()
        assert [labels(listed, 2, **each) for each in asked] == before


def test_more_jobs_than_are_sorted_without_the_index(
    listed: Quiet, is_problem: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.records.listing.job_index.JobIndex.is_complete", lambda _: False)
    monkeypatch.setattr("worker.records.listing.job_listing._MOST_READ", 2)
    answer = listed.client.get("/v1/jobs?sort=label")
    is_problem(answer, 503, "not-ready", "sort")
    assert answer.headers["Retry-After"] == "5"
    assert labels(listed, q="job 2") == ["job 2"]


@STORES
def test_a_note_and_tags_are_given_changed_and_taken_away(quiet: Quiet, is_problem: Check) -> None:
    asked = quiet.request(seed=900)
    posted = quiet.post(asked | {"note": "a\r\nb", "tags": ["größer 模型", "b"]})
    home = posted["links"]["self"]
    assert (posted["note"], posted["tags"]) == ("a\nb", ["größer 模型", "b"])
    for change, note, tags in (
        ({"note": " two\n\tlines "}, " two\n\tlines ", ["größer 模型", "b"]),
        ({"tags": ["c"]}, " two\n\tlines ", ["c"]),
        ({}, " two\n\tlines ", ["c"]),
        ({"note": None, "label": "x"}, None, ["c"]),
        ({"tags": None}, None, []),
        ({"tags": ["c"], "note": "n"}, "n", ["c"]),
        ({"tags": []}, "n", []),
    ):
        changed = quiet.client.patch(home, json=change)
        assert changed.status_code == 200, changed.text
        got, [item] = quiet.client.get(home).json(), quiet.client.get("/v1/jobs?limit=1").json()["items"]
        for shown in (changed.json(), got, item):
            assert (shown["note"], shown["tags"]) == (note, tags), change
    assert got["label"] == "x"
    quiet.client.delete(home)
    key = {"Idempotency-Key": "a-note-counts"}
    quiet.post(quiet.request(seed=901), **key)
    quiet.post(quiet.request(seed=901) | {"tags": []}, **key)
    other = quiet.client.post("/v1/jobs", json=quiet.request(seed=901) | {"tags": ["a"]}, headers=key)
    is_problem(other, 422, "idempotency-key-reused")


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"note": ""}, "note"),
        ({"note": " \n"}, "note"),
        ({"note": "x" * 501}, "note"),
        ({"note": "\x00"}, "note"),
        ({"note": "\u2028"}, "note"),
        ({"note": ["x"]}, "note"),
        ({"tags": "a"}, "tags"),
        ({"tags": [""]}, "tags.0"),
        ({"tags": ["a", " b"]}, "tags.1"),
        ({"tags": ["a,b"]}, "tags.0"),
        ({"tags": ["a\nb"]}, "tags.0"),
        ({"tags": ["a  b"]}, "tags.0"),
        ({"tags": ["x" * 41]}, "tags.0"),
        ({"tags": ["a", "a"]}, "tags"),
        ({"tags": [str(number) for number in range(11)]}, "tags"),
        ({"other": "x"}, "other"),
    ],
    ids=str,
)
def test_notes_and_tags_that_are_none(listed: Quiet, is_problem: Check, given: dict[str, Any], field: str) -> None:
    home = listed.client.get("/v1/jobs/latest").json()["links"]["self"]
    is_problem(listed.client.patch(home, json=given), 422, "invalid-request", field)
    is_problem(listed.client.post("/v1/jobs", json=listed.request(seed=1) | given), 422, "invalid-request", field)


@STORES
def test_uploads_are_searched_and_sorted(quiet: Quiet, is_problem: Check) -> None:
    for seed, label in ((50, "beta grid"), (51, "Alpha grid"), (52, "gamma")):
        quiet.client.post("/v1/models", content=a_model(seed), params={"label": label})
    assert labels(quiet, 1, "/v1/models", q="GRID", sort="label") == ["Alpha grid", "beta grid"]
    assert labels(quiet, 1, "/v1/models", q="GRID", sort="-label") == ["beta grid", "Alpha grid"]
    given = {"Alpha grid", "beta grid", "gamma"}  # beside the examples
    ours = [label for label in labels(quiet, 2, "/v1/models", sort="label") if label in given]
    assert ours == ["Alpha grid", "beta grid", "gamma"]
    items = quiet.client.get("/v1/models?sort=-macs").json()["items"]
    assert [item["macs"] for item in items] == sorted((item["macs"] for item in items), reverse=True)
    assert labels(quiet, 1, "/v1/models", q=items[0]["id"][:10]) == [items[0]["label"]]
    oldest = quiet.client.get("/v1/models?sort=created").json()["items"]
    sent = [item["created"] for item in oldest if item["created"] is not None]
    assert [item["created"] for item in oldest[: len(sent)]] == sorted(sent)  # then the examples, which nobody has sent
    cursor = quiet.client.get("/v1/models?limit=1").json()["next_cursor"]
    is_problem(quiet.client.get(f"/v1/models?sort=label&cursor={cursor}"), 422, "invalid-request", "cursor")
    is_problem(quiet.client.get("/v1/models?sort=instructions"), 422, "invalid-request", "sort")
    name = quiet.client.get("/v1/programs").json()["items"][-1]["accelerator"]
    for path in (
        f"/v1/programs?sort=-instructions&q={name}",
        "/v1/tensors?sort=-bytes",
        "/v1/programs?sort=accelerator",
    ):
        assert quiet.client.get(path).json()["items"], path


@STORES
def test_accelerators_are_searched_and_sorted(quiet: Quiet, is_problem: Check) -> None:
    document = load_accelerator("vta").model_copy(update={"title": "zz of a test"})
    ours = quiet.client.post("/v1/accelerators", content=canonical(document), params={"label": "Mine"}).json()["id"]

    def ids(**query: Any) -> list[str]:
        found, cursor = [], None
        while True:
            asked = query | ({"cursor": cursor} if cursor else {})
            page = quiet.client.get("/v1/accelerators", params=asked).json()
            found += [item["id"] for item in page["items"]]
            cursor = page["next_cursor"]
            if cursor is None:
                return found

    every = ids()
    assert every == ids(limit=1) == ids(sort="-id", limit=2)[::-1]
    assert every[-1] == ours
    assert ids(q="MINE") == ids(q="zz test") == ids(q=ours[:8]) == [ours]
    assert ids(sort="-title", limit=3)[0] == ours
    assert ids(sort="label", limit=3)[0] == ours
    families = {item["id"]: item["family"] for item in quiet.client.get("/v1/accelerators").json()["items"]}
    assert ids(sort="family", limit=2) == sorted(every, key=lambda name: (families[name], name))
    assert set(ids(q="gemmini")) == {name for name in every if "gemmini" in name}
    is_problem(quiet.client.get("/v1/accelerators?sort=title&cursor=vta"), 422, "invalid-request", "cursor")
    is_problem(quiet.client.get(f"/v1/accelerators?cursor=title~t~{ours}"), 422, "invalid-request", "cursor")


def test_a_link_shows_what_is_said_of_a_job(listed: Quiet) -> None:
    job_id = listed.client.get("/v1/jobs", params={"q": "job 2"}).json()["items"][0]["id"]
    link = listed.client.post(f"/v1/jobs/{job_id}/share").json()["links"]["self"]
    seen = httpx2.get(f"{str(listed.client.base_url).rstrip('/')}{link}").json()
    assert (seen["note"], seen["tags"]) == ("line one\nof 2", ["sweep 1", "t2"])
    assert httpx2.get(f"{str(listed.client.base_url).rstrip('/')}/v1/jobs?share=x").status_code == 401
