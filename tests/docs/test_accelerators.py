"""docs/accelerators.md says what the code does."""

import json
from pathlib import Path

import pytest

from accel.catalog import load_accelerator, preset_names
from accel.isa.vta.calibration import timing_model
from accel.isa.vta.presets import PRESETS
from accel.isa.vta.read_config import KNOWN_KEYS
from accel.isa.vta.variant import Variant

TEXT = (Path(__file__).parents[2] / "docs" / "accelerators.md").read_text(encoding="utf-8")
ROWS = [line for line in TEXT.splitlines() if line.startswith("| `")]


@pytest.mark.parametrize("name", Variant.model_fields)
def test_every_field_of_a_variant_is_there_with_its_default(name: str) -> None:
    default = Variant().model_dump(mode="json")[name]
    if isinstance(default, dict):
        (only,) = set(default.values())
        assert f"| `{name}` | `{only}` each |" in TEXT
    else:
        assert f"| `{name}` | `{json.dumps(default)}` |" in TEXT


def test_every_preset_is_there_with_its_configuration() -> None:
    rows = [row for row in ROWS if row.startswith("| `vta")]
    assert sorted(row.split("`")[1] for row in rows) == preset_names()
    labels = {row.split("`")[1]: row.split("`")[3] for row in rows if row.count("`") > 2}
    assert all(PRESETS[name][1].label == label for name, label in labels.items())
    assert set(labels) >= {"vta", "vta-8", "vta-32", "vta-small"}


def test_every_key_that_is_read_is_there() -> None:
    assert [key for key in KNOWN_KEYS if f"`{key}`" not in TEXT] == []


def test_the_calibration_is_the_one_that_reports_state() -> None:
    assert f"> {timing_model(load_accelerator('vta')).statement}\n" in TEXT
