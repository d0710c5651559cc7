"""Lines of a document: an instruction's are those that say it, whatever else is written in the document."""

import html
import json
import re

import pytest
import yaml

from accel.accelerator.document import Accelerator
from accel.accelerator.text.document_yaml import accelerator_yaml
from accel.catalog.load_accelerator import load_accelerator, parse_accelerator, preset_names, preset_yaml
from service.web.figures.document_lines import Choice, SourceLine, source_lines
from tests.helpers.marking import rotated

HOSTILE = {
    "instructions:\n- name": ["\n- name: gemm\ninstructions:", "]", "},", "\u2028\r\n", '"instructions": ['],
    "a" * 1500: {"memories": [{"name": "acc"}]},
    "<script>": "</pre><script>alert(1)</script>",
    "text": "long and plain " * 40,
}


def plain(line: object) -> str:
    return html.unescape(re.sub(r"<[^>]*>", "", str(line)))


def written(accelerator: Accelerator, form: str) -> str:
    return accelerator.model_dump_json(indent=2) if form == "json" else accelerator_yaml(accelerator)


def shown(accelerator: Accelerator, form: str, choice: Choice) -> list[SourceLine]:
    return source_lines(accelerator, written(accelerator, form), choice)


def hostile(name: str) -> Accelerator:
    document = load_accelerator(name).model_dump(mode="json")
    return parse_accelerator({**document, "source": HOSTILE, "title": 'x"]}, - name: <b>&'})


@pytest.mark.parametrize(("name", "form"), rotated(["vta", "gemmini", "vector", "output-stationary"], ["json", "yaml"]))
def test_the_lines_of_a_part_say_that_part_and_no_more(name: str, form: str) -> None:
    accelerator = hostile(name)
    for kind, items in (("instruction", accelerator.instructions), ("memory", accelerator.memories)):
        for item in items[:: max(1, len(items) // 3)]:
            lines = shown(accelerator, form, Choice(**{kind: item.name}))
            chosen = [line for line in lines if line.chosen]
            text = "\n".join(plain(line.html) for line in chosen)
            said = json.loads(text.rstrip().removesuffix(",")) if form == "json" else yaml.safe_load(text)[0]
            assert type(item).model_validate(said) == item
            assert [line.number for line in lines if line.first] == [chosen[0].number]
            assert [line.number for line in lines if line.anchor == f"{kind}-{item.name}"] == [chosen[0].number]


@pytest.mark.parametrize("name", [name for name in preset_names() if preset_yaml(name)])
def test_a_preset_is_shown_with_its_comments_and_its_parts_without_those_behind_them(name: str) -> None:
    accelerator, text = load_accelerator(name), preset_yaml(name)
    for item in accelerator.instructions:
        lines = source_lines(accelerator, text, Choice(instruction=item.name))
        assert "\n".join(plain(line.html) for line in lines) == text.rstrip("\n")
        chosen = [plain(line.html) for line in lines if line.chosen]
        assert yaml.safe_load("\n".join(chosen))[0]["name"] == item.name
        assert not chosen[-1].lstrip().startswith("#")


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
    chosen = [plain(line.html) for line in shown(hostile("vta"), "json", Choice(field=field)) if line.chosen]
    assert [line.strip().removesuffix(",") for line in chosen] == [text]


@pytest.mark.parametrize("field", ["", "/", "x", "/nothing", "/memories/99", "/memories/x/y", "/instructions/-1", "/~"])
@pytest.mark.parametrize("form", ["json", "yaml"])
def test_a_pointer_to_nothing_is_within_its_section_or_nowhere(field: str, form: str) -> None:
    lines = shown(load_accelerator("vta"), form, Choice(field=field))
    chosen = [plain(line.html) for line in lines if line.chosen]
    section = field.split("/")[1:2]
    assert not chosen or section[0] in chosen[0]


def test_markup_in_a_document_stays_text() -> None:
    for form in ("json", "yaml"):
        made = "".join(str(line.html) for line in shown(hostile("vta"), form, Choice()))
        assert "<script>" not in made
        assert "&lt;script&gt;" in made
