"""What is wrong with a document, in words, whatever is wrong."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.accelerator.text.document_text import MAX_BYTES
from accel.accelerator.text.document_yaml import accelerator_yaml
from accel.catalog.load_accelerator import load_accelerator, parse_accelerator
from accel.errors import AcceleratorDocumentTooLarge, InvalidAccelerator
from tests.helpers.marking import share
from worker.inspection.document_errors import explain, with_explanation
from worker.records.problem_details import problem_of

DOCUMENT = load_accelerator("mvin-mvout").model_dump(mode="json")
VALUES = (
    st.none() | st.booleans() | st.integers(-3, 300) | st.text(max_size=5) | st.just([]) | st.just({}) | st.just([{}])
)


def refused(document: Any) -> InvalidAccelerator | None:
    try:
        parse_accelerator(json.dumps(document).encode())
    except InvalidAccelerator as error:
        return error
    return None


def places(node: Any) -> list[tuple[Any, Any]]:
    """Every object or list of the document with one of its keys."""
    keys = list(node) if isinstance(node, dict) else list(range(len(node))) if isinstance(node, list) else []
    return [(node, key) for key in keys] + [place for key in keys for place in places(node[key])]


@settings(max_examples=40, deadline=None)
@given(st.integers(0), VALUES, st.booleans())
def test_any_change_is_explained_at_a_place_that_leads_into_the_document(at: int, value: Any, drop: bool) -> None:
    document = json.loads(json.dumps(DOCUMENT))
    found = places(document)
    node, key = found[at % len(found)]
    if drop and isinstance(node, dict):
        del node[key]
    else:
        node[key] = value
    error = refused(document)
    if error is None:
        return
    text = json.dumps(document).encode()
    refusal = explain(error, text)[0]
    assert all(refusal.lines)
    here = document
    *above, _last = refusal.path.split(".")
    for step in above:
        if isinstance(here, dict) and step not in here:
            break  # a key of an object that the schema names, such as [key]
        here = here[int(step)] if isinstance(here, list) else here[step] if isinstance(here, dict) else None
    told = with_explanation(error, text)
    assert told.detail == "; ".join(refusal.lines)
    assert (told.field or "").startswith("accelerator")


def test_what_was_never_read_is_told_as_it_is() -> None:
    error = InvalidAccelerator("there is no accelerator", field="accelerator")
    assert explain(error, None)[0].lines == ["there is no accelerator"]


def test_a_missing_field() -> None:
    document = {key: value for key, value in DOCUMENT.items() if key != "units"}
    error = refused(document)
    assert error is not None
    refusal = explain(error, json.dumps(document).encode())[0]
    assert (refusal.path, refusal.found) == ("units", "nothing")
    assert "array" in str(refusal.accepted)


def test_parameters_are_those_of_the_family() -> None:
    document = load_accelerator("vta").model_dump(mode="json")
    document["parameters"]["reads_in_flight"] = "many"
    error = refused(document)
    assert error is not None
    refusal = explain(error, json.dumps(document).encode())[0]
    assert (refusal.path, refusal.found) == ("parameters.reads_in_flight", "'many'")
    assert str(refusal.accepted).startswith("integer, at least 1, at most 256; read commands on their way at once")


def test_what_is_too_large_stays_so_when_it_is_explained() -> None:
    text = b"[" * 1000
    assert isinstance(
        with_explanation(AcceleratorDocumentTooLarge("nested", field="accelerator"), text), AcceleratorDocumentTooLarge
    )


WRONG = """name: x
title: y
family: explicit
word_bits: 100
memories:
  - name: a
    scope: local.a
    dtype: int9
    shape: [4, 8]
    dpth: 5
units: [a]
synchronisation: {kind: tokens, limit: -1}
instructions: []
"""


def test_all_errors_of_the_schema_are_told_each_at_its_line() -> None:
    with pytest.raises(InvalidAccelerator) as caught:
        parse_accelerator(WRONG.encode())
    told = with_explanation(caught.value, WRONG.encode())
    assert told.field == "accelerator.word_bits"
    errors = problem_of(told).errors
    assert errors is not None
    assert {(one.field.removeprefix("accelerator."), one.line) for one in errors} == {
        ("word_bits", 4),
        ("memories.0.depth", 6),
        ("memories.0.dtype", 8),
        ("memories.0.dpth", 10),
        ("synchronisation.limit", 12),
    }
    dtype = next(one for one in errors if one.field.endswith("dtype"))
    assert "accepted: int8 or uint8" in dtype.message
    line = WRONG.splitlines()[7]
    assert line[(dtype.column or 0) - 1 : (dtype.end_column or 0) - 1] == "dtype: int9"


@pytest.mark.parametrize("wrapped", [False, True])
def test_errors_of_the_ten_keys_have_a_line(wrapped: bool) -> None:
    keys = {"TARGET": "sim", "HW_VER": "0.0.2", "LOG_INP_WIDTH": 3, "LOG_WGT_WIDTH": "x"}
    text = json.dumps({"vta_config": keys} if wrapped else keys, indent=1)
    with pytest.raises(InvalidAccelerator) as caught:
        parse_accelerator(text.encode())
    told = with_explanation(caught.value, text.encode())
    assert told.place is not None
    assert told.field is not None
    shown = text.splitlines()[told.place.line - 1]
    assert told.field in shown or told.field not in keys


def test_a_thousand_errors_are_bounded() -> None:
    document = {f"key{number}": "x" * 200 for number in range(1000)}
    text = json.dumps(document).encode()
    with pytest.raises(InvalidAccelerator) as caught:
        parse_accelerator(text)
    problem = problem_of(with_explanation(caught.value, text))
    assert len(problem.errors or ()) == 50
    assert len(problem.model_dump_json()) < MAX_BYTES  # what a process of an inspection may answer


@pytest.mark.slow
@settings(max_examples=share(40), deadline=None)
@given(st.sampled_from(["mvin-mvout", "vta"]), st.integers(0), st.integers(0, 40), st.text(max_size=12), st.booleans())
def test_any_text_is_explained(name: str, at: int, length: int, text: str, as_json: bool) -> None:
    """Text that other readers take otherwise: marks, blanks and ends of lines beyond ASCII, halves of escapes."""
    whole = load_accelerator(name).model_dump_json(indent=1) if as_json else accelerator_yaml(load_accelerator(name))
    at %= len(whole)
    changed = (whole[:at] + text + whole[at + length :]).encode(errors="replace")
    try:
        parse_accelerator(changed)
    except InvalidAccelerator as error:
        problem = problem_of(with_explanation(error, changed))
        lines = changed.decode().replace("\r\n", "\n").replace("\r", "\n").count("\n") + 1
        assert all(1 <= (one.line or 1) <= (one.end_line or 1) <= lines for one in problem.errors or ())


@pytest.mark.parametrize(
    "text", ["\u00a0{a: 1}", "\ufeff\ufeffa: 1", "\ufeff{a: 1}", '\u2003{"a": "\\x41"}', "\x85a: 1", "a: 1\n\x00"]
)
def test_texts_that_look_like_another_form(text: str) -> None:
    with pytest.raises(InvalidAccelerator) as caught:
        parse_accelerator(text.encode())
    assert with_explanation(caught.value, text.encode()).detail
