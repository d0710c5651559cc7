"""The start page with its scripts: the document in its editor, the plan below, a model that is dropped, and Run."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from accel.accelerator.text.document_yaml import accelerator_yaml
from accel.catalog.document_schema import accelerator_schema
from accel.catalog.load_accelerator import load_accelerator, parse_accelerator
from examples.single import Conv, conv_model
from tests.conftest import Service
from tests.helpers.chromium import Visit, visiting
from tests.helpers.marking import rest_all
from worker.examples import examples

pytestmark = pytest.mark.slow
JOB_MILLISECONDS = 120_000
PLAN_MILLISECONDS = 30_000
HOSTILE = '<img src="/x" onerror="throw 1">&amp;'
SCHEMA = accelerator_schema()


@contextmanager
def on_page(browser: Browser, service: Service, path: str, **options: Any) -> Iterator[Visit]:
    """A page; that a document is refused, or a check is abandoned as more is typed, is no fault of it."""
    with visiting(browser, service.url, **options) as visit:
        visit.page.goto(path)
        yield visit
        visit.forgive(r"status of 422|/(v1/accelerators\?dry_run=true|plan) net::ERR_ABORTED")


def open_editor(page: Page, accelerator: str | None = None) -> Locator:
    """Brings an accelerator's document into the editor, which is there once it can complete."""
    if accelerator is not None:
        page.get_by_label("A preset, or one that you have sent").select_option(accelerator)
    page.get_by_role("button", name="Edit its document").click()
    page.wait_for_selector("[data-island=editor][data-assisted]")
    editor = page.get_by_role("textbox", name="Document of an accelerator")
    expect(page.locator(".editor-status")).to_contain_text("it can be used")
    return editor


def write(page: Page, text: str) -> None:
    """Types a text in the place of the document, with the cursor at its `|`."""
    editor = page.get_by_role("textbox", name="Document of an accelerator")
    editor.focus()
    page.keyboard.press("Escape")
    page.keyboard.press("Control+a")
    page.keyboard.press("Delete")
    before, _, after = text.partition("|")
    page.keyboard.insert_text(before + after)
    for _ in after:
        page.keyboard.press("ArrowLeft")


def offered(page: Page) -> set[str]:
    page.keyboard.press("Control+Space")
    labels = page.locator(".cm-tooltip-autocomplete .cm-completionLabel")
    expect(labels.first).to_be_visible()
    return set(labels.all_text_contents())


def keys_of(definition: str) -> set[str]:
    return set(SCHEMA["$defs"][definition]["properties"])


def test_completion_offers_what_the_schema_has_at_that_place(service: Service, browser: Browser) -> None:
    memory = "memories:\n  - name: a\n    scope: local.a\n    "
    cases = {
        "na|": {"name"},
        f"{memory}|\nunits: [a]": keys_of("Memory") - {"name", "scope"},
        f"{memory}dtype: |": set(SCHEMA["$defs"]["Memory"]["properties"]["dtype"]["enum"]),
        "synchronisation: {kind: tokens, |}": keys_of("TokenSync") - {"kind"},
        "synchronisation:\n  kind: |\n": {"tokens", "hazards", "in_order"},
        "instructions:\n- kind: finish\n  |": keys_of("Finish") - {"kind"},
        "instructions:\n- kind: compute\n  fields:\n  - {name: x, |}": keys_of("BitField") - {"name"},
        "family: gemmini\nparameters:\n  |": keys_of("GemminiParameters"),
        "composites:\n- operators: [conv2d, |]": {"conv2d", "dense", "add", "bias", "requantize", "clip"},
        '{"dram": {"bus_bytes": 8, "|"}}': keys_of("Dram") - {"bus_bytes"},
        '{"family": "|"}': set(SCHEMA["properties"]["family"]["enum"]),
        # names that the document itself defines
        "units: [load, run]\ninstructions:\n- kind: copy\n  unit: |": {"load", "run"},
        f"{memory}\n  - name: b\ninstructions:\n- kind: compute\n  operands:\n    C: {{memory: |}}": {"a", "b"},
        "instructions:\n- kind: compute\n  fields: [{name: x}, {name: y}]\n  operands: {A: {address: |}}": {"x", "y"},
        "units: [a, b]\ninstructions:\n- unit: a\n  tokens:\n    pop:\n      |": {"b"},
        "instructions:\n- {kind: part, name: go, fields: [{name: n}]}\n- sequence: [|]": {"go"},
        "instructions:\n- {kind: part, name: go, fields: [{name: n}]}\n- sequence: [go]\n  loops: [{extent: |}]": {
            "go.n"
        },
    }
    with on_page(browser, service, "/accelerators") as visit:
        open_editor(visit.page)
        for text, wanted in cases.items():
            write(visit.page, text)
            assert offered(visit.page) == wanted, text
        for text, chosen in {
            "fam|": "family: ",
            "synchronisation: {kind: tok|}": "synchronisation: {kind: tokens}",
            '{"synch|": {}}': '{"synchronisation": {}}',
            f"{memory}dty|: int8": f"{memory}dtype: int8",
        }.items():
            write(visit.page, text)
            offered(visit.page)
            visit.page.wait_for_timeout(150)  # what is pressed as the list opens is meant for the text
            visit.page.keyboard.press("Enter")
            expect(visit.page.locator("#document")).to_have_value(chosen)


