"""The passes of a job: what the API and the page say of them is what the dumps say; and a pragma can be followed."""

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, expect

from examples.single import Conv, conv_model
from tests.conftest import Service
from tests.helpers.chromium import visiting
from tests.helpers.marking import rest_all

HOSTILE = '<img src="/x" onerror="throw 1">&amp;'
_DEF = re.compile(r"^    def (\w+)\(", re.MULTILINE)


@pytest.fixture(scope="module")
def job(service: Any) -> dict[str, Any]:
    model = conv_model(Conv(channels=16, filters=16, height=14, width=14, kernel=(3, 3), pads=(1, 1, 1, 1)))
    for number, node in enumerate(model.graph.node):
        node.name = f"{HOSTILE}{number}"
    job: dict[str, Any] = service.wait(service.submit(model.SerializeToString()))
    assert job["state"] == "succeeded", job
    return job


@pytest.fixture(scope="module")
def get(service: Service, job: dict[str, Any]) -> Callable[..., Any]:
    return lambda part, **query: service.client.get(f"/v1/jobs/{job['id']}{part}", params=query or None)


def bodies(text: str) -> dict[str, str]:
    """The functions of a module, by what stands between their heads."""
    _, *parts = _DEF.split(text)
    return {name: body.rpartition("\n    @")[0] or body for name, body in zip(parts[::2], parts[1::2], strict=True)}


def test_what_changed_is_what_differs_from_the_dump_before(get: Callable[..., Any]) -> None:
    listing, known = get("/passes").json(), {}
    assert [one["title"] for one in listing["passes"] if one["href"] is None]
    for one in listing["passes"]:
        if one["href"] is None:
            assert one["functions"] == one["changed"] == []
            continue
        found = bodies(get(one["href"].partition(one["href"].split("/")[3])[2]).text)
        assert one["functions"] == list(found)
        assert one["changed"] == [name for name, body in found.items() if known.get(name) != body], one["name"]
        known |= found
    [function] = [each for each in listing["functions"] if each["launches"]]
    traced = get("/trace", limit=1000).json()["items"]
    for site in function["sites"]:
        mine = [row for row in traced if row["origin"]["site"] == site["site"]]
        assert len(mine) == site["instructions"]
        assert (mine[0]["index"], mine[0]["op"]) == (site["first"], site["operation"])
    assert sum(site["instructions"] for site in function["sites"]) == len(traced)


def test_a_function_of_a_dump_and_lines_that_are_found(get: Callable[..., Any]) -> None:
    whole = get("/tir/schedule").text
    alone = get("/tir/schedule", function="conv2d_0").text
    assert alone.startswith("@T.prim_func")
    assert all(line in whole for line in alone.splitlines())
    found = get("/passes/search", text="PRAGMA_", function="conv2d_0").json()
    mine = [match for match in found["matches"] if match["pass"] == "schedule"]
    lines = alone.splitlines()
    assert [match["line"] for match in mine] == [at for at, line in enumerate(lines, 1) if "pragma_" in line]
    assert all(lines[match["line"] - 1].strip() == match["text"] for match in mine)
    assert found["complete"]
    first = get("/passes/search", text="pragma_", limit=1).json()
    assert (len(first["matches"]), first["complete"]) == (1, False)


@pytest.mark.parametrize(
    ("part", "field"),
    [
        ("/tir/schedule?function=nothing", "function"),
        ("/passes/search?text=", "text"),
        ("/passes/search?text=a&limit=0", "limit"),
    ],
)
def test_what_does_not_exist_is_refused(get: Callable[..., Any], part: str, field: str) -> None:
    problem = get(part)
    assert problem.status_code in {404, 422}
    assert field in problem.text


def test_a_program_has_no_passes(service: Service) -> None:
    program = service.client.get("/v1/programs").json()["items"][-1]["id"]
    job = service.wait(service.client.post("/v1/jobs", json={"program": program}).headers["Location"])
    problem = service.client.get(f"/v1/jobs/{job['id']}/passes").json()
    assert (problem["status"], problem["detail"]) == (404, "the job has left no text of a pass")
    page = service.client.get(f"/jobs/{job['id']}/passes", headers={"Accept": "text/html"})
    assert page.status_code == 404
    for part in ("function=nothing", "pass=nothing"):
        wrong = service.client.get(f"/jobs/{job['id']}/passes?{part}", headers={"Accept": "text/html"})
        assert wrong.status_code == 404


@pytest.mark.slow
def test_from_a_pragma_to_its_call_to_its_instructions(service: Service, browser: Browser, job: dict[str, Any]) -> None:
    with visiting(browser, service.url) as visit:
        page = visit.page
        page.goto(f"/jobs/{job['id']}/passes?pass=schedule")
        gemm = page.locator("td", has_text='"pragma_gemm"').last
        gemm.get_by_role("link", name=re.compile("consumed by inject")).click()
        query = parse_qs(urlsplit(page.url).query)
        site = query["site"][0]
        assert query["pass"] == ["inject"]
        call = page.locator(f"#site-{site}-after")
        expect(call).to_contain_text(f'"site {site}"')
        expect(call).to_be_in_viewport()
        call.get_by_role("link", name=re.compile("set by schedule")).click()
        expect(page.locator("tr.chosen", has_text='"pragma_gemm"')).to_be_in_viewport()
        assert "pass=schedule" in page.url
        page.go_back()
        expect(call).to_be_in_viewport()
        call.get_by_role("link", name=re.compile("in the trace")).click()
        first = int(parse_qs(urlsplit(page.url).query)["select"][0])
        record = service.client.get(f"/v1/jobs/{job['id']}/timeline/instructions/{first}").json()["record"]
        assert (record["op"], record["origin"]["site"]) == ("gemm", int(site))
        expect(page.locator("[data-island=timeline]")).to_contain_text(f"gemm on compute, instruction {first}")
        page.get_by_role("link", name=f"site {site}, pragma_gemm, inject").click()
        expect(page.locator(f"#site-{site}-after")).to_be_in_viewport()


@pytest.mark.parametrize("view", rest_all(["side", "inline"]))
def test_without_script_at_phone_width_it_says_the_same(
    service: Service, browser: Browser, job: dict[str, Any], view: str
) -> None:
    options = {"viewport": {"width": 390, "height": 800}}
    with visiting(browser, service.url, java_script_enabled=False, **options) as visit:
        page = visit.page
        page.goto(f"/jobs/{job['id']}/passes?pass=inject&view={view}")
        expect(page.locator("td.old", has_text='"pragma_gemm"').first).to_be_visible()
        expect(page.locator("td.new", has_text='"gemm"').first).to_be_visible()
        page.get_by_label("Search all passes").fill("call_extern")
        page.get_by_role("button", name="Search").click()
        expect(page.get_by_role("row", name=re.compile("^inject conv2d_0")).first).to_be_visible()
        expect(page.get_by_role("list").get_by_text(HOSTILE).first).to_be_visible()
