"""Documents that differ in time, or in sizes of memories, share what is lowered, and nothing that is timed."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from tvm import ir

from accel.accelerator.document import Accelerator
from accel.accelerator.memories import Memory
from accel.accelerator.target import Target
from accel.catalog.load_accelerator import load_accelerator
from accel.driver import run_model as driver
from accel.driver.run_options import Options
from accel.driver.trials import region_timer
from accel.driver.trials.region_timer import RegionTimer
from accel.errors import CompileError
from accel.isa.recorded.calibration import compared_digest
from accel.lowering.codegen.region_lowering import nameless_text
from accel.lowering.codegen.region_object import RegionObject, dump_object, load_object, region_object
from accel.lowering.ir.function_attributes import region_functions, region_of
from accel.lowering.pipeline import REGION_STAGES, lower_region
from accel.region.kinds import Region
from accel.report.documents.report_documents import Report
from accel.util.content_cache import FolderCache
from examples.single import Conv, conv_model
from tests.helpers.marking import rest_all
from tests.helpers.models.build_models import lower
from tests.integration.accel.lowering.partition.test_residual import block

MODEL = conv_model(Conv(32, 32, 16, 16)).SerializeToString()
VTA = load_accelerator("vta")


def slower(accelerator: Accelerator) -> Accelerator:
    dram = accelerator.dram.model_copy(update={"read_latency": accelerator.dram.read_latency + 1})
    return accelerator.model_copy(update={"name": "slower", "dram": dram})


def dearer(accelerator: Accelerator) -> Accelerator:
    assert accelerator.host is not None
    host = accelerator.host.model_copy(update={"launch_cycles": 2 * accelerator.host.launch_cycles + 1})
    return accelerator.model_copy(update={"host": host})


def run(accelerator: Accelerator, out: Path, cache: Path | None = None) -> Report:
    out.mkdir()
    kept = None if cache is None else FolderCache(cache)
    return driver.run_model(
        MODEL, accelerator, Options(verify_seconds=0, trace=False, schedule="timed"), out, cache=kept
    )


@pytest.mark.slow
def test_regions_are_lowered_once_and_timed_for_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lowered: list[Any] = []

    def counted(*given: Any) -> Any:
        lowered.append(given)
        return lower_region(*given)

    monkeypatch.setattr(region_timer, "lower_region", counted)
    first = run(VTA, tmp_path / "first", tmp_path / "cache")
    trials = len(lowered)
    again = run(slower(VTA), tmp_path / "again", tmp_path / "cache")
    assert trials > 0
    assert len(lowered) == trials
    assert [function.cached for function in first.functions] == [False]
    assert [function.cached for function in again.functions] == [True]

    hosted = run(dearer(VTA), tmp_path / "hosted", tmp_path / "cache")
    assert len(lowered) == trials
    assert hosted.cycles == first.cycles
    assert [layer.cycles for layer in hosted.layers] == [layer.cycles for layer in first.layers]
    assert hosted.end_to_end is not None
    assert first.end_to_end is not None
    assert hosted.end_to_end.parts["accelerator"] == first.end_to_end.parts["accelerator"].model_copy(
        update={"share": hosted.cycles / hosted.end_to_end.cycles}
    )
    assert hosted.end_to_end.cycles > first.end_to_end.cycles

    cold = run(slower(VTA), tmp_path / "cold")
    assert again.cycles == cold.cycles != first.cycles
    words = [(tmp_path / name / "instructions.bin").read_bytes() for name in ("again", "cold", "hosted")]
    assert words[0] == words[1] == words[2]


def resized(accelerator: Accelerator, depth: Callable[[Memory], int]) -> Accelerator:
    memories = tuple(memory.model_copy(update={"depth": depth(memory)}) for memory in accelerator.memories)
    return accelerator.model_copy(update={"memories": memories})


@pytest.mark.slow
@pytest.mark.parametrize("name", rest_all(["vta", "output-stationary", "gemmini", "vector"], keep=2))
def test_lowering_reads_nothing_that_the_key_lacks(name: str) -> None:
    """Of a depth it reads only how the buffers lie: the least for that, and twice of what there is, are one."""
    accelerator = load_accelerator(name)
    regions = packed_regions(block((1, 16, 6, 6), 3), accelerator)
    assert regions
    lowered = _lowered(regions, accelerator)
    assert lowered == _lowered(regions, accelerator.untimed())
    assert lowered == _lowered(regions, resized(accelerator, lambda memory: 2 * memory.depth))
    least: dict[str, int] = {}
    for _, data in lowered[-len(regions) :]:
        for memory, depths in load_object(data).depths.items():
            least[memory] = max(depths.least, least.get(memory, 0))
    assert lowered == _lowered(regions, resized(accelerator, lambda memory: least.get(memory.name, 1)))
    largest = max(least, key=lambda memory: least[memory])
    smaller = resized(accelerator, lambda memory: least.get(memory.name, 1) - (memory.name == largest))
    assert smaller.unsized() == accelerator.unsized()
    try:
        other: Any = _lowered(regions, smaller)
    except CompileError as error:
        other = error.detail
    assert other != lowered
    # where contexts have no half for each any more, they may still lie in one piece
    assert accelerator.memory(largest).banks > 1 or largest in other


def packed_regions(model: onnx.ModelProto, accelerator: Accelerator) -> dict[str, Any]:
    found = region_functions(lower(model, accelerator, "pack"))
    return {str(variable.name_hint): function for variable, function in found.items()}


def in_banks(memory: str) -> Accelerator:
    """A machine whose micro-ops hold addresses of a memory in banks."""
    banked = tuple(each.model_copy(update={"banks": 2 if each.name == memory else 1}) for each in VTA.memories)
    return VTA.model_copy(update={"memories": banked})


@pytest.mark.slow
@pytest.mark.parametrize("accelerator", [load_accelerator("gemmini"), in_banks("inp")], ids=["gemmini", "micro-ops"])
def test_what_lies_in_banks_is_shared_where_it_lies_alike(accelerator: Accelerator) -> None:
    """An object of one size that is taken for another must be what is lowered for that: in banks addresses differ."""
    regions = packed_regions(block((1, 16, 6, 6), 3), accelerator)
    outcomes = set[str]()
    for name, function in regions.items():
        first = lowered_object(name, function, accelerator)
        for memory in (each for each in accelerator.memories if each.banks > 1 and each.name in first.depths):
            least = min(first.depths[memory.name].least, memory.depth // 2)
            for depth in (least - 1, least, least + 1, memory.depth, memory.depth + 48):
                other = with_depth(accelerator, memory.name, depth)
                try:
                    made = lowered_object(name, function, other)
                except CompileError:
                    assert not first.is_for(other)
                    continue
                ends = [(buffer.address, buffer.end) for buffer in made.placed_buffers(other)]
                assert all(0 <= begin < end for begin, end in ends)
                assert made.is_for(other)
                anywhere = [1 << 12 << place for place in range(len(made.units) + bool(made.tables))]
                same = np.array_equal(made.link(anywhere, other)[0], first.link(anywhere, other)[0])
                assert same or not first.is_for(other)
                tables = made.tables == first.tables
                outcomes.add(f"{first.is_for(other)} {same and tables}")
    assert {"True True", "False False"} <= outcomes
    assert "True False" not in outcomes


def lowered_object(name: str, function: Any, accelerator: Accelerator) -> RegionObject:
    return load_object(_lowered({name: function}, accelerator)[-1][1])


def with_depth(accelerator: Accelerator, name: str, depth: int) -> Accelerator:
    return resized(accelerator, lambda memory: depth if memory.name == name else memory.depth)


def _lowered(regions: dict[str, Any], accelerator: Accelerator) -> list[tuple[str, bytes]]:
    """Text after each stage, and the object, of each region."""
    module, found, target = ir.IRModule(regions), [], Target(accelerator)
    for stage in REGION_STAGES:
        module = stage.run(module, target)
        found += [(nameless_text(module[name]), b"") for name in regions]
    return found + [("", dump_object(region_object(module[name], accelerator))) for name in regions]


@pytest.mark.slow
def test_what_does_not_fit_is_not_taken_from_the_cache(tmp_path: Path) -> None:
    """A smaller memory takes smaller tiles, though the larger ones are kept under the same key; a larger one shares."""
    smaller = resized(VTA, lambda memory: memory.depth // 8 if memory.name == "inp" else memory.depth)
    twice = resized(VTA, lambda memory: 2 * memory.depth if memory.name == "inp" else memory.depth)
    run(VTA, tmp_path / "vta", tmp_path / "cache")
    small = run(smaller, tmp_path / "small", tmp_path / "cache")
    cold = run(smaller, tmp_path / "cold")
    assert small.cycles == cold.cycles  # what it takes may have been tried, and kept, for the larger memory
    words = [(tmp_path / name / "instructions.bin").read_bytes() for name in ("vta", "small", "cold")]
    assert words[0] != words[1] == words[2]
    assert [function.cached for function in run(twice, tmp_path / "large", tmp_path / "cache").functions] == [True]


@pytest.mark.slow
def test_a_layer_that_takes_all_of_a_memory_is_kept_for_every_size() -> None:
    """What it takes is worked out for each: else the plan of a larger memory would be that of a smaller one."""
    gemmini = load_accelerator("gemmini")
    conv = region_of(next(iter(packed_regions(conv_model(Conv(16, 16, 8, 8)), gemmini).values())))
    assert isinstance(conv, Region)
    whole = replace(conv.tiling, out_rows=8, out_columns=8, operand_contexts=1, result_contexts=1, layer="conv_loop")
    conv = replace(conv, epilogue=replace(conv.epilogue, steps=(), start="bias"), tiling=whole)
    lowered = lower_region(conv, Target(gemmini))
    assert lowered is not None
    for depth in (gemmini.memories[0].depth // 2, 2 * gemmini.memories[0].depth):
        other = with_depth(gemmini, "spad", depth)
        again = lower_region(conv, Target(other))
        assert again is not None
        assert lowered.made.is_for(other)
        assert lowered.made.placed_buffers(other) == again.made.placed_buffers(other)
        assert {buffer.elements for buffer in again.made.placed_buffers(other)} >= {depth}
    assert not lowered.made.is_for(with_depth(gemmini, "acc", 64))


@pytest.mark.slow
def test_another_size_of_banks_is_linked_from_what_is_kept(tmp_path: Path) -> None:
    """As a job has it: nothing is lowered for a larger scratchpad, and its words are not the first one's."""
    gemmini = load_accelerator("gemmini")
    larger = with_depth(gemmini, "spad", gemmini.memories[0].depth + 64)
    size = larger.memories[0].depth * larger.memories[0].element_bytes
    larger = larger.model_copy(update={"parameters": {**gemmini.parameters, "scratchpad_bytes": size}})
    run(gemmini, tmp_path / "first", tmp_path / "cache")
    again, cold = run(larger, tmp_path / "again", tmp_path / "cache"), run(larger, tmp_path / "cold")
    assert [function.cached for function in again.functions] == [True]
    assert again.cycles == cold.cycles
    words = [(tmp_path / name / "instructions.bin").read_bytes() for name in ("first", "again", "cold")]
    assert words[0] != words[1] == words[2]


def test_kept_words_are_timed_only_where_they_fit(tmp_path: Path) -> None:
    """Else a tiling could be chosen by cycles of a region that has no room."""
    module = lower(block((1, 16, 6, 6), 3), VTA, "pack")
    region = region_of(next(iter(region_functions(module).values())))
    assert region is not None
    cache = FolderCache(tmp_path)
    assert RegionTimer(Target(VTA), cache)(region) is not None
    assert RegionTimer(Target(resized(VTA, lambda memory: 2 * memory.depth)), cache)(region) is not None
    assert RegionTimer(Target(resized(VTA, lambda _: 1)), cache)(region) is None


def test_what_a_key_is_made_of() -> None:
    deeper = resized(VTA, lambda memory: 2 * memory.depth)
    assert VTA.untimed() == slower(VTA).untimed() == dearer(VTA).untimed()
    assert compared_digest(VTA) == compared_digest(dearer(VTA)) != compared_digest(slower(VTA))
    assert VTA.untimed() != deeper.untimed()
    assert VTA.unsized() == slower(deeper).unsized()