def test_hovering_tells_what_a_key_is(service: Service, browser: Browser) -> None:
    with on_page(browser, service, "/accelerators") as visit:
        visit.page.get_by_label("Begin with").select_option("vta")
        open_editor(visit.page)
        shown = visit.page.locator(".cm-tooltip-hover")
        for text, key in (("depth", "depth"), ("wgt_buffer", "scope"), ("word_bits", None)):
            definition = SCHEMA if key is None else SCHEMA["$defs"]["Memory"]
            visit.page.locator(".cm-line", has_text=text).first.locator("span").first.hover()
            expect(shown).to_contain_text(definition["properties"][key or text]["description"])
            visit.page.mouse.move(0, 0)
            expect(shown).to_have_count(0)


def test_errors_are_at_their_line_and_the_plan_follows_the_document(service: Service, browser: Browser) -> None:
    with on_page(browser, service, "/") as visit:
        page = visit.page
        page.get_by_label("One convolution").check()
        editor = open_editor(page, "vta")
        plan = page.locator("[data-island=plan]")
        row = plan.get_by_role("row", name="conv Conv on the accelerator")
        expect(row).to_be_visible(timeout=PLAN_MILLISECONDS)
        figure = plan.locator(".figures dd").nth(2)
        estimate = figure.text_content() or ""
        page.locator(".cm-line", has_text="word_bits: 128").click()
        page.keyboard.press("End")
        page.keyboard.type("0")
        listed = page.locator(".editor-errors li")
        expect(listed).to_have_count(1)
        lines = accelerator_yaml(load_accelerator("vta")).splitlines()
        expect(listed).to_contain_text(f"Line {lines.index('word_bits: 128') + 1}: word_bits:")
        expect(page.locator(".cm-lintRange-error")).to_have_text("word_bits: 1280")
        expect(plan).to_contain_text("The document has errors.")
        expect(row).to_be_visible()
        visit.assert_accessible()
        page.keyboard.press("Control+End")
        listed.get_by_role("button").click()
        expect(editor).to_be_focused()
        expect(page.locator(".cm-activeLine")).to_have_text("word_bits: 1280")
        page.keyboard.press("End")
        page.keyboard.press("Backspace")
        expect(page.locator(".editor-status")).to_contain_text("it can be used")
        page.keyboard.press("Enter")
        page.keyboard.type("dram: {bus_bytes: 64, read_latency: 4000}")
        expect(figure).not_to_have_text(estimate, timeout=PLAN_MILLISECONDS)
        expect(plan).not_to_contain_text("has errors")
        page.get_by_role("button", name="Leave it out").click()
        expect(page.locator("#document")).to_have_value("")
        expect(figure).to_have_text(estimate, timeout=PLAN_MILLISECONDS)


