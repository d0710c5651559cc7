"""Documents that differ in time alone share what is lowered, and nothing that is timed."""

from pathlib import Path
from typing import Any

import pytest
from tvm import ir

from accel.accelerator.document import Accelerator
from accel.accelerator.target import Target
from accel.catalog.load_accelerator import load_accelerator
from accel.driver import region_timer
from accel.driver import run_model as driver
from accel.driver.run_options import Options
from accel.lowering.codegen.region_lowering import nameless_text
from accel.lowering.codegen.region_object import dump_object, region_object
from accel.lowering.ir.function_attributes import region_functions
from accel.lowering.pipeline import REGION_STAGES
from accel.report.report_documents import Report
from accel.util.content_cache import FolderCache
from examples.single import Conv, conv_model
from tests.helpers.models.build_models import lower
from tests.integration.accel.lowering.partition.test_residual import block

MODEL = conv_model(Conv(32, 32, 16, 16)).SerializeToString()
VTA = load_accelerator("vta")


def slower(accelerator: Accelerator) -> Accelerator:
    dram = accelerator.dram.model_copy(update={"read_latency": accelerator.dram.read_latency + 1})
    return accelerator.model_copy(update={"name": "slower", "dram": dram})


def run(accelerator: Accelerator, out: Path, cache: Path | None = None) -> Report:
    out.mkdir()
    kept = None if cache is None else FolderCache(cache)
    return driver.run_model(MODEL, accelerator, Options(verify_seconds=0, trace=False), out, cache=kept)


def test_regions_are_lowered_once_and_timed_for_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lowered: list[Any] = []

    def counted(*given: Any) -> Any:
        lowered.append(given)
        return lower_region(*given)

    lower_region = region_timer.lower_region
    monkeypatch.setattr(region_timer, "lower_region", counted)
    first = run(VTA, tmp_path / "first", tmp_path / "cache")
    trials = len(lowered)
    again = run(slower(VTA), tmp_path / "again", tmp_path / "cache")
    assert trials > 0
    assert len(lowered) == trials
    assert [function.cached for function in first.functions] == [False]
    assert [function.cached for function in again.functions] == [True]

    cold = run(slower(VTA), tmp_path / "cold")
    assert again.cycles == cold.cycles != first.cycles
    words = [(tmp_path / name / "instructions.bin").read_bytes() for name in ("again", "cold")]
    assert words[0] == words[1]


@pytest.mark.parametrize("name", ["vta", "gemmini", "output-stationary", "vector"])
def test_lowering_reads_nothing_that_the_key_lacks(name: str) -> None:
    accelerator = load_accelerator(name)
    packed = lower(block((1, 16, 6, 6), 3), accelerator, "pack")
    regions = {str(variable.name_hint): function for variable, function in region_functions(packed).items()}
    assert regions
    assert _lowered(regions, accelerator) == _lowered(regions, accelerator.untimed())


def _lowered(regions: dict[str, Any], accelerator: Accelerator) -> list[tuple[str, bytes]]:
    """Text after each stage, and the object, of each region."""
    module, found, target = ir.IRModule(regions), [], Target(accelerator)
    for stage in REGION_STAGES:
        module = stage.run(module, target)
        found += [(nameless_text(module[name]), b"") for name in regions]
    return found + [("", dump_object(region_object(module[name], accelerator))) for name in regions]


def test_what_follows_from_sizes_is_kept_apart() -> None:
    deeper = tuple(memory.model_copy(update={"depth": memory.depth * 2}) for memory in VTA.memories)
    assert VTA.untimed() == slower(VTA).untimed()
    assert VTA.untimed() != VTA.model_copy(update={"memories": deeper}).untimed()
