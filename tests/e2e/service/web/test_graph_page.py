"""The graph of a job: what is drawn is what the API says, and leads on to the other views."""

import re
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from playwright.sync_api import Browser, expect

from examples.graph import Graph
from tests.conftest import Service
from tests.helpers.chromium import visiting
from tests.helpers.html_pages import read_page

HOSTILE = '<img src="/x" onerror="throw 1">&amp;'


def network() -> bytes:
    """Two convolutions, a sum, an operator of the host, with names that are markup."""
    graph, rng = Graph("g"), np.random.default_rng(0)
    wide = graph.constant("w1", rng.normal(size=(16, 16, 3, 3)).astype(np.float32))
    narrow = graph.constant("w2", rng.normal(size=(16, 16, 1, 1)).astype(np.float32))
    x = graph.input("x", (1, 16, 8, 8))
    first = graph.node("Conv", f"{HOSTILE}1", [x, wide], "y1", pads=[1, 1, 1, 1])
    relu = graph.node("Relu", "relu", [first])
    second = graph.node("Conv", f"{HOSTILE}2", [relu, narrow], "y2")
    total = graph.node("Add", "add", [second, relu])
    graph.output(graph.node("Softmax", f"{HOSTILE}s", [total], "z", axis=1), (1, 16, 8, 8))
    return bytes(graph.model().SerializeToString())


@pytest.fixture(scope="module")
def job(service: Any) -> dict[str, Any]:
    job: dict[str, Any] = service.wait(service.submit(network()))
    assert job["state"] == "succeeded", job
    return job


@pytest.fixture(scope="module")
def graph(service: Service, job: dict[str, Any]) -> dict[str, Any]:
    answer = service.client.get(f"/v1/jobs/{job['id']}/graph")
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_boxes_are_the_report_s_layers_and_host_operators(
    service: Service, job: dict[str, Any], graph: dict[str, Any]
) -> None:
    report = service.client.get(f"/v1/jobs/{job['id']}/report").json()
    launched = [box for box in graph["boxes"] if box["kind"] == "launch"]
    assert sorted(number for box in launched for number in box["launches"]) == list(range(1, len(report["layers"]) + 1))
    assert sum(box["cost"]["cycles"] for box in launched) == report["cycles"]
    for box in launched:
        mine = {name for number in box["launches"] for name in report["layers"][number - 1]["nodes"]}
        assert mine <= {node["name"] for node in box["nodes"]}
    told = {node["name"] for box in graph["boxes"] for node in box["nodes"] if node["reason"]}
    told |= {node["name"] for node in graph["added"]}
    assert told == {op["node"] for op in report["host_ops"]}
    edges = {(edge["tensor"], tuple(edge["shape"])) for edge in graph["edges"]}
    assert ("relu", (1, 16, 8, 8)) in edges


@pytest.mark.slow
def test_a_node_leads_to_the_lines_of_its_instructions_and_back(
    service: Service, browser: Browser, job: dict[str, Any], graph: dict[str, Any]
) -> None:
    number, box = next((number, box) for number, box in enumerate(graph["boxes"]) if box["cost"])
    report = service.client.get(f"/v1/jobs/{job['id']}/report").json()
    busy: Counter[str] = Counter()
    for launch in box["launches"]:
        for unit in report["layers"][launch - 1]["account"]["units"].values():
            busy.update(unit["busy"])
    assert box["cost"]["instructions"] == busy
    most = next(iter(box["cost"]["instructions"]))
    assert busy[most] == max(busy.values())
    with visiting(browser, service.url) as visit:
        page = visit.page
        page.goto(f"/jobs/{job['id']}/graph?box={number}")
        told = page.locator("[data-island=graph]").get_by_role("listitem").filter(has_text=most).first
        expect(told).to_contain_text(f"{busy[most]:,} cycles")
        told.get_by_role("link").click()
        expect(page.locator("h3#selected")).to_have_text(f"{most} in this job")
        expect(page.locator(".line.chosen").first).to_be_visible()
        page.locator("h3#selected ~ .scroll tbody tr").first.get_by_role("link", name="in the graph").click()
        page.wait_for_url("**/graph?box=*")


def test_the_page_is_complete_without_a_script(service: Service, job: dict[str, Any], graph: dict[str, Any]) -> None:
    page = read_page(service.client.get(f"/jobs/{job['id']}/graph", headers={"Accept": "text/html"}).text)
    assert page.faults == []
    for number, box in enumerate(graph["boxes"]):
        assert f"box-{number}" in page.ids
        for node in box["nodes"]:
            assert node["name"] in page.text
        if box["cost"]:
            assert f"{box['cost']['cycles']:,}" in page.text