def test_run_leads_to_a_finished_job_of_the_edited_document(service: Service, browser: Browser) -> None:
    with on_page(browser, service, "/") as visit:
        page = visit.page
        page.get_by_label("One convolution").check()
        open_editor(page, "mvin-mvout")
        title = f"{HOSTILE} of mine"
        page.locator(".cm-line", has_text="title: ").click()
        page.keyboard.press("Home")
        page.keyboard.press("Shift+End")
        page.keyboard.insert_text(f"title: '{title}'")
        expect(page.locator(".editor-status")).to_contain_text(f"{title}, of the family explicit: it can be used.")
        plan = page.locator("[data-island=plan]")
        expect(plan.get_by_role("status")).to_contain_text(f"One convolution on {title}", timeout=PLAN_MILLISECONDS)
        typed = page.locator("#document").input_value()
        assert "# A small accelerator" in typed  # comments come along, and stay
        assert service.client.get("/v1/accelerators").text.count("of mine") == 0  # nothing was kept so far
        page.get_by_role("button", name="Run", exact=True).click()
        expect(page.locator("#result")).to_contain_text("verified", timeout=JOB_MILLISECONDS)
        job = service.client.get(f"/v1/jobs/{page.url.rpartition('/')[2]}").json()
        document = service.client.get(f"/v1/accelerators/{job['accelerator']}").json()
        assert document == parse_accelerator(typed.encode()).model_dump(mode="json")
        assert document["title"] == title
        page.go_back()
        expect(page.locator("#document")).to_have_value(typed)
        visit.forgive("/events net::ERR_ABORTED")


def drop(page: Page, files: dict[str, bytes]) -> None:
    """Lets files fall onto the card of the model, as from a folder."""
    transfer = page.evaluate_handle(
        "files => { const all = new DataTransfer(); for (const [name, data] of files)"
        " all.items.add(new File([new Uint8Array(data)], name)); return all }",
        [[name, list(data)] for name, data in files.items()],
    )
    for event in ("dragenter", "dragover", "drop"):
        page.dispatch_event("#model-card p.hint", event, {"dataTransfer": transfer})


def test_a_dropped_model_is_chosen_and_planned(service: Service, browser: Browser) -> None:
    model = conv_model(Conv(16, 24, 8, 8), seed=19)
    model.graph.node[1].name = HOSTILE
    with on_page(browser, service, "/") as visit:
        page = visit.page
        drop(page, {"nothing.onnx": b"none"})
        expect(page.locator("#file-status")).to_contain_text("nothing.onnx: ")
        assert page.locator("#file").input_value() == ""  # Run would send it in place of what is chosen
        assert page.get_by_label("ResNet-8").is_checked()
        drop(page, {"<b>mine.onnx": model.SerializeToString()})
        expect(page.get_by_label("one that you have sent:")).to_be_checked()
        expect(page.get_by_label("A model that you have sent").locator("option:checked")).to_have_text("<b>mine")
        plan = page.locator("[data-island=plan]")
        expect(plan.get_by_role("status")).to_contain_text("<b>mine on VTA 16x16", timeout=PLAN_MILLISECONDS)
        expect(plan.get_by_role("rowheader", name=HOSTILE)).to_be_visible()
        visit.assert_accessible()
        assert page.locator("#file").input_value() == ""
        [sent] = [one for one in service.client.get("/v1/models").json()["items"] if one["label"] == "<b>mine"]
        assert page.locator("#uploaded").input_value() == sent["id"]


@pytest.mark.parametrize(("width", "scheme"), rest_all([(390, "dark"), (1280, "light")]))
def test_the_editor_fits_and_is_left_by_keyboard(service: Service, browser: Browser, width: int, scheme: Any) -> None:
    options = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme}
    with on_page(browser, service, "/accelerators", **options) as visit:
        page = visit.page
        editor = open_editor(page)
        write(page, "family: vta\n|")
        offered(page)
        visit.assert_accessible()
        assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
        editor.focus()
        page.keyboard.press("Escape")  # closes the list
        page.keyboard.press("Tab")
        expect(page.locator("#document")).to_have_value("family: vta\n  ")
        page.keyboard.press("Escape")
        page.keyboard.press("Tab")
        expect(editor).not_to_be_focused()
        page.get_by_text("or its text").click()
        expect(editor).to_be_focused()


def test_little_is_sent_before_anybody_types(service: Service, browser: Browser) -> None:
    with visiting(browser, service.url) as visit:
        scripts: list[str] = []
        visit.page.on("request", lambda one: scripts.append(one.url) if one.resource_type == "script" else None)
        visit.page.goto("/", wait_until="networkidle")
        sizes = {url: len(service.client.get(url).content) for url in scripts}
        assert sum(sizes.values()) < 20_000, sizes


