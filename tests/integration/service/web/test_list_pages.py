"""Lists of jobs, models and accelerators as pages: search, sort, notes, tags, and what is done with several jobs."""

import html
import re
from collections.abc import Iterator
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import httpx2
import pytest

from accel.catalog.load_accelerator import canonical, load_accelerator
from tests.helpers.html_pages import Page, read_page
from tests.helpers.idle_service import Quiet, a_model, quiet_service
from worker.records.job_record import Summary

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&amp;{{7*7}}"
BROWSER = {"Accept": "text/html", "Sec-Fetch-Site": "same-origin"}


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quiet]:
    with quiet_service(tmp_path_factory.mktemp("lists"), auth="keys") as running:
        yield running


def fetch(quiet: Quiet, path: str, status: int = 200) -> str:
    answer = quiet.client.get(path, headers=BROWSER)
    assert answer.status_code == status, answer.text
    assert not re.search(r"<(script>|img src=x)", answer.text)
    return answer.text


def show(quiet: Quiet, path: str, status: int = 200) -> Page:
    page = read_page(fetch(quiet, path, status))
    assert page.faults == []
    return page


def post(quiet: Quiet, path: str, status: int = 303, **data: str | list[str]) -> httpx2.Response:
    answer = quiet.client.post(path, data=data, headers=BROWSER)
    assert answer.status_code == status, answer.text
    return answer


def ended(quiet: Quiet, seed: int, **said: object) -> str:
    job_id: str = quiet.post(quiet.request(seed=seed) | said)["id"]
    quiet.client.post(f"/v1/jobs/{job_id}/cancel")
    return job_id


@pytest.mark.slow
def test_a_note_and_tags_are_written_on_pages(quiet: Quiet) -> None:
    job_id = ended(quiet, 1)
    home, back = f"/jobs/{job_id}", f"/jobs?q={quote(HOSTILE)}"
    sent = post(quiet, f"{home}/label", label=HOSTILE, note=f"{HOSTILE}\r\nsecond", tags=f" a  b ,{HOSTILE[:40]},, a b")
    assert sent.headers["location"] == home
    got = quiet.client.get(f"/v1{home}").json()
    assert (got["label"], got["note"], got["tags"]) == (HOSTILE, f"{HOSTILE}\nsecond", ["a b", HOSTILE[:40]])
    for path in (home, "/jobs", back):
        page = show(quiet, path)
        assert page.text.count(HOSTILE) >= 3, path  # name, note, field of the form
        tagged = [link for link in page.links if link.startswith("/jobs?tag=")]
        assert {parse_qs(urlsplit(link).query)["tag"][0] for link in tagged} == set(got["tags"])
    assert all(home in show(quiet, link).links for link in tagged)
    post(quiet, f"{home}/label", note="only the note")
    got = quiet.client.get(f"/v1{home}").json()
    assert (got["label"], got["note"], got["tags"]) == (HOSTILE, "only the note", ["a b", HOSTILE[:40]])
    assert post(quiet, f"{home}/label", label="", note="", tags="", back=back).headers["location"] == back
    got = quiet.client.get(f"/v1{home}").json()
    assert (got["label"], got["note"], got["tags"]) == (None, None, [])
    for fields in ({"note": "x" * 501}, {"tags": "x" * 41}, {"tags": ",".join(map(str, range(11)))}, {"note": "\0"}):
        refused = post(quiet, f"{home}/label", 422, **fields)
        assert read_page(refused.text).faults == []
    assert quiet.client.get(f"/v1{home}").json()["tags"] == []


def test_a_wrong_result_stands_out_in_lists(quiet: Quiet) -> None:
    """Catches a row that is green, as its job has succeeded, though its program computes something else."""
    wrong = '<span class="badge bad">wrong</span>'
    for path in ("/jobs", "/"):
        assert wrong not in fetch(quiet, path), path
    for seed, verified in ((71, True), (72, None), (73, False)):
        job_id: str = quiet.post(quiet.request(seed=seed))["id"]
        quiet.jobs.succeed(job_id, 1, Summary(verified=verified, cycles=seed, macs_share=1.0))
    for path in ("/jobs", "/"):
        rows = [row for row in fetch(quiet, path).split("<tr") if wrong in row]
        assert len(rows) == 1, path
        assert ">73<" in rows[0], path


