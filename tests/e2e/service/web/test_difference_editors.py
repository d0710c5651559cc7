"""Differences in editors: of passes, of two jobs, and of a document from the one that it began with."""

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

import pytest
from playwright.sync_api import Browser, Page, expect

from examples.single import Conv, conv_model
from tests.conftest import Service
from tests.helpers.chromium import visiting

pytestmark = pytest.mark.slow
HOSTILE = '<img src="/x" onerror="throw 1">'
MERGED = "[data-island=merge][data-mounted]"


@pytest.fixture(scope="module")
def jobs(service: Service) -> list[str]:
    """Of one model on two accelerators."""
    model = conv_model(Conv(channels=16, filters=16, height=9, width=9)).SerializeToString()
    ended = [service.wait(service.submit(model, name)) for name in ("vta", "vta-small")]
    assert {each["state"] for each in ended} == {"succeeded"}
    return [each["id"] for each in ended]


def text_of(page: Page, side: str) -> str:
    """What an editor has drawn of a side, a line a line."""
    return "\n".join(page.locator(f".cm-merge-{side} .cm-line").all_inner_texts())


def test_passes_are_compared_in_an_editor(service: Service, browser: Browser, jobs: list[str]) -> None:
    texts = {
        stage: service.client.get(f"/v1/jobs/{jobs[0]}/tir/{stage}", params={"function": "conv2d_0"}).text
        for stage in ("flatten", "inject")
    }
    with visiting(browser, service.url, viewport={"width": 1280, "height": 900}) as visit:
        page = visit.page
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"/jobs/{jobs[0]}/passes?pass=inject&function=conv2d_0")
        page.wait_for_load_state("networkidle")
        assert not any("/merge-" in url for url in asked)  # nothing of the editor before it is asked for
        page.get_by_role("link", name="In an editor").click()
        page.wait_for_selector(MERGED)
        assert "view=editor" in page.url
        page.get_by_label("Collapse equal lines").uncheck()
        for side, stage in (("a", "flatten"), ("b", "inject")):
            drawn = [line for line in text_of(page, side).splitlines() if line.strip()]
            assert drawn
            assert all(line in texts[stage] for line in drawn)
        changed = page.locator(".cm-merge-b .cm-changedLine").all_inner_texts()
        assert all(line not in texts["flatten"].splitlines() for line in changed)
        status = page.locator(f"{MERGED} [role=status]")
        [count] = re.findall(r"(\d+) changes?", status.inner_text())
        for number in range(1, 1 + int(count)):
            page.get_by_role("button", name="Next change").click()
            expect(status).to_contain_text(f"{number} of {count}")
        visit.assert_accessible()


LONG = [f"    x[{number}] = {number}" for number in range(9000)]


def test_long_texts_are_compared_collapsed_and_searched(service: Service, browser: Browser, jobs: list[str]) -> None:
    """Of more lines than the table compares; a hostile line is text; a search leads into what is collapsed."""
    after = [*LONG[:8000], f"    # {HOSTILE}", *LONG[8001:]]
    with visiting(browser, service.url, viewport={"width": 390, "height": 800}) as visit:
        page = visit.page

        def answer(route: Any) -> None:
            lines = after if "/tir/inject?" in unquote(route.request.url) else LONG
            route.fulfill(body="\n".join(lines), content_type="text/plain")

        page.route("**/v1/jobs/*/tir/**", answer)
        page.goto(f"/jobs/{jobs[0]}/passes?pass=inject&function=conv2d_0&view=editor")
        page.locator("[data-island=merge]").scroll_into_view_if_needed()
        page.wait_for_selector(MERGED)
        expect(page.locator(f"{MERGED} [role=status]")).to_have_text("1 change")
        expect(page.locator(".cm-merge-b .cm-collapsedLines").first).to_have_text("7997 unchanged lines")
        page.get_by_role("button", name="Next change").click()
        expect(page.locator(".cm-merge-b .cm-changedLine")).to_have_text(f"    # {HOSTILE}")
        assert page.locator("img:not([src^='/static/'])").count() == 0
        assert page.locator(".cm-line").count() < 400  # what is out of view is not drawn
        page.keyboard.press("Control+f")
        page.get_by_role("textbox", name="Find").press_sequentially("x[4321] = 4321")
        page.keyboard.press("Enter")
        found = page.locator(".cm-merge-b .cm-line", has_text="x[4321] =")
        expect(found).to_be_in_viewport()
        expect(page.locator(".cm-merge-a .cm-line", has_text="x[4321] =")).to_be_in_viewport()
        assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
        visit.assert_accessible()