def test_a_document_comes_back_into_the_editor_with_what_is_wrong(service: Service, browser: Browser) -> None:
    with on_page(browser, service, "/accelerators") as visit:
        page = visit.page
        open_editor(page)
        write(page, f"name: x\ntitle: {HOSTILE}\nfamily: |")
        expect(page.locator(".editor-errors li").first).to_be_visible()
        page.get_by_role("button", name="Check and keep").click()
        expect(page.get_by_role("alert")).to_contain_text("The accelerator cannot be used.")
        page.get_by_role("button", name="Check and keep").scroll_into_view_if_needed()
        expect(page.locator(".cm-line", has_text=HOSTILE)).to_be_visible()
        expect(page.locator(".editor-errors li").first).to_be_visible()


def test_mistakes_that_are_apart_stand_at_their_lines(service: Service, browser: Browser) -> None:
    text = accelerator_yaml(load_accelerator("vta"))
    lines = text.splitlines()
    wrong = {
        lines.index(line): line.replace(right, mistake)
        for right, mistake in (("unit: store", "unit: stor"), ("memory: inp", "memory: impp"))
        for line in lines
        if line.strip() == right or line.strip() == f"- {right}"
    }
    assert len(wrong) >= 2
    with on_page(browser, service, "/accelerators") as visit:
        open_editor(visit.page)
        write(visit.page, "\n".join(wrong.get(number, line) for number, line in enumerate(lines)))
        listed = visit.page.locator(".editor-errors li")
        expect(listed.nth(len(wrong) - 1)).to_be_visible()
        told = listed.all_text_contents()
        assert all(any(f"Line {number + 1}:" in each for each in told) for number in wrong), told


def test_a_job_has_the_tags_and_the_note_of_its_form(service: Service, browser: Browser) -> None:
    with visiting(browser, service.url, java_script_enabled=False) as visit:
        page = visit.page
        page.goto("/")
        page.get_by_label("One convolution").check()
        page.get_by_text("Tags and a note").click()
        page.get_by_label("Tags, between commas").fill("sweep 7,  bus,")
        page.get_by_label("Note").fill(f"two lines\n{HOSTILE}")
        page.get_by_label("Seed of random inputs").fill("171717")
        page.get_by_role("button", name="Plan").click()
        page.get_by_role("link", name="Change").click()
        expect(page.get_by_label("Tags, between commas")).to_have_value("sweep 7, bus")
        page.get_by_role("button", name="Plan").click()
        page.get_by_role("button", name="Run").click()
        page.wait_for_url("**/jobs/*")
        job = service.client.get(f"/v1/jobs/{page.url.rpartition('/')[2].partition('?')[0]}").json()
        assert (job["tags"], job["note"]) == (["sweep 7", "bus"], f"two lines\n{HOSTILE}")
        assert job["options"]["seed"] == 171717


def test_a_busy_service_is_asked_again(service: Service, browser: Browser) -> None:
    with on_page(browser, service, "/accelerators") as visit:
        page, asked = visit.page, []

        def refuse(route: Any) -> None:
            asked.append(route.request.url)
            if len(asked) == 1:
                body = '{"type": "/problems/rate-limited", "detail": "too many"}'
                headers = {"Retry-After": "1", "Content-Type": "application/problem+json"}
                route.fulfill(status=429, headers=headers, body=body)
            else:
                route.fallback()

        page.route("**/v1/accelerators?dry_run=true", refuse)
        page.get_by_role("button", name="Edit its document").click()
        expect(page.locator(".editor-status")).to_have_text("The service is busy; it is checked again in 1 s.")
        expect(page.locator(".editor-status")).to_contain_text("it can be used")
        visit.forgive("status of 429")


def test_examples_need_no_upload(service: Service) -> None:
    listed = {one["id"]: one for one in service.client.get("/v1/models", params={"limit": 1000}).json()["items"]}
    for example in examples("models"):
        assert listed[example.id]["label"] == example.title
        plan = service.client.post("/v1/jobs?dry_run=true", json={"model": example.id, "accelerator": "vta"})
        assert plan.status_code == 200, plan.text