def test_what_is_drawn(service: Service, browser: Browser, job: dict[str, Any], graph: dict[str, Any]) -> None:
    """Boxes stand below those that give them data, have the text and colour of their cost, and hold their text."""
    with visiting(browser, service.url) as visit:
        page = visit.page
        page.goto(f"/jobs/{job['id']}/graph")
        boxes = page.locator("[data-box]")
        expect(boxes).to_have_count(len(graph["boxes"]))
        shapes = boxes.evaluate_all(
            "all => all.map(one => { const rect = one.querySelector('rect'), box = rect.getBBox();"
            " return {y: box.y, right: box.x + box.width, fill: getComputedStyle(rect).fill, text: one.textContent,"
            " ends: [...one.querySelectorAll('text')].map(text => text.getBBox().x + text.getBBox().width)} })"
        )
        for edge in graph["edges"]:
            assert shapes[edge["source"]]["y"] < shapes[edge["target"]]["y"]
        expect(page.locator(".graph-edge")).to_have_count(len(graph["edges"]))
        for box, shape in zip(graph["boxes"], shapes, strict=True):
            assert box["name"] in shape["text"]
            assert all(end <= shape["right"] for end in shape["ends"])
            if box["cost"]:
                assert f"{box['cost']['cycles']:,} cycles" in shape["text"]
        drawn = list(zip(graph["boxes"], shapes, strict=True))
        costs = [(box["cost"]["cycles"], shape["fill"]) for box, shape in drawn if box["cost"]]
        assert max(costs)[1] != min(costs)[1]
        host = next(shape["fill"] for box, shape in drawn if box["kind"] == "host")
        assert host not in {fill for _, fill in costs}
        page.get_by_label("Colour by").select_option("bytes")
        some = next(number for number, box in enumerate(graph["boxes"]) if box["cost"])
        cost = graph["boxes"][some]["cost"]
        moved = cost["bytes_read"] + cost["bytes_written"]
        expect(boxes.nth(some)).to_contain_text(f"{moved} B" if moved < 1024 else f"{moved / 1024:.1f} KiB")
        page.get_by_label("Colour by").select_option("where")
        fills = page.locator(".graph-launch rect").evaluate_all("all => all.map(one => getComputedStyle(one).fill)")
        assert (len(fills), len(set(fills))) == (len(costs), 1)
        assert "by=where" in page.url
        visit.assert_accessible()


@pytest.mark.slow
def test_a_box_opens_its_layer_and_the_link_shows_the_same(
    service: Service, browser: Browser, job: dict[str, Any], graph: dict[str, Any]
) -> None:
    number, box = next((number, box) for number, box in enumerate(graph["boxes"]) if box["cost"])
    with visiting(browser, service.url) as visit:
        page = visit.page
        page.goto(f"/jobs/{job['id']}/graph")
        page.locator(f"[data-box='{number}']").click()
        details = page.get_by_role("region", name="Selected box")
        expect(details).to_contain_text(f"{box['cost']['cycles']:,}")
        expect(details).to_contain_text(box["name"])
        page.goto(page.url)
        expect(details).to_contain_text(box["name"])
        expect(page.locator(f"[data-box='{number}']")).to_have_attribute("aria-pressed", "true")
        links = {link.text_content(): link.get_attribute("href") for link in details.get_by_role("link").all()}
        layer = f"Layer {box['launches'][0]}"
        assert parse_qs(urlsplit(links["Timeline"]).query) == {
            "begin": [str(box["cost"]["begin"])],
            "end": [str(box["cost"]["end"])],
        }
        passes = service.client.get(links["Passes"], headers={"Accept": "text/html"})
        assert box["name"] in read_page(passes.text).text
        details.get_by_role("link", name=layer).click()
        expect(page.locator(f"#layer-{box['launches'][0]}")).to_be_in_viewport()


@pytest.mark.slow
def test_by_keyboard_alone(service: Service, browser: Browser, job: dict[str, Any], graph: dict[str, Any]) -> None:
    with visiting(browser, service.url, viewport={"width": 390, "height": 800}, color_scheme="dark") as visit:
        page = visit.page
        page.goto(f"/jobs/{job['id']}/graph")
        page.locator("[data-box='0']").focus()
        page.keyboard.press("ArrowDown")
        target = next(edge["target"] for edge in graph["edges"] if edge["source"] == 0)
        expect(page.locator(f"[data-box='{target}']")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.get_by_role("region", name="Selected box")).to_contain_text(graph["boxes"][target]["name"])
        assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
        visit.assert_accessible()


@pytest.mark.slow
def test_the_picture_can_be_taken_along(
    service: Service, browser: Browser, job: dict[str, Any], graph: dict[str, Any], tmp_path: Path
) -> None:
    """The file has its colours in itself, and pixels are those of the boxes."""
    with visiting(browser, service.url) as visit:
        page = visit.page
        page.goto(f"/jobs/{job['id']}/graph")
        for kind in ("SVG", "PNG"):
            with page.expect_download() as started:
                page.get_by_role("button", name=f"Save the picture as {kind}").click()
            started.value.save_as(tmp_path / f"graph.{kind}")
    root = ET.parse(tmp_path / "graph.SVG").getroot()
    rects = root.findall(".//{*}g/{*}rect")
    assert len(rects) == len(graph["boxes"])
    assert all(re.match(r"rgb|color", rect.get("fill", "")) for rect in rects)
    text = "".join(root.itertext())
    assert all(box["name"] in text for box in graph["boxes"])
    assert not root.findall(".//{*}img")
    data = (tmp_path / "graph.PNG").read_bytes()
    assert data.startswith(b"\x89PNG")
    assert int.from_bytes(data[16:20], "big") == 2 * int(root.get("width", "0"))


def test_jobs_without_a_graph(service: Service, is_problem: Any) -> None:
    program = service.client.get("/v1/programs").json()["items"][-1]["id"]
    job = service.wait(service.client.post("/v1/jobs", json={"program": program}).headers["Location"])
    found = is_problem(service.client.get(f"/v1/jobs/{job['id']}/graph"), 404, "not-found", "id")
    assert "program" in found["detail"]
    page = service.client.get(f"/jobs/{job['id']}/graph", headers={"Accept": "text/html"})
    assert page.status_code == 404
    assert "/graph" not in service.client.get(f"/jobs/{job['id']}", headers={"Accept": "text/html"}).text
