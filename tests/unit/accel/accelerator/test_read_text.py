"""Documents as text: YAML says what JSON says, and nothing that JSON cannot."""

import json
import re
import time
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.accelerator.text.document_text import MAX_BYTES, MAX_DEPTH, MAX_VALUES, read_text, read_yaml
from accel.catalog.load_accelerator import load_accelerator, parse_accelerator
from accel.errors import AcceleratorDocumentTooLarge, InvalidAccelerator
from tests.helpers.marking import share

# what writes YAML for us takes 0E0 for text, as YAML 1.1 does; as in YAML 1.2 and JSON it is a number here
TEXTS = st.text(st.characters(blacklist_categories=("Cs",)), max_size=20).filter(
    lambda text: not re.fullmatch(r"[-+]?[0-9.]+[eE][-+]?[0-9]+", text)
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda values: st.lists(values, max_size=4) | st.dictionaries(TEXTS, values, max_size=4),
    max_leaves=20,
)


def typed(value: Any) -> Any:
    """The value with the types of its scalars, as 1 and 1.0 and true are equal."""
    if isinstance(value, dict):
        return {key: typed(inner) for key, inner in value.items()}
    return [typed(inner) for inner in value] if isinstance(value, list) else (type(value), value)


@pytest.mark.slow
@settings(max_examples=share(40))
@given(value=st.dictionaries(TEXTS, VALUES, min_size=1, max_size=4))
def test_both_forms_give_what_was_written(value: Any) -> None:
    assert typed(read_text(json.dumps(value).encode())) == typed(value)
    written = yaml.safe_dump(value, default_flow_style=False)
    assert typed(read_yaml(written)) == typed(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 0x10", "0x10"),
        ("a: 010", "010"),
        ("a: 1_000", "1_000"),
        ("a: 1:30", "1:30"),
        ("a: 2001-12-14", "2001-12-14"),
        ("a: yes", "yes"),
        ("a: On", "On"),
        ("a: .inf", ".inf"),
        ("a: NaN", "NaN"),
        ("a: -0", 0),
        ("a: 1e3", 1000.0),
        ("a: -2.5e-1", -0.25),
        ("a: '3'", "3"),
        ("a:", None),
        ("a: ~", None),
        ("a: null", None),
        ("a: true", True),
        ("a: {<<: 1}", {"<<": 1}),
        ("a: |\n  x\n  y\n", "x\ny\n"),
        ("a: [1, 2.0, x] # comment", [1, 2.0, "x"]),
    ],
)
def test_a_plain_text_is_a_number_only_where_json_would_read_one(text: str, value: object) -> None:
    assert typed(read_text(text.encode())) == typed({"a": value})


LAUGHS = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 60))
HOSTILE = {
    "billions of laughs": (LAUGHS, "line 1: an anchor"),
    "an alias": ("a: *b", "line 1: an alias"),
    "a tag": ("a: !!binary aGk=", "the tag tag:yaml.org,2002:binary"),
    "code": ("a: !!python/object/apply:os.system [ls]", "the tag tag:yaml.org,2002:python/object"),
    "a tag of its own": ("a: !x 1", "the tag !x"),
    "a key that is a list": ("? [a, b]\n: 1", "a key that is no text"),
    "a key that is a number": ("1: 2", "a key that is no text, 1"),
    "two documents": ("a: 1\n---\nb: 2", "one document in a file; found 2"),
    "none": ("", "one document in a file; found 0"),
    "brackets": ("a: " + "[" * 100_000, f"nested more than {MAX_DEPTH} deep"),
    "blocks": ("\n".join(" " * n + "- " for n in range(300)), f"nested more than {MAX_DEPTH} deep"),
    "no YAML": ("a: [1, 2", "line 1"),
    "tabs": ("a:\n\t- 1", "line 2"),
    "brackets in JSON": ('{"a": ' + "[" * 10_000, f"nested more than {MAX_DEPTH} deep"),
    "UTF-16": ('{"a": 1}'.encode("utf-16-le"), "not JSON"),
    "a number of many digits": ("a: " + "9" * 5000, "digit"),
    "beyond any number": ("a: 1e999", "not JSON compliant|out of range"),
    "no text": (b"a: \xff\xfe", "utf-8"),
    "a zero byte": (b"a: \x00", "not YAML"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_json_cannot_say_is_refused_soon(name: str) -> None:
    text, message = HOSTILE[name]
    begin = time.process_time()
    with pytest.raises(InvalidAccelerator, match=message) as caught:
        read_text(text if isinstance(text, bytes) else text.encode())
    assert time.process_time() - begin < 1
    assert caught.value.field == "accelerator"
    assert len(caught.value.detail) < 1000
    assert (type(caught.value) is AcceleratorDocumentTooLarge) == ("nested" in message)


def test_a_key_that_is_there_twice_is_named() -> None:
    for text in ("a: [{}, {b: 1, c: 2, b: 3}]", '{"a": [0, {"b": 1, "b": 1}]}'):
        with pytest.raises(InvalidAccelerator, match="the key is there twice") as caught:
            read_text(text.encode())
        assert caught.value.field == "accelerator.a.1.b"


FILLED = {  # head, what fills the document, tail
    "a million numbers": ("a: [", "1,", "1]"),
    "items": ("", "- 1\n", ""),
    "pairs": ("", "k: 1\n", ""),
    "objects": ("a: [", "{},", "{}]"),
    "numbers in JSON": ('{"a": [', "1,", "1]}"),
    "objects in JSON": ('{"a": [', "{},", "{}]}"),
    "pairs in JSON": ("{", '"k":1,', '"k":1}'),
}


@pytest.mark.parametrize("name", FILLED)
def test_more_values_than_may_be_are_refused_before_all_are_made(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    head, unit, tail = FILLED[name]
    made: list[object] = []
    monkeypatch.setattr("accel.util.strict_json.object_from_pairs", made.append)
    with pytest.raises(AcceleratorDocumentTooLarge, match=f"{MAX_VALUES}") as caught:
        read_text((head + unit * ((MAX_BYTES - len(head + tail)) // len(unit)) + tail).encode())
    assert "keys and values" in caught.value.detail
    # JSON is counted before it is parsed, YAML while it is
    assert len(made) <= (0 if "JSON" in name else MAX_VALUES)


@pytest.mark.parametrize("form", ["JSON", "YAML"])
def test_as_many_values_as_may_be_are_read(form: str) -> None:
    count = MAX_VALUES // 2 - 1
    pairs = {f"k{number}": "a, b: [{}]" for number in range(count)}  # in quotes it is one value
    text = json.dumps(pairs) if form == "JSON" else "".join(f'{key}: "{value}"\n' for key, value in pairs.items())
    assert len(read_text(text.encode())) == count
    more = json.dumps(pairs | {"x": 1, "y": 2}) if form == "JSON" else f"{text}x: 1\ny: 2\n"
    with pytest.raises(AcceleratorDocumentTooLarge):
        read_text(more.encode())


def test_more_bytes_than_may_be_are_refused() -> None:
    with pytest.raises(AcceleratorDocumentTooLarge, match=f"larger than {MAX_BYTES} bytes"):
        read_text(b"a: " + b"x" * MAX_BYTES)


def test_what_comes_to_too_much_with_its_defaults_is_refused() -> None:
    document = load_accelerator("vta").model_dump(mode="json") | {"title": "x" * 100, "source": {"a": [0] * MAX_VALUES}}
    with pytest.raises(AcceleratorDocumentTooLarge, match="written out"):
        parse_accelerator(document)
