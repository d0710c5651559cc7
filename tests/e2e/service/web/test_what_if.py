"""Compiling with a change from a job's page; and from one view of a job to every other, by links both ways."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from examples.single import Conv, conv_model
from tests.conftest import Service, keep_machine_code
from tests.helpers.chromium import visiting
from tests.helpers.marking import rest_all

pytestmark = pytest.mark.slow
HOSTILE = '<img src="/x" onerror="throw 1">&amp;"\''
JOB_MILLISECONDS = 120_000


def run(service: Service, accelerator: str, **options: Any) -> dict[str, Any]:
    model = conv_model(Conv(channels=16, filters=16, height=14, width=14, kernel=(3, 3), pads=(1, 1, 1, 1)))
    for number, node in enumerate(model.graph.node):
        node.name = f"{HOSTILE}{number}"
    uploaded = service.client.post("/v1/models", content=model.SerializeToString()).json()["id"]
    request = {"model": uploaded, "accelerator": accelerator, "options": options, "fresh": True}
    posted = service.client.post("/v1/jobs", json=request)
    assert posted.status_code == 202, posted.text
    job = service.wait(posted.headers["Location"])
    assert job["state"] == "succeeded", job
    return job


def changes_of(service: Service, job: dict[str, Any]) -> dict[str, Any]:
    found = service.client.get(f"/v1/jobs/{job['id']}/changes").json()["changes"]
    return {each["name"]: each for each in found}


@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
def test_a_change_is_compiled_from_the_page_and_its_gain_appears(
    service: Service, browser: Browser, *, script: bool
) -> None:
    job = run(service, "mvin-mvout", seed=4711 + script)
    with visiting(browser, service.url, java_script_enabled=script) as visit:
        page = visit.page
        page.goto(f"/jobs/{job['id']}")
        before = page.locator("#limit").inner_text()
        page.get_by_text("Compile with a change").click()
        row = page.locator("#change-memories")
        row.get_by_role("button").click()
        page.wait_for_url(f"**/jobs/{job['id']}#changes")
        if not script:
            service.wait(f"/v1/jobs/{changes_of(service, job)['memories']['job']['id']}")
            page.reload()
        expect(row.get_by_role("link", name="Compare")).to_be_visible(timeout=JOB_MILLISECONDS)
        known = changes_of(service, job)["memories"]
        made = service.client.get(f"/v1/jobs/{known['job']['id']}").json()["result"]["cycles"]
        assert known["cycles"] == made
        assert known["gain"] == pytest.approx(1 - made / job["result"]["cycles"])
        expect(row.locator("td").first).to_have_text(f"{made:,}")
        if not script:  # the button for the others sends what this one does
            expect(page.get_by_role("button", name="Compile with the other")).to_be_visible()
            return
        page.get_by_role("button", name="Compile with the other").click()
        last = page.locator("#changes tbody tr:last-child").get_by_role("link", name="Compare")
        expect(last).to_be_visible(timeout=JOB_MILLISECONDS)
        expect(page.locator("#changes").get_by_text("under way")).to_have_count(0, timeout=JOB_MILLISECONDS)
        best = max(changes_of(service, job).values(), key=lambda each: each["gain"])
        limits = service.client.get(f"/v1/jobs/{job['id']}/report").json()["limits"]["changes"]
        expected = f"compiled for {best['change']} it takes {best['gain']:.1%}"
        if best["gain"] > max(each["gain"] for each in limits):
            expect(page.locator("#limit")).to_contain_text(expected)
        else:
            expect(page.locator("#limit")).to_have_text(before)
        visit.assert_accessible()
        row.get_by_role("link", name="Compare").click()
        assert parse_qs(urlsplit(page.url).query) == {"a": [job["id"]], "b": [known["job"]["id"]]}
        expect(page.get_by_text("/memories/0/depth")).to_be_visible()


def test_a_change_that_cannot_be_is_told_with_the_reason(service: Service, browser: Browser) -> None:
    job = run(service, "vta", seed=4713)
    reason = changes_of(service, job)["memory-acc"]["refused"]
    with visiting(browser, service.url) as visit:
        visit.page.goto(f"/jobs/{job['id']}")
        visit.page.get_by_text("Compile with a change").click()
        visit.page.get_by_text("that this accelerator cannot have").click()
        expect(visit.page.get_by_text(reason)).to_be_visible()
        expect(visit.page.locator("#change-memory-acc")).to_have_count(0)


@pytest.fixture(scope="module", params=rest_all(["vta", "gemmini"]))
def job(service: Service, request: pytest.FixtureRequest) -> dict[str, Any]:
    keep_machine_code(request.param)  # its first job on a machine would compile for longer than a job is waited for
    return run(service, request.param, seed=4712)


@contextmanager
def hurrying(browser: Browser, url: str) -> Iterator[Page]:
    """A page that is left before all of it has come: what is asked for then is no fault."""
    with visiting(browser, url) as visit:
        yield visit.page
        visit.faults[:] = [fault for fault in visit.faults if not fault.endswith("net::ERR_ABORTED")]


def query(page: Page) -> dict[str, str]:
    return {name: value for name, [value] in parse_qs(urlsplit(page.url).query).items()}


def selected(page: Page) -> int:
    """The instruction that the timeline says is selected."""
    heading = page.locator(".timeline-details h2")
    expect(heading).to_contain_text("instruction")
    found = re.search(r"instruction ([\d,]+)", heading.inner_text())
    assert found is not None
    return int(found[1].replace(",", ""))


def go(link: Locator, page: Page, part: str) -> None:
    link.click()
    page.wait_for_url(re.compile(rf"/{part}($|[?#])"))


def test_a_layer_leads_to_its_box_its_function_and_its_part_of_the_timeline_and_back(
    service: Service, browser: Browser, job: dict[str, Any]
) -> None:
    home = f"/jobs/{job['id']}"
    report = service.client.get(f"/v1{home}/report").json()
    name, cycles = report["layers"][0]["name"], report["layers"][0]["cycles"]
    assert HOSTILE in name
    with hurrying(browser, service.url) as page:
        row = page.locator("#layer-1")
        page.goto(home)
        go(row.get_by_role("link", name="in the graph"), page, "graph")
        box = int(query(page)["box"])
        expect(page.locator(f'[data-box="{box}"]')).to_have_attribute("aria-pressed", "true")
        expect(page.locator(f"#box-{box}")).to_have_class("chosen")
        expect(page.locator(".graph-details h2")).to_have_text(name)
        page.locator(".graph-details").get_by_role("link", name="Layer 1").click()
        page.wait_for_url(f"**{home}#layer-1")
        go(row.get_by_role("link", name="in the passes"), page, "passes")
        function = page.locator(".picks [aria-current]").first.inner_text()
        [known] = [each for each in service.client.get(f"/v1{home}/passes").json()["functions"] if each["launches"]]
        assert function == known["name"]
        go(page.get_by_role("link", name=f"{name} in the graph"), page, "graph")
        assert int(query(page)["box"]) == box
        page.go_back()
        page.get_by_role("link", name=name, exact=True).click()
        page.wait_for_url(f"**{home}#layer-1")
        go(row.get_by_role("link", name="on the timeline"), page, "timeline")
        expect(page.locator("canvas[data-window]")).to_have_attribute("data-window", f"0 {cycles}")
        go(page.locator(f"a[href='{home}']").first, page, job["id"])
        # without a script the table of the graph does it
        page.goto(f"{home}/graph?layer=1")
        go(page.locator("tr.chosen").get_by_role("link", name="timeline"), page, "timeline")
        assert query(page) == {"begin": "0", "end": str(cycles)}


def test_an_instruction_leads_to_its_layer_its_call_and_its_lines_and_back(
    service: Service, browser: Browser, job: dict[str, Any]
) -> None:
    home = f"/jobs/{job['id']}"
    [function] = [each for each in service.client.get(f"/v1{home}/passes").json()["functions"] if each["launches"]]
    site = next(each for each in function["sites"] if each["instruction"] in {"gemm", "matmul"})
    name, first = site["instruction"], site["first"]
    op = service.client.get(f"/v1{home}/timeline/instructions/{first}").json()["record"]["op"]
    with hurrying(browser, service.url) as page:
        details = page.locator(".timeline-details")
        page.goto(f"{home}/timeline?select={first}")
        assert selected(page) == first
        details.get_by_role("link").filter(has_text=HOSTILE).first.click()
        page.wait_for_url(f"**{home}#layer-1")
        page.go_back()
        assert selected(page) == first
        go(details.get_by_role("link", name="in the graph"), page, "graph")
        assert "box" in query(page)
        page.go_back()
        assert selected(page) == first
        # to the lines of the document, and from there to every use
        go(details.locator("h2").get_by_role("link"), page, "accelerator")
        assert query(page)["instruction"] == op
        lines = page.locator(".line.chosen")
        expect(lines.first).to_contain_text(f"name: {op}")
        expect(lines.first).to_be_in_viewport()
        expect(page.locator(f"#row-{op}")).to_have_class("chosen")
        page.go_back()
        assert selected(page) == first
        # to the call, and from the call to the instruction that it names
        go(details.get_by_role("link").filter(has_text="site "), page, "passes")
        call = page.locator(f"#site-{site['site']}-after")
        expect(call).to_contain_text(f'"{name}"')
        expect(call).to_be_in_viewport()
        go(call.get_by_role("link", name=f"{name} in the document"), page, "accelerator")
        assert query(page)["instruction"] == name
        expect(page.locator(".line.chosen").first).to_contain_text(f"name: {name}")
        # from the document to the call, the layer, the slices
        uses = page.get_by_role("region", name=f"{name} in this job")
        row = uses.get_by_role("row").nth(1)
        go(row.get_by_role("link", name=f"site {site['site']}", exact=True), page, "passes")
        expect(page.locator("tr.chosen, td.chosen").first).to_be_visible()
        assert query(page)["site"] == str(site["site"])
        page.go_back()
        go(row.get_by_role("link", name="on the timeline"), page, "timeline")
        mine = {each["first"] for each in function["sites"] if each["instruction"] == name}
        assert selected(page) == min(mine)
        page.go_back()
        row.get_by_role("rowheader").get_by_role("link").click()
        page.wait_for_url(f"**{home}#layer-1")


def test_a_link_shows_a_colleague_exactly_what_was_selected(
    service: Service, browser: Browser, job: dict[str, Any]
) -> None:
    home = f"/jobs/{job['id']}"
    report = service.client.get(f"/v1{home}/report").json()
    account = report["account"]["units"]
    with hurrying(browser, service.url) as page, hurrying(browser, service.url) as other:
        # a line of the TIR
        page.goto(f"{home}/passes?pass=flatten")
        link = page.get_by_role("link", name="Select line").nth(3)
        number = link.inner_text()
        link.click()
        assert query(page)["line"] == number
        other.goto(page.url)
        for each in (page, other):
            expect(each.locator("tr.chosen, td.chosen")).to_have_count(1)
            expect(each.locator(f"#L{number}")).to_be_in_viewport()
        # an instruction of the document, in either form
        page.goto(f"{home}/accelerator")
        op = next(iter(next(iter(account.values()))["busy"]))
        page.locator(f"#row-{op}").get_by_role("link", name=op, exact=True).first.click()
        page.get_by_role("link", name="JSON", exact=True).click()
        assert query(page) == {"format": "json", "instruction": op}
        other.goto(page.url)
        for each in (page, other):
            expect(each.locator(".line.chosen").nth(1)).to_contain_text(f'"name": "{op}"')
        busy = sum(unit["busy"].get(op, 0) for unit in account.values())
        expect(other.locator(f"#row-{op}")).to_contain_text(f"{busy:,}")
        # from where the cycles went, and from a change, to the lines that say it
        page.goto(home)
        page.get_by_role("region", name="Where every cycle went").get_by_text("As a table").click()
        page.get_by_role("link", name=f"busy: {op}", exact=True).first.click()
        assert query(page) == {"instruction": op}
        page.goto(home)
        changed = next(field for each in report["limits"]["changes"] for field in each["fields"])
        page.get_by_text("that were tried, one at a time").click()
        page.get_by_role("link", name=changed["field"], exact=True).first.click()
        assert query(page) == {"format": "json", "field": changed["field"]}
        section = changed["field"].split("/")[1]
        expect(page.locator(".line.chosen").first).to_contain_text(
            re.compile(f'"({section}|{changed["field"].rpartition("/")[2]})"')
        )


def test_the_document_of_a_job_outlives_its_accelerator(service: Service, browser: Browser) -> None:
    document = service.client.get("/v1/accelerators/vta").json()
    document["title"] = f"</title>{HOSTILE}"
    uploaded = service.client.post("/v1/accelerators", json=document).json()["id"]
    job = run(service, uploaded, seed=4714)
    with visiting(browser, service.url) as visit:
        page = visit.page
        page.goto(f"/jobs/{job['id']}/accelerator?memory=inp#memory-inp")
        expect(page.locator("h1")).to_have_text(document["title"])
        expect(page.locator(".line.chosen").first).to_contain_text("name: inp")
        page.get_by_role("link", name="The accelerator, outside of this job").click()
        page.wait_for_url(f"**/accelerators/{uploaded}")
        page.locator("#row-gemm").get_by_role("link", name="gemm").first.click()
        assert page.url.endswith(f"/accelerators/{uploaded}?instruction=gemm#instruction-gemm")
        expect(page.locator(".line.chosen").first).to_be_in_viewport()
        for width, scheme in ((390, "light"), (1280, "dark")):
            page.set_viewport_size({"width": width, "height": 800})
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            page.goto(f"/jobs/{job['id']}/accelerator?instruction=gemm#instruction-gemm")
            beyond = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert beyond == 0
            visit.assert_accessible()
