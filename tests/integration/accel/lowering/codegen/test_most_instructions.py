"""The most instructions that a program may have: those that are left when it is linked count."""

import pytest

from accel.catalog.load_accelerator import load_accelerator
from accel.errors import CompiledTooLarge
from accel.lowering.codegen import program_linking
from examples.single import Dense, dense_model
from tests.helpers.models.build_models import build


def test_what_linking_leaves_out_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a Gemmini's products a third of the words sets registers to what they hold: BERT base was refused for them."""
    model, accelerator = dense_model(Dense(16, 64, 64)), load_accelerator("gemmini")
    count = len(build(model, accelerator).words)
    monkeypatch.setattr(program_linking, "MOST_INSTRUCTIONS", count)
    assert len(build(model, accelerator).words) == count
    monkeypatch.setattr(program_linking, "MOST_INSTRUCTIONS", count - 1)
    with pytest.raises(CompiledTooLarge, match=f"more than {count - 1} instructions"):
        build(model, accelerator)
