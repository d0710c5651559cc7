"""Where the parts of a document stand: what the place says is what stands there."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from accel.accelerator.text.document_places import DocumentPlaces
from accel.accelerator.text.document_text import read_text
from accel.accelerator.text.document_yaml import accelerator_yaml
from accel.catalog.load_accelerator import load_accelerator, preset_yaml
from accel.errors import InvalidAccelerator, TextPlace
from tests.helpers.marking import rest_all

KEYS = st.text(st.characters(blacklist_categories=("Cs", "Cc")), min_size=1, max_size=6)
VALUES = st.recursive(
    st.integers() | st.booleans() | KEYS,
    lambda values: st.lists(values, max_size=3) | st.dictionaries(KEYS, values, max_size=3),
    max_leaves=12,
)


def slice_of(text: str, place: TextPlace) -> str:
    """The characters of a place, found as an editor finds them."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    line, column, end_line, end_column = place
    if line == end_line:
        return lines[line - 1][column - 1 : end_column - 1]
    return "\n".join(
        [lines[line - 1][column - 1 :], *lines[line : end_line - 1], lines[end_line - 1][: end_column - 1]]
    )


def paths(value: Any, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [(path, value)] + [found for key, item in items for found in paths(item, (*path, str(key)))]


def assert_places(text: str) -> None:
    """Every key is where its place says, with its value if that is a scalar; so is every scalar of a list."""
    places, document, load = DocumentPlaces(text), read_text(text.encode()), reader(text)
    for path, value in paths(document)[1:]:
        place = places.find(path)
        assert place is not None
        shown = slice_of(text, place)
        around = document
        for step in path[:-1]:
            around = around[int(step)] if isinstance(around, list) else around[step]
        is_scalar = not isinstance(value, dict | list)
        if isinstance(around, dict):
            found = load(f"{{{shown}}}" if is_scalar and load is json.loads else shown)
            assert found == ({path[-1]: value} if is_scalar else path[-1]), (path, shown)
        elif is_scalar:
            assert load(shown) == value, (path, shown)


def reader(text: str) -> Callable[[str], Any]:
    return json.loads if text[0] == "{" else yaml.safe_load


@pytest.mark.slow
@pytest.mark.parametrize("name", rest_all(["mvin-mvout", "vector", "vta", "gemmini"], keep=2))
def test_every_part_of_a_preset_is_found_in_each_of_its_texts(name: str) -> None:
    accelerator = load_accelerator(name)
    document = accelerator.model_dump(mode="json")
    texts = [accelerator_yaml(accelerator), preset_yaml(name), json.dumps(document), json.dumps(document, indent="\t")]
    for text in texts:
        if text is not None:
            assert_places(text)
            assert_places(text.replace("\n", "\r\n"))


@given(document=st.dictionaries(KEYS, VALUES, min_size=1, max_size=3), indent=st.sampled_from([None, 1, "\t"]))
def test_every_part_of_any_json_is_found(document: dict[str, Any], indent: int | str | None) -> None:
    """Keys of all characters, those beyond the first plane and those that other readers take for ends of lines too."""
    for is_ascii in (True, False):
        assert_places(json.dumps(document, indent=indent, ensure_ascii=is_ascii))


@pytest.mark.parametrize(
    ("text", "path", "shown"),
    [
        ("a: 1\nb: {c: 2, d: [3, 4]}\n", ("b", "d", "1"), "4"),
        ("a: 1\nb:\n  - c: 2\n    d: 3\n", ("b", "0"), "c"),
        ("a: 1\nb:\n  - c: 2\n    d: 3\n", ("b", "0", "missing"), "c"),
        ("b:\n- {c: 2}\n", ("b", "0"), "{c"),
        ("a: 1\na: 2\n", ("a",), "a: 2"),
        ("t: |\n  x\n  y\n\n\nb: 1\n", ("t",), "t: |\n  x\n  y"),
        ("\ufeffa: 1\nb: é\n", ("b",), "b: é"),
        ("é: 😀\nü: [😀, x]\n", ("ü", "1"), "x"),
        ("x: {}\n", ("y",), "x"),
    ],
)
def test_the_place_of_a_part(text: str, path: tuple[str, ...], shown: str) -> None:
    place = DocumentPlaces(text).find(path)
    assert place is not None
    assert slice_of(text, place) == shown


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: 1\nb: &x 2\n", 2),
        ("a: 1\nb: 2\nc: *x\n", 3),
        ("a: 1\n\tb: 2\n", 2),
        ('{"a": 1,\n "b": tru}', 2),
        ("a: 1\nb: [\n", 2),
        ("a: 1\n1: 2\nc: 3\n", 4),
        ("x: " + "[" * 120, 1),
    ],
)
def test_text_that_cannot_be_read_is_shown_where_that_is_found(text: str, line: int) -> None:
    with pytest.raises(InvalidAccelerator) as caught:
        read_text(text.encode())
    place = caught.value.place
    assert place is not None
    assert place.line <= text.count("\n") + 1
    assert place.line == min(line, len(text.rstrip("\n").split("\n")))
