"""The roofline of a job's page: the island draws what the report says, in place of the service's own picture."""

import re

import numpy as np
import pytest
from playwright.sync_api import Browser, expect

from examples.networks import build
from tests.conftest import Service
from tests.helpers.chromium import visiting

FRAMES = 200  # ms: what is changed is drawn with a frame of the screen
pytestmark = pytest.mark.slow
POINTS = """[...document.querySelectorAll("[data-island=roofline] svg path[transform^=matrix]")].map((path) =>
  path.getAttribute("transform").split(",").slice(-2).map(parseFloat))"""


def test_points_are_those_of_the_report_and_lead_to_their_layers(service: Service, browser: Browser) -> None:
    job = service.wait(service.submit(build("resnet8").SerializeToString(), schedule="quick"))["id"]
    report = service.client.get(f"/v1/jobs/{job}/report").json()
    layers = [layer for layer in report["layers"] if layer["macs"]]
    by_size = sorted(layers, key=lambda layer: -layer["cycles"])
    x = [layer["macs"] / max(layer["bytes_read"], layer["bytes_written"]) for layer in by_size]
    y = [layer["macs"] / layer["cycles"] for layer in by_size]
    with visiting(browser, service.url, viewport={"width": 1280, "height": 900}) as visit:
        page = visit.page
        page.goto(f"/jobs/{job}")
        page.locator("#roofline").scroll_into_view_if_needed()
        island = page.locator("[data-island=roofline][data-mounted]")
        expect(island).to_be_visible()
        expect(page.locator("#roofline-drawn")).to_be_hidden()
        places = np.array(page.evaluate(POINTS))
        for values, drawn in ((x, places[:, 0]), (y, places[:, 1])):
            slope, offset = np.polyfit(np.log10(values), drawn, 1)
            np.testing.assert_allclose(slope * np.log10(values) + offset, drawn, atol=0.1)
        host = island.locator(".chart-host")
        host.focus()
        page.keyboard.press("ArrowRight")
        first = layers[
            int(np.argmin([layer["macs"] / max(layer["bytes_read"], layer["bytes_written"]) for layer in layers]))
        ]
        expect(island.locator("[role=status]")).to_contain_text(f"{first['name']} · ")
        expect(island.locator("[role=status]")).to_contain_text(f"{first['cycles']:,} cycles")
        page.keyboard.press("+")
        page.wait_for_timeout(FRAMES)
        assert page.evaluate(POINTS) != places.tolist()  # what is out of view then is not drawn
        page.keyboard.press("0")
        page.wait_for_timeout(FRAMES)
        np.testing.assert_allclose(sorted(page.evaluate(POINTS)), sorted(places.tolist()), atol=0.1)
        page.keyboard.press("Enter")
        expect(page).to_have_url(re.compile(rf"#layer-{report['layers'].index(first) + 1}$"))
        section = page.locator("section[aria-labelledby=roofline]")
        section.get_by_text("As a table").click()
        assert section.locator("tbody a").count() == len(layers)
        visit.assert_accessible()
        visit.forgive("/events net::ERR_ABORTED")
