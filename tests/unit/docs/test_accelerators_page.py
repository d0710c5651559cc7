"""docs/accelerators.md says what the code does, and quotes the presets as they are."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from accel.accelerator.contraction import contraction
from accel.catalog.load_accelerator import load_accelerator, preset_names
from accel.isa.family_registry import family_names
from accel.isa.vta.document.ten_keys_json import KNOWN_KEYS
from accel.isa.vta.document.vta_configuration import Variant
from accel.isa.vta.timing.vta_calibration import timing_model
from service.cli.commands import app
from tests.helpers.documents.vta_presets import PRESETS
from tests.helpers.transcript import matches

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "accelerators.md").read_text(encoding="utf-8")
FILES = ROOT / "accel" / "accelerator" / "presets"
QUOTES = re.findall(r"^```(?:yaml|json)\n# (\S+)\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
WAITS = {"in_order": "their turn", "hazards": "addresses", "tokens": "tokens"}


def table(heading: str) -> list[list[str]]:
    """The cells of the rows of the first table under a heading."""
    _, _, after = TEXT.partition(f"\n{heading}\n")
    lines = after[after.index("\n|") + 1 :].split("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


@pytest.mark.parametrize("name", Variant.model_fields)
def test_every_field_of_a_variant_is_there_with_its_default(name: str) -> None:
    default = Variant().model_dump(mode="json")[name]
    if isinstance(default, dict):
        (only,) = set(default.values())
        assert f"| `{name}` | `{only}` each |" in TEXT
    else:
        assert f"| `{name}` | `{json.dumps(default)}` |" in TEXT


def test_every_preset_is_there_as_it_is() -> None:
    rows = {row[0].strip("`"): row[1:] for row in table("## Presets")}
    assert sorted(rows) == preset_names()
    for name, (machine, tile, _, memories, waits) in rows.items():
        accelerator = load_accelerator(name)
        gemm = contraction(accelerator)
        sizes = [f"{m.name} {m.depth * m.element_bytes / 1024:g}" for m in accelerator.memories]
        assert tile == f"{gemm.rows} x {gemm.out_channels} x {gemm.in_channels}"
        assert memories == ", ".join(sizes)
        assert waits == WAITS[accelerator.synchronisation.kind]
        if machine.startswith("`"):
            assert machine.strip("`") == PRESETS[name][1].label


def test_every_family_is_there() -> None:
    assert sorted(row[0].strip("`") for row in table("## Families")) == family_names()


@pytest.mark.parametrize(("preset", "quote"), QUOTES, ids=range(len(QUOTES)))
def test_a_quotation_is_in_its_preset(preset: str, quote: str) -> None:
    folder = ROOT / "docs" if "/" in preset else FILES
    text = (folder / preset).read_text(encoding="utf-8")
    at = 0
    for part in quote.split("...\n"):
        assert part in text[at:], f"{preset}: {part}"
        at = text.index(part, at)


def test_there_are_quotations() -> None:
    wanted = {"mvin-mvout.yaml", "output-stationary.yaml", "vector.yaml", "gemmini.json"}
    assert {preset for preset, _ in QUOTES} >= wanted


@pytest.mark.parametrize(("change", "said"), table("## What is refused"), ids=lambda cell: cell[:40])
def test_what_is_refused(change: str, said: str, tmp_path: Path) -> None:
    before, after = re.findall(r"`([^`]+)`", change)
    text = (FILES / "mvin-mvout.yaml").read_text(encoding="utf-8")
    assert before in text
    (tmp_path / "mine.yaml").write_text(text.replace(before, after, 1), encoding="utf-8")
    result = CliRunner().invoke(app, ["accelerator", "check", str(tmp_path / "mine.yaml")])
    assert result.exit_code == 1
    assert matches((said,), [result.output.removeprefix("cyclops: ").splitlines()[0]]), result.output


def test_every_key_that_is_read_is_there() -> None:
    assert [key for key in KNOWN_KEYS if f"`{key}`" not in TEXT] == []


def test_the_calibration_is_the_one_that_reports_state() -> None:
    assert f"> {timing_model(load_accelerator('vta')).statement}\n" in TEXT
