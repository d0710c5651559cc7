"""Pages in the machine's own Chromium, as people use them."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Request, sync_playwright

PROGRAM = shutil.which("chromium")


@contextmanager
def running_chromium() -> Iterator[Browser]:
    """A Chromium without a window."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=PROGRAM, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Visit:
    """A page, and what it has complained of: errors of scripts, violations of the policy, requests that failed."""

    page: Page
    faults: list[str] = field(default_factory=list)

    def forgive(self, pattern: str) -> None:
        """Forgets the faults in which the pattern is found."""
        self.faults[:] = [fault for fault in self.faults if not re.search(pattern, fault)]

    def assert_accessible(self) -> None:
        """Nothing that axe-core calls serious or critical."""
        # to collect what passes takes four fifths of its time
        found = Axe().run(self.page, options={"resultTypes": ["violations"]}).response["violations"]
        serious = [
            (one["id"], [node["html"] for node in one["nodes"]])
            for one in found
            if one["impact"] in ("serious", "critical")
        ]
        assert not serious, serious


@contextmanager
def visiting(browser: Browser, base_url: str, **options: Any) -> Iterator[Visit]:
    """A page in a fresh profile; ``options`` are those of Playwright's contexts. It must have no fault in the end."""
    with browser.new_context(base_url=base_url, **options) as context:
        page = context.new_page()
        visit = Visit(page)
        page.on("pageerror", lambda error: visit.faults.append(f"script: {error}"))
        page.on("console", lambda said: visit.faults.append(f"console: {said.text}") if said.type == "error" else None)
        scripts = options.get("java_script_enabled", True)

        def on_failed(request: Request) -> None:
            left = request.failure == "net::ERR_ABORTED"  # a page that is left loads no more
            if not left and (scripts or request.resource_type != "script"):  # where none may run, none is fetched ahead
                visit.faults.append(f"request: {request.url} {request.failure}")

        page.on("requestfailed", on_failed)
        yield visit
        assert not visit.faults, visit.faults