def test_columns_sort_by_links_and_say_so(quiet: Quiet) -> None:
    ids = [ended(quiet, 10 + number, label=f"sorted {label}") for number, label in enumerate("bca")]

    def order(path: str) -> list[str]:
        shown = re.findall(r'<th scope="row" class="name"><a href="/jobs/([0-9a-f]{32})"', fetch(quiet, path))
        return [job_id for job_id in shown if job_id in ids]

    head = r'<th scope="col"( class="n")? aria-sort="(\w+)"><a class="sort" href="([^"]+)">(\w+)</a></th>'
    path, seen = "/jobs?q=sorted", []
    for _ in range(3):
        [(_, direction, other, column)] = re.findall(head, fetch(quiet, path))
        seen.append((column, direction, order(path)))
        path = html.unescape(other)
    assert seen == [("submitted", "descending", ids[::-1]), ("submitted", "ascending", ids), seen[0]]
    [by_label] = re.findall(r'href="([^"]+)">job</a>', fetch(quiet, path))
    assert order(html.unescape(by_label)) == [ids[2], ids[0], ids[1]]
    assert parse_qs(urlsplit(html.unescape(by_label)).query) == {"q": ["sorted"], "sort": ["label"]}
    for path in ("/models?sort=-macs", "/accelerators?sort=-title&q=vta"):
        [(_, direction, _, _), *_] = re.findall(head, fetch(quiet, path))
        assert direction == "descending"


@pytest.mark.parametrize("query", ["sort=odd", f"sort=label&cursor={'0' * 32}", "verified=x", "q=" + "x" * 201])
def test_what_no_list_can_be_asked_for(quiet: Quiet, query: str) -> None:
    show(quiet, f"/jobs?{query}", 422)


@pytest.mark.slow
def test_a_sorted_list_of_several_pages(quiet: Quiet) -> None:
    label = "größer 🙂" * 20
    ids = {ended(quiet, 100 + number, label=label, tags=["paged"]) for number in range(31)}
    first = show(quiet, "/jobs?tag=paged&sort=label&state=&model=&verified=&pinned=")
    [following] = [link for link in first.links if "cursor=" in link]
    second = show(quiet, following)
    found = [{job_id for job_id in ids if f"/jobs/{job_id}" in page.links} for page in (first, second)]
    assert (len(found[0]), found[0] | found[1], found[0] & found[1]) == (30, ids, set())
    back = f"{following}&q={quote('🙂' * 200)}"  # as long as an address of a list gets
    assert post(quiet, f"/jobs/{next(iter(ids))}/pin", back=back).headers["location"] == back
    assert len([job_id for job_id in ids if f"/jobs/{job_id}" in show(quiet, "/jobs?tag=paged&pinned=true").links]) == 1


def test_models_of_several_pages(quiet: Quiet) -> None:
    """Catches a page that fails, or forgets its search or sort, only where a second one follows."""
    posted = (
        quiet.client.post("/v1/models", content=a_model(seed), params={"label": "paged"}) for seed in range(1000, 1051)
    )
    ids = {answer.json()["id"] for answer in posted}
    for sort in ({}, {"sort": ["-macs"]}):
        first = show(quiet, f"/models?q=paged&{urlencode(sort, doseq=True)}")
        [following] = [link for link in first.links if "cursor=" in link]
        asked = parse_qs(urlsplit(following).query)
        assert {name: asked[name] for name in asked if name != "cursor"} == {"q": ["paged"]} | sort
        second = show(quiet, following)
        found = [{model for model in ids if f"/models/{model}/label" in page.posts} for page in (first, second)]
        assert (len(found[0]), found[0] | found[1]) == (50, ids)


def test_two_chosen_jobs_are_compared(quiet: Quiet) -> None:
    early, late = ended(quiet, 50), ended(quiet, 51)

    def choose(*jobs: str) -> httpx2.Response:
        return quiet.client.get("/jobs/chosen", params={"do": "compare", "job": jobs}, headers=BROWSER)

    assert choose(late, early).headers["location"] == f"/compare?a={early}&b={late}"
    for jobs in ((), (early,), (early, early), (early, late, "0" * 32), ("x", early)):
        refused = choose(*jobs)
        assert refused.status_code == 422
        assert read_page(refused.text).faults == []
    assert "choose exactly two, not 3" in read_page(choose(early, late, "0" * 32).text).text


