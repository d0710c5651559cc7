"""Documents with a store of whole rows: what is refused of one, and which are taken."""

import copy
from typing import Any

import pytest

from accel.accelerator.row_functions import RowFunction
from accel.accelerator.target import Target
from accel.catalog.derive_accelerator import derive_accelerator
from accel.catalog.load_accelerator import load_accelerator, parse_accelerator
from accel.errors import InvalidAccelerator
from accel.isa.gemmini.document.normalised_rows import row_layer_norm, row_softmax
from accel.lowering.analysis.capabilities import Capabilities


def _document() -> dict[str, Any]:
    normalising = derive_accelerator(load_accelerator("gemmini"), {"normalizations": True}, "normalising")
    return normalising.model_dump(mode="json")


def _place(document: dict[str, Any], name: str) -> int:
    return next(at for at, each in enumerate(document["instructions"]) if each["name"] == name)


@pytest.mark.parametrize(
    ("path", "value", "field", "said"),
    [
        (("rows", "passes", 0, "last", "mvout.norm"), 1, "rows", "expected those of the family's store_softmax"),
        (("rows", "kept"), 5, "rows", "expected those of the family's store_softmax"),
        (("rows", "constants", "c"), [], "rows.constants", "softmax has a constant c; name its field"),
        (("rows", "stores", "mvout.far"), 1, "rows.stores.mvout.far", "store_softmax has no field mvout.far"),
        (("operations",), [{"name": "c", "when": {}, "does": "dram[n] = i8(sram[n])"}], "rows", "leave the operations"),
        (("direction",), "load", "rows", "a load brings elements as they are"),
        (("dram_dtype",), "int32", "dram_dtype", "what a store makes of a row is int8"),
        (("pragma",), "pragma_mvout", "pragma", "a store of rows needs a pragma of its own"),
    ],
    ids=lambda value: ".".join(map(str, value)) if isinstance(value, tuple) else "",
)
def test_what_no_gemmini_does_is_refused(path: tuple[Any, ...], value: Any, field: str, said: str) -> None:
    document = _document()
    place = _place(document, "store_softmax")
    within = document["instructions"][place]
    for key in path[:-1]:
        within = within[key]
    within[path[-1]] = value
    with pytest.raises(InvalidAccelerator, match=said) as caught:
        parse_accelerator(document)
    assert caught.value.field.startswith(f"accelerator.instructions.{place}.{field}")


@pytest.mark.parametrize(
    ("key", "value", "field", "said"),
    [
        ("passes", slice(2), "rows.passes", "layer_norm takes 3 passes over a row, and these are 2"),
        ("constants", {"b": ["config_norm.qb"]}, "rows.constants", "layer_norm has no constant b; leave it out"),
        ("kept", 3, "rows", "expected those of the family's store_layer_norm"),
    ],
)
def test_what_a_layer_norm_has_not_is_refused(key: str, value: Any, field: str, said: str) -> None:
    document = _document()
    place = _place(document, "store_layer_norm")
    rows = document["instructions"][place]["rows"]
    rows[key] = rows[key][value] if isinstance(value, slice) else value
    with pytest.raises(InvalidAccelerator, match=said) as caught:
        parse_accelerator(document)
    assert caught.value.field.startswith(f"accelerator.instructions.{place}.{field}")


def test_documents_from_before_layer_norm_are_taken() -> None:
    document = _document()
    del document["instructions"][_place(document, "store_layer_norm")]
    assert not Capabilities.of(Target(parse_accelerator(document))).stores_layer_norm


def test_a_family_that_reduces_by_instructions_has_none() -> None:
    document = load_accelerator("npu").model_dump(mode="json")
    stores = (each for each in document["instructions"] if each.get("direction") == "store")
    store = next(each for each in stores if each["dram_dtype"] == "int8")
    name = store["fields"][-1]["name"]
    numbers = {"name": "gathered", "last": {name: 0}}
    constants = {constant: [name] for constant in ("b", "c", "ln2", "inverse")}
    store["rows"] = {
        "function": "softmax", "numbers": [name], "kept": 1, "constants": constants, "passes": [numbers] * 2,
        "stores": {},
    }  # fmt: skip
    store["pragma"] = "pragma_softmax"
    for key in ("operations", "operands", "dimensions"):
        store.pop(key, None)
    with pytest.raises(InvalidAccelerator, match="a store of the family explicit has no function of rows"):
        parse_accelerator(document)


def test_documents_from_before_softmax_are_taken() -> None:
    """Saved documents of a Gemmini with normalisations, whose config_norm has a bit for the inverse of ln 2."""
    document = _document()
    later = ("config_norm_inverse", "store_softmax", "store_layer_norm")
    left = [each for each in document["instructions"] if each["name"] not in later]
    document["instructions"] = copy.deepcopy(left)
    norm = document["instructions"][_place(document, "config_norm")]
    (inverse,) = [field for field in norm["fields"] if field["name"] == "inverse"]
    inverse["value"] = None
    assert parse_accelerator(document).family == "gemmini"
    del document["instructions"][_place(document, "config_norm")]
    with pytest.raises(InvalidAccelerator, match="config_norm"):
        parse_accelerator(document)


@pytest.mark.parametrize(
    ("rows", "blocks", "taken"),
    [(4, 2, True), (9, 2, True), (3, 2, True), (2, 2, False), (2, 4, True), (1, 40, False), (16, 1, False)],
)
def test_rows_that_come_too_soon_are_not_taken(rows: int, blocks: int, taken: bool) -> None:
    """As the errata find a maximum that is stale; a mean is waited for."""
    function: RowFunction = row_softmax()
    assert function.takes(rows, blocks) == taken
    assert row_layer_norm().takes(rows, blocks)
