"""YAML for people, that says the same when it is read again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.accelerator.text.document_text import read_yaml
from accel.accelerator.text.document_yaml import accelerator_yaml, yaml_text
from accel.catalog.load_accelerator import load_accelerator, parse_accelerator, preset_names

PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(PLAIN, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


@pytest.mark.slow
@given(VALUES)
def test_what_json_can_say_comes_back(value: object) -> None:
    back = read_yaml(yaml_text(value))
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize(
    "text", ["1e5", "0x10", "1_000", "yes", "null", "~", "", "2026-11-21", "a: b", "# no", "<<", "-"]
)
def test_texts_that_look_like_something_else_stay_texts(text: str) -> None:
    assert read_yaml(yaml_text({text: [text]})) == {text: [text]}


@pytest.mark.parametrize("name", preset_names())
def test_a_document_comes_back_and_leaves_out_what_goes_without_saying(name: str) -> None:
    accelerator = load_accelerator(name)
    text = accelerator_yaml(accelerator)
    assert parse_accelerator(text.encode()) == accelerator
    assert "null" not in text