def test_chosen_jobs_are_deleted_once_that_was_confirmed(quiet: Quiet) -> None:
    gone = [ended(quiet, seed, label=f"gone {HOSTILE}") for seed in (60, 61)]
    kept = quiet.post(quiet.request(seed=62))["id"]
    chosen = "&".join(f"job={job_id}" for job_id in [*gone, kept, "0" * 32])
    page = show(quiet, f"/jobs/chosen?do=delete&{chosen}&back=https://evil.example")
    assert "Delete 2 jobs?" in page.text
    assert "has not ended, and stays" in page.text
    assert page.text.count(HOSTILE) == 2
    assert not any("evil" in link for link in page.links)
    assert all(quiet.client.get(f"/v1/jobs/{job_id}").status_code == 200 for job_id in gone)  # asked, not done
    answer = post(quiet, "/jobs/chosen/delete", job=[*gone, kept, gone[0]], back="/jobs?q=gone")
    assert answer.headers["location"] == "/jobs?q=gone"
    assert [quiet.client.get(f"/v1/jobs/{job_id}").status_code for job_id in [*gone, kept]] == [404, 404, 200]
    assert "No job is like this" in show(quiet, "/jobs?q=gone").text
    assert "Nothing can be deleted" in show(quiet, f"/jobs/chosen?do=delete&job={kept}").text
    for chosen in (f"job={gone[0]}", ""):
        assert "No job is chosen" in show(quiet, f"/jobs/chosen?do=delete&{chosen}").text
    show(quiet, "/jobs/chosen?do=odd", 422)
    post(quiet, "/jobs/chosen/delete", 422)
    elsewhere = BROWSER | {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
    cross = quiet.client.post("/jobs/chosen/delete", data={"job": kept}, headers=elsewhere)
    assert cross.status_code == 403


def test_a_row_shares_its_job_and_leads_back(quiet: Quiet) -> None:
    job_id = ended(quiet, 70, note="seen by link", tags=["t"])
    assert f"/jobs/{job_id}/share" in show(quiet, "/jobs").posts
    shared = read_page(post(quiet, f"/jobs/{job_id}/share", 201, back="/jobs?q=x").text)
    assert "/jobs?q=x" in shared.links
    token = quiet.client.post(f"/v1/jobs/{job_id}/share").json()["token"]
    seen = httpx2.get(f"{str(quiet.client.base_url).rstrip('/')}/jobs/{job_id}?share={token}", headers=BROWSER)
    page = read_page(seen.text)
    assert "seen by link" in page.text
    assert not any("tag=" in link for link in page.links)  # his list is not for whoever has the link
    assert page.posts == set()


def test_models_and_accelerators_are_searched_labelled_and_deleted_in_their_lists(quiet: Quiet) -> None:
    model = quiet.client.post("/v1/models", content=a_model(80), params={"label": "Findable"}).json()["id"]
    page = show(quiet, "/models?q=findABLE&sort=-macs")
    assert f"/models/{model}/label" in page.posts
    assert f"/models/{quiet.model}/label" not in page.posts
    assert "No model is like this" in show(quiet, "/models?q=nothing").text
    assert post(quiet, f"/models/{model}/delete", back="/models?q=f").headers["location"] == "/models?q=f"
    document = load_accelerator("vta").model_copy(update={"title": HOSTILE})
    ours = quiet.client.post("/v1/accelerators", content=canonical(document)).json()["id"]
    page = show(quiet, f"/accelerators?q={quote(HOSTILE)}")
    assert {f"/accelerators/{ours}/label", f"/accelerators/{ours}/delete"} <= page.posts
    assert "/accelerators/vta" not in page.links
    assert "/accelerators/vta/delete" not in show(quiet, "/accelerators").posts
    back = "/accelerators?q=mine"
    assert post(quiet, f"/accelerators/{ours}/label", label="Mine", back=back).headers["location"] == back
    assert f"/accelerators/{ours}" in show(quiet, back).links
    assert post(quiet, f"/accelerators/{ours}/delete", back=back).headers["location"] == back
    assert "No accelerator is like this" in show(quiet, back).text
