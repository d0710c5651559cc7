"""Lines of a document: an instruction's are those that say it, whatever else is written in the document."""

import html
import json
import re

import pytest
import yaml

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import load_accelerator, parse_accelerator
from service.web.document_lines import Choice, source_lines

HOSTILE = {
    "instructions:\n- name": ["\n- name: gemm\ninstructions:", "]", "},", "\u2028\r\n", '"instructions": ['],
    "a" * 1500: {"memories": [{"name": "acc"}]},
    "<script>": "</pre><script>alert(1)</script>",
    "text": "long and plain " * 40,
}


def plain(line: object) -> str:
    return html.unescape(re.sub(r"<[^>]*>", "", str(line)))


def hostile(name: str) -> Accelerator:
    document = load_accelerator(name).model_dump(mode="json")
    return parse_accelerator({**document, "source": HOSTILE, "title": 'x"]}, - name: <b>&'})


@pytest.mark.parametrize("name", ["vta", "gemmini", "vector", "output-stationary"])
@pytest.mark.parametrize("form", ["json", "yaml"])
def test_the_lines_of_a_part_say_that_part_and_no_more(name: str, form: str) -> None:
    accelerator = hostile(name)
    for kind, items in (("instruction", accelerator.instructions), ("memory", accelerator.memories)):
        for item in items[:: max(1, len(items) // 3)]:
            lines = source_lines(accelerator, form, Choice(**{kind: item.name}))  # type: ignore[arg-type]
            chosen = [line for line in lines if line.chosen]
            text = "\n".join(plain(line.html) for line in chosen)
            said = json.loads(text.rstrip().removesuffix(",")) if form == "json" else yaml.safe_load(text)[0]
            assert type(item).model_validate(said) == item
            assert [line.number for line in lines if line.first] == [chosen[0].number]
            assert [line.number for line in lines if line.anchor == f"{kind}-{item.name}"] == [chosen[0].number]


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("/dram/bus_bytes", '"bus_bytes": 8'),
        ("/memories/2/depth", '"depth": 2048'),
        ("/instructions/5/fields/6/bits", '"bits": 13'),
        ("/source/<script>", '"<script>": "</pre><script>alert(1)</script>"'),
        ("/source/instructions:\n- name/2", '"},"'),
        ("/clock_mhz", '"clock_mhz": 100.0'),
    ],
)
def test_a_json_pointer_is_one_line_of_the_json(field: str, text: str) -> None:
    chosen = [plain(line.html) for line in source_lines(hostile("vta"), "json", Choice(field=field)) if line.chosen]
    assert [line.strip().removesuffix(",") for line in chosen] == [text]


@pytest.mark.parametrize("field", ["", "/", "x", "/nothing", "/memories/99", "/memories/x/y", "/instructions/-1", "/~"])
@pytest.mark.parametrize("form", ["json", "yaml"])
def test_a_pointer_to_nothing_is_within_its_section_or_nowhere(field: str, form: str) -> None:
    lines = source_lines(load_accelerator("vta"), form, Choice(field=field))  # type: ignore[arg-type]
    chosen = [plain(line.html) for line in lines if line.chosen]
    section = field.split("/")[1:2]
    assert not chosen or section[0] in chosen[0]


def test_markup_in_a_document_stays_text() -> None:
    for form in ("json", "yaml"):
        made = "".join(str(line.html) for line in source_lines(hostile("vta"), form, Choice()))  # type: ignore[arg-type]
        assert "<script>" not in made
        assert "&lt;script&gt;" in made
