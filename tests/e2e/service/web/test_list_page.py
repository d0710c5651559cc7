"""Lists as people use them, in Chromium: what is found, noted and chosen, with scripts and without."""

import re
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from examples.single import Conv, conv_model
from tests.conftest import Service
from tests.helpers.chromium import visiting
from tests.helpers.marking import rest_all

pytestmark = pytest.mark.slow
MARK = "listed-in-chromium"  # no other test's jobs have it


@pytest.fixture(scope="module")
def jobs(service: Service) -> list[dict[str, Any]]:
    """Three that have succeeded, each with other cycles, oldest first."""
    model = conv_model(Conv(channels=16, filters=16, height=8, width=8)).SerializeToString()
    uploaded = service.client.post("/v1/models", content=model, params={"label": "Small net"}).json()["id"]
    asked = [
        {
            "model": uploaded,
            "accelerator": "vta",
            "fresh": True,
            "label": label,
            "tags": [MARK],
            "options": {"seed": 71},
        }
        for label in ("beta", "alpha", "gamma")
    ]
    asked[1]["accelerator"], asked[2]["accelerator"] = "vta-8", "vta-32"
    return [service.wait(service.client.post("/v1/jobs", json=each).headers["Location"]) for each in asked]


def expect_labels(page: Page, wanted: list[str]) -> None:
    expect(page.locator("tbody th[scope=row] > a:first-child")).to_have_text(wanted)


@pytest.mark.parametrize("script", rest_all([False, True]), ids=["no script", "script"])
def test_search_sort_tag_and_compare(
    service: Service, browser: Browser, jobs: list[dict[str, Any]], *, script: bool
) -> None:
    with visiting(browser, service.url, java_script_enabled=script) as visit:
        page = visit.page
        page.goto("/jobs")
        page.get_by_label("Search").fill(f"{MARK} SMALL")
        page.get_by_role("button", name="Search and filter").click()
        expect_labels(page, ["gamma", "alpha", "beta"])
        page.get_by_role("link", name="cycles").click()
        by_cycles = sorted(jobs, key=lambda job: -job["result"]["cycles"])
        expect_labels(page, [job["label"] for job in by_cycles])
        expect(page.get_by_role("columnheader", name="cycles")).to_have_attribute("aria-sort", "descending")
        page.get_by_role("link", name="cycles").click()
        expect_labels(page, [job["label"] for job in by_cycles[::-1]])
        page.get_by_role("link", name="job", exact=True).click()
        expect_labels(page, ["alpha", "beta", "gamma"])
        expect(page.locator("[aria-sort]")).to_have_count(1)

        tag = f"tried {script}"
        row = page.get_by_role("row").filter(has=page.get_by_role("link", name="beta", exact=True))
        row.get_by_label("What can be done with beta").click()
        row.get_by_label("Tags").fill(f"{MARK}, {tag}")
        row.get_by_label("Note").fill("the first line\nand <b>another</b>")
        row.get_by_role("button", name="Save").click()
        expect_labels(page, ["alpha", "beta", "gamma"])  # where it was
        page.get_by_role("link", name=tag).click()
        expect_labels(page, ["beta"])
        expect(page.locator(".remark")).to_contain_text("and <b>another</b>")
        page.get_by_role("link", name="beta", exact=True).click()
        expect(page.locator(".remark")).to_have_text("the first line\nand <b>another</b>")
        service.client.patch(f"/v1/jobs/{jobs[0]['id']}", json={"tags": [MARK], "note": None})

        page.wait_for_load_state("networkidle")  # else what it fetches still is cut off
        page.goto(f"/jobs?tag={MARK}")
        page.get_by_label("Choose gamma").check()
        page.get_by_label("Choose alpha").check()
        page.get_by_role("button", name="Compare the two").click()
        page.wait_for_url(re.compile(f"/compare\\?a={jobs[1]['id']}&b={jobs[2]['id']}$"))
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.locator("#result")).to_contain_text("cycles")
        page.wait_for_load_state("networkidle")


@pytest.mark.parametrize("script", rest_all([True, False]), ids=["script", "no script"])
def test_chosen_jobs_are_deleted_after_a_question(service: Service, browser: Browser, *, script: bool) -> None:
    program = service.client.get("/v1/programs").json()["items"][-1]["id"]
    asked = {"program": program, "fresh": True, "tags": [f"erased {script}"]}
    made = [service.client.post("/v1/jobs", json=asked | {"label": f"erased {each}"}) for each in range(2)]
    ids = [service.wait(each.headers["Location"])["id"] for each in made]
    with visiting(browser, service.url, java_script_enabled=script) as visit:
        page = visit.page
        page.goto(f"/jobs?tag=erased {script}")
        for number in range(2):
            page.get_by_label(f"Choose erased {number}").check()
        page.get_by_role("button", name="Delete the chosen").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Delete 2 jobs?")
        if script:  # it is one that looks
            visit.assert_accessible()
        page.get_by_role("link", name="Back to the list").click()
        expect_labels(page, ["erased 1", "erased 0"])
        for number in range(2):
            page.get_by_label(f"Choose erased {number}").check()
        page.get_by_role("button", name="Delete the chosen").click()
        page.get_by_role("button", name="Delete them").click()
        expect(page.get_by_text("No job is like this.")).to_be_visible()
    assert {service.client.get(f"/v1/jobs/{job_id}").status_code for job_id in ids} == {404}


@pytest.mark.parametrize(("width", "scheme"), rest_all([(390, "dark"), (1280, "light")]))
def test_lists_fit_and_are_accessible(
    service: Service, browser: Browser, jobs: list[dict[str, Any]], width: int, scheme: Any
) -> None:
    service.client.patch(f"/v1/jobs/{jobs[0]['id']}", json={"note": "x" * 500, "label": "W" * 200})
    options = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme}
    try:
        with visiting(browser, service.url, **options) as visit:
            for path in ("/jobs", "/jobs?q=nothing like this", "/models?sort=-macs", "/accelerators?q=vta&sort=-title"):
                visit.page.goto(path)
                if path != "/jobs?q=nothing like this":
                    visit.page.locator("details.menu > summary").first.click()
                beyond = visit.page.evaluate(
                    "document.documentElement.scrollWidth - document.documentElement.clientWidth"
                )
                assert beyond == 0, path
                visit.assert_accessible()
            visit.page.goto("/jobs")
            menu = visit.page.locator("details.menu").first
            menu.locator("summary").click()
            menu.get_by_label("Note").click(trial=True)  # nothing lies over it
    finally:
        service.client.patch(f"/v1/jobs/{jobs[0]['id']}", json={"note": None, "label": "beta"})
