"""The host of a document: what is refused, where it is kept, and how it is written into a text."""

from contextlib import suppress
from importlib import resources
from typing import Any

import pytest

from accel.accelerator.host_costs import HostCosts
from accel.catalog.derive_accelerator import derive_accelerator
from accel.catalog.host_section import with_host
from accel.catalog.load_accelerator import accelerator_id, load_accelerator, parse_accelerator
from accel.errors import InvalidAccelerator
from accel.isa.document_changes import changes_of
from accel.isa.family_registry import family_of
from accel.isa.vta.document.vta_configuration import VtaConfig

A9 = load_accelerator("vta").host
assert A9 is not None
OTHER = A9.model_copy(update={"name": "other", "cache": None})
PLAIN = load_accelerator("mvin-mvout").model_dump(mode="json")


def text_of(name: str) -> bytes:
    (found,) = (each for each in (resources.files("accel.accelerator") / "presets").iterdir() if each.name == name)
    return found.read_bytes()


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ((), "some", "an object is expected; found 'some'"),
        (("clock_mhz",), 0, "greater than or equal to 0.000001"),
        (("clock_mhz",), 5e-324, "greater than or equal to 0.000001"),  # times that no float holds
        (("bytes_per_cycle",), 1e-320, "greater than or equal to 0.000001"),
        (("elements_per_cycle", "reduction"), 1e-310, "greater than or equal to 0.000001"),
        (("basis",), "guessed", "'measured', 'cited' or 'assumed'"),
        (("elements_per_cycle", "movement"), float("inf"), "finite"),
        (("elements_per_cycle", "sorting"), 1.0, "there is no key 'sorting' here"),
        (("launch_cycles",), -1, "greater than or equal to 0"),
        (("cache", "line_bytes"), 0, "greater than or equal to 1"),
        (("operator_cycles",), "3", "valid number"),
    ],
)
def test_what_is_refused_says_where(path: tuple[str, ...], value: Any, said: str) -> None:
    assert A9 is not None
    host: Any = A9.model_dump()
    *outer, last = ("host", *path)
    document: Any = {**PLAIN, "host": host}
    at = document
    for part in outer:
        at = at[part]
    at[last] = value
    with pytest.raises(InvalidAccelerator, match=said) as caught:
        parse_accelerator(document)
    assert caught.value.field == ".".join(("accelerator", "host", *path))


def test_none_is_as_if_it_was_left_out() -> None:
    """Documents from before have the id that they had."""
    left_out = {key: value for key, value in PLAIN.items() if key != "host"}
    ids = {accelerator_id(parse_accelerator({**left_out, **more})) for more in ({}, {"host": "none"}, {"host": None})}
    assert len(ids) == 1
    assert "host" not in load_accelerator("mvin-mvout").model_dump()


def test_what_is_derived_has_the_host() -> None:
    """And so have the documents of changes."""
    for name, key in (("vta", {"clock_mhz": 200.0}), ("gemmini", {"dim": 8})):
        accelerator = load_accelerator(name)
        made = [derive_accelerator(accelerator, key)]
        for change in changes_of(accelerator, family_of(accelerator)):
            with suppress(InvalidAccelerator):  # there can be none
                made.append(change.make())
        assert len(made) > 2
        assert all(each.host == accelerator.host for each in made)


@pytest.mark.parametrize("name", ["npu.yaml", "vector.yaml", "vta.json"])
def test_a_section_is_written_into_a_text(name: str) -> None:
    before = text_of(name)
    after = with_host(before, OTHER)
    assert parse_accelerator(after.encode()).host == OTHER
    assert with_host(after.encode(), OTHER) == after
    if name.endswith(".yaml"):
        kept = [line for line in before.decode().splitlines() if not line.startswith("host:")]
        assert [line for line in after.splitlines() if line in set(kept)] == kept
        without = "".join(line for line in before.decode().splitlines(keepends=True) if not line.startswith("host:"))
        assert parse_accelerator(with_host(without.encode(), OTHER).encode()).host == OTHER


def test_ten_keys_have_no_place_for_a_host() -> None:
    keys = VtaConfig().model_dump_json().encode()
    with pytest.raises(InvalidAccelerator, match="only a whole document has a host"):
        with_host(keys, OTHER)


def test_each_preset_says_what_its_numbers_are_worth() -> None:
    for name in ("vta", "vta-ultra96", "gemmini"):
        host = load_accelerator(name).host
        assert isinstance(host, HostCosts)
        assert host.basis == "assumed"
        assert "Assumed, not measured" in host.source
