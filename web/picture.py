"""Makes the README's picture: the page of the demonstration's job, in the machine's own Chromium.

``make pictures`` runs it. It needs Debian's ``chromium``, as the tests of pages do.
"""

import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import sync_playwright

_PICTURE = Path(__file__).parents[1] / "docs" / "job-page.png"
_SIZE = {"width": 1200, "height": 1185}
_CHROMIUM = "/usr/bin/chromium"
_LINE = "the job's page"


@contextmanager
def _demonstration() -> Iterator[str]:
    """The address of a job's page, which is served until the context ends.

    Raises:
        RuntimeError: the demonstration has failed.
    """
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-m", "service.cli", "demo", "--open", "--out", out]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            try:
                line = next((line for line in process.stdout if line.startswith(_LINE)), None)
                if line is None:
                    raise RuntimeError("the demonstration has shown no page")
                yield line.rpartition(" ")[2].strip()
            finally:
                process.send_signal(signal.SIGINT)


def main() -> None:
    """Write the picture."""
    with _demonstration() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": _SIZE["width"], "height": _SIZE["height"]}, color_scheme="light")
        page.goto(address)
        page.screenshot(path=_PICTURE)
        browser.close()
    print(f"{_PICTURE}: {_PICTURE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
