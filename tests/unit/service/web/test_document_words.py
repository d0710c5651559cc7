"""What is said of an accelerator: by pages and by the command line in the same words."""

import io

import pytest
from rich.console import Console

from accel.catalog.load_accelerator import load_accelerator, preset_names
from service.cli.accelerator_table import print_accelerator
from service.web.figures.document_lines import Choice
from service.web.figures.document_words import Contracted, contracted
from service.web.pages.accelerator_pages import document_links, document_values
from service.web.templating.environment import make_environment
from tests.helpers.html_pages import read_page


def page_of(name: str) -> str:
    at = document_links(lambda path, **_: str(path), f"/accelerators/{name}", "yaml")
    values = document_values(load_accelerator(name), name, "yaml", Choice(None, None, None))
    made = make_environment().get_template("accelerator_document.html").render(
        at=at, download="", uses=None, selected=None, **values
    )  # fmt: skip
    head, foot = "<!doctype html><html><head><title></title></head><body>", "</body></html>"
    return read_page(f"{head}<header></header><main><h1></h1>{made}</main><footer></footer>{foot}").text


def printed(name: str) -> str:
    out = io.StringIO()
    print_accelerator(load_accelerator(name), Console(file=out, width=200))
    return out.getvalue()


@pytest.mark.parametrize(
    ("name", "waiting", "bus", "tile"),
    [
        ("vta", "wait for tokens, at most 255 in a queue", "8 bytes a cycle", "1 x 16 x 16 (rows,"),
        ("gemmini", "wait for addresses, in a window of 28 instructions", "16 bytes a cycle", "1 x 16 x 16 (rows,"),
        ("output-stationary", "start instructions in the order of the program", "16 bytes a cycle", "8 x 8 x 1 (rows,"),
    ],
)
def test_pages_and_command_line_use_the_same_words(name: str, waiting: str, bus: str, tile: str) -> None:
    page, text = page_of(name), printed(name)
    for words in (waiting, bus):
        assert words in page
        assert words in text
    assert tile in text
    assert tile.replace(" x ", " \N{MULTIPLICATION SIGN} ") in page


@pytest.mark.slow
def test_energy_is_told_of_instructions_that_state_it() -> None:
    """Catches an accelerator whose energies are in its jobs' reports and not on its page."""
    assert "(250 + 1.25) * bytes" in page_of("vector").partition("The document")[0]
    assert "energy, pJ" in page_of("vector")
    assert "energy, pJ" not in page_of("vta")


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_contracts_or_says_why_not(name: str) -> None:
    found = contracted(load_accelerator(name))
    if isinstance(found, Contracted):
        assert f"{found.macs:,} MACs" in page_of(name)
    else:
        assert found in page_of(name)
        assert f"models cannot be compiled for it: {found}" in printed(name)
