"""The memory plan against the instruction words: what they copy lies where the plan says, while it says so."""

import hashlib
import itertools

import pytest

from accel.accelerator.instructions import Copy
from accel.catalog.load_accelerator import load_accelerator, parse_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.isa.decode import decode
from accel.program.program_model import Launch
from accel.program_files.program_container import load_program
from accel.report.documents.memory_documents import MemoryPlan
from accel.util.content_cache import FolderCache
from examples.single import Conv, conv_model

PADS = ("pad_top", "pad_bottom", "pad_left", "pad_right")


def ran(preset, out, cache=None):
    model = conv_model(Conv(channels=20, filters=40, height=30, width=30, relu=True)).SerializeToString()
    options = Options(trace=False, schedule="quick", verify_seconds=0)
    report = run_model(model, load_accelerator(preset), options, out, cache=cache)
    return report, load_program(out / "program.zip"), MemoryPlan.model_validate_json((out / "memory.json").read_text())


@pytest.mark.parametrize("preset", ["vta", "vector"])
def test_every_copy_is_of_a_buffer_that_is_there(preset, tmp_path):
    report, program, plan = ran(preset, tmp_path)
    accelerator = program.accelerator
    launches = [step for step in program.steps if isinstance(step, Launch)]
    assert [layer.name for layer in plan.layers] == [launch.name for launch in launches]
    assert sum(layer.end_cycle - layer.begin_cycle for layer in plan.layers) == report.cycles
    seen = set()
    for launch, layer in zip(launches, plan.layers, strict=True):
        decoded = decode(accelerator, program.words[launch.begin : launch.begin + launch.count], launch.begin)
        for at, kind in enumerate(decoded.kind.tolist()):
            copy = accelerator.instructions[kind]
            if not isinstance(copy, Copy) or not moves(decoded, copy, at):
                continue
            (found,) = [each for each in layer.allocations if holds(each, decoded, copy, at)]
            assert found.first_instruction <= launch.begin + at <= found.last_instruction
            (segment,) = segments_at(program, decoded, copy, at)
            assert segment in found.tensors
            assert found.role == expected_role(program, copy, segment, found.role)
            seen.add((found.memory, found.role))
    assert {role for _, role in seen} >= {"data", "constant", "result"}


def value(decoded, name, at):
    return int(decoded.column(name)[at]) if name is not None else 0


def moves(decoded, copy, at):
    return value(decoded, copy.copy_fields.rows, at) * value(decoded, copy.copy_fields.columns, at) > 0


def holds(allocation, decoded, copy, at):
    fields = copy.copy_fields
    top, bottom, left, right = (value(decoded, getattr(fields, pad), at) for pad in PADS)
    rows, columns = value(decoded, fields.rows, at), value(decoded, fields.columns, at)
    first = value(decoded, fields.sram, at)
    last = first + (rows + top + bottom) * (columns + left + right)
    return allocation.memory == copy.memory and allocation.begin <= first <= last <= allocation.end


def segments_at(program, decoded, copy, at):
    """The segment that the first byte of a copy lies in."""
    unit = copy.dram_bytes(program.accelerator.memory(copy.memory)) if copy.dram_unit == "element" else 1
    byte = value(decoded, copy.copy_fields.dram, at) * unit
    return [name for name, each in program.segments.items() if each.address <= byte < each.address + each.nbytes]


def expected_role(program, copy, segment, found):
    if copy.direction == "store" or found == "result":
        return "result"
    if segment.endswith(".microops"):
        return "micro-ops"
    return "constant" if segment in program.image and segment not in program.inputs else "data"


@pytest.mark.parametrize("preset", ["vta", "gemmini"])
def test_buffers_do_not_overlap_and_fit(preset, tmp_path):
    _, program, plan = ran(preset, tmp_path)
    depths = {memory.name: memory.elements for memory in plan.memories}
    assert depths == {memory.name: memory.depth for memory in program.accelerator.memories}
    for layer in plan.layers:
        for memory in plan.memories:
            here = sorted((each.begin, each.end) for each in layer.allocations if each.memory == memory.name)
            assert all(before[1] <= after[0] for before, after in itertools.pairwise(here))
            assert here[-1][1] <= depths[memory.name]
        for each in layer.allocations:
            assert layer.begin_cycle <= each.begin_cycle < each.end_cycle <= layer.end_cycle
            assert (each.end - each.begin) % each.copies == 0


@pytest.mark.slow
def test_a_function_from_the_cache_has_the_same_plan(tmp_path):
    plans = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        report, _, plan = ran("vta", tmp_path / name, FolderCache(tmp_path / "cache"))
        plans.append(plan)
    assert all(function.cached for function in report.functions)
    assert plans[0] == plans[1]


def test_the_document_that_was_used_is_kept_under_its_id(tmp_path):
    report, program, _ = ran("vector", tmp_path)
    kept = (tmp_path / "accelerator.json").read_bytes()
    assert hashlib.sha256(kept).hexdigest() == report.provenance.accelerator.id
    assert parse_accelerator(kept) == program.accelerator
