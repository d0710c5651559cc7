"""The presets of Gemmini, and what a document of one must have."""

import pytest

from accel.catalog.load_accelerator import load_accelerator, parse_accelerator
from accel.errors import InvalidAccelerator
from accel.isa.gemmini.document.gemmini_document import gemmini_accelerator, parameters_of
from accel.isa.gemmini.document.gemmini_parameters import GemminiParameters


def test_the_preset_is_the_default_configuration():
    assert load_accelerator("gemmini") == gemmini_accelerator(GemminiParameters())


def test_the_lean_preset_is_the_configuration_that_was_measured():
    lean = load_accelerator("gemmini-lean")
    assert parameters_of(lean) == GemminiParameters(requests_in_flight=64)
    default = {instruction.name for instruction in load_accelerator("gemmini").instructions}
    assert default - {instruction.name for instruction in lean.instructions} == {"store_full"}


def without(*names):
    document = load_accelerator("gemmini").model_dump(mode="json")
    document["instructions"] = [each for each in document["instructions"] if each["name"] not in names]
    return document


def test_a_document_may_lack_what_does_nothing():
    assert parse_accelerator(without("counter", "fence")).family == "gemmini"
    with pytest.raises(InvalidAccelerator, match="there is no flush"):
        parse_accelerator(without("counter", "flush"))