def leaves(value: Any, place: tuple[str, ...] = ()) -> Mapping[tuple[str, ...], Any]:
    if isinstance(value, dict | list):
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        return {key: leaf for name, each in inner for key, leaf in leaves(each, (*place, str(name))).items()}
    return {place: value}


def test_two_documents_and_functions_are_compared(service: Service, browser: Browser, jobs: list[str]) -> None:
    documents = [service.client.get(f"/v1/jobs/{job}/artifacts/accelerator.json").json() for job in jobs]
    layer = service.client.get(f"/v1/jobs/{jobs[0]}/report").json()["layers"][0]["name"]
    with visiting(browser, service.url, viewport={"width": 1280, "height": 1000}) as visit:
        page = visit.page
        page.goto(f"/compare?a={jobs[0]}&b={jobs[1]}&layer={layer}&view=editor&documents=editor")
        for island in page.locator("[data-island=merge]").all():
            island.scroll_into_view_if_needed()
            expect(island).to_have_attribute("data-mounted", "")
        first = page.locator("[data-island=merge]").first
        # all lines of a document that differ: between them are those that the collapse leaves out
        first.get_by_role("button", name="Next change").click()
        for side, document in zip("ab", documents, strict=True):
            changed = first.locator(f".cm-merge-{side} .cm-changedLine").all_inner_texts()
            known = {json.dumps(key[-1]) + ": " + json.dumps(value) for key, value in leaves(document).items()}
            assert changed
            assert all(line.strip().rstrip(",") in known for line in changed if '": ' in line and "[" not in line)
        visit.assert_accessible()


def test_the_changes_of_a_document_are_shown_and_reverted(service: Service, browser: Browser) -> None:
    preset = service.client.get("/v1/accelerators/vta", params={"format": "yaml"}).text
    with visiting(browser, service.url, viewport={"width": 1280, "height": 1000}) as visit:
        page = visit.page
        page.goto("/")
        page.get_by_label("A preset, or one that you have sent").select_option("vta")
        page.get_by_role("button", name="Edit its document").click()
        editor = page.locator(".cm-content")
        expect(editor).to_be_visible()
        page.get_by_role("button", name="Changes", exact=True).click()
        bar = page.locator(".editor-bar")
        expect(bar).to_contain_text("Nothing differs from vta.")
        editor.click()
        page.keyboard.press("Control+Home")
        page.keyboard.press("Shift+End")
        page.keyboard.type("schema_version: 3")
        expect(bar).to_contain_text("1 change from vta")
        expect(page.locator(".cm-deletedChunk").first).to_contain_text(preset.splitlines()[0])
        page.get_by_role("button", name="Changes", exact=True).click()
        editor.press("Control+End")
        page.keyboard.type(f"\n# {HOSTILE}")
        page.get_by_role("button", name="Changes", exact=True).click()
        expect(bar).to_contain_text("2 changes from vta")
        expect(page.locator(".cm-collapsedLines")).to_have_count(1)
        expect(page.locator(".cm-line", has_text=HOSTILE)).to_be_visible()
        editor.press("Control+Home")
        assert page.locator("img:not([src^='/static/'])").count() == 0
        visit.assert_accessible()
        page.get_by_role("button", name="Revert the change at the cursor").click()
        expect(bar).to_contain_text("1 change from vta")
        page.get_by_role("button", name="Next change").click()
        page.get_by_role("button", name="Revert the change at the cursor").click()
        expect(bar).to_contain_text("Nothing differs from vta.")
        assert page.locator("#document").input_value().rstrip() == preset.rstrip()
        page.get_by_role("button", name="Changes", exact=True).click()
        expect(page.locator(".cm-deletedChunk, .cm-collapsedLines")).to_have_count(0)
        visit.forgive("/plan|422|dry_run")
