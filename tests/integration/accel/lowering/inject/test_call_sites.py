"""The site of a trace's record is one line of every dump that has its call, and the line names the instruction."""

import re
from collections import defaultdict
from typing import Any

import pytest
from tvm import ir, tirx
from tvm_ffi import structural_mutate

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import load_accelerator
from accel.errors import CompileError
from accel.isa.decode import decode
from accel.lowering.codegen.instruction_encoding import encode
from accel.lowering.codegen.program_linking import emit
from accel.lowering.ir import instruction_calls
from accel.lowering.ir.affine_nest import substitute
from accel.lowering.ir.function_attributes import map_regions
from accel.lowering.ir.tir_walk import collect
from accel.program.program_model import Program
from accel.region.kinds import Region
from accel.simulate.engine import simulate
from accel.trace.trace_builder import make_trace
from examples.single import conv_model
from tests.helpers.marking import rest_all
from tests.helpers.models.build_models import lower, regions
from tests.integration.accel.lowering.codegen.test_region_objects import LAYER, STAGES, Compiled, quantised_resnet8
from tests.unit.accel.util.test_compile_cache import MemoryCache

VTA = load_accelerator("vta")
_WITH_CALLS = list(STAGES)[list(STAGES).index("inject") :]
_FUNCTION = re.compile(r"^    def (\w+)\(", re.MULTILINE)
_CALLED = re.compile(r'T\.call_extern\("int32", "(\w+)"')


def lines(text: str) -> dict[tuple[str, int], list[str]]:
    """What the lines with ``site N`` in a module's text call, by function and N."""
    found = defaultdict(list)
    _, *parts = _FUNCTION.split(text)
    for function, body in zip(parts[::2], parts[1::2], strict=True):
        for line in body.splitlines():
            for site in re.findall(r"\bsite (\d+)\b", line):
                found[function, int(site)] += _CALLED.findall(line)
    return found


def records(program: Program) -> set[tuple[str, int, str, str]]:
    """Function, site, stage and operation of the records of the program's trace."""
    trace = make_trace(program, simulate(program, {}, function=False))
    found = set()
    for record in trace.page(0, len(program.words)):
        origin = record["origin"]
        found.add((origin["function"], origin["site"], origin["stage"], record["op"]))
    return found


def names(accelerator: Accelerator, call: str) -> set[str]:
    """The instructions that a call makes."""
    return {part.name for part in accelerator.parts(accelerator.instruction(call))}


@pytest.mark.slow
@pytest.mark.parametrize("preset", rest_all(["vta", "gemmini", "output-stationary", "vector"]))
def test_every_record_is_at_one_line_of_every_dump(preset: str) -> None:
    accelerator, cache = load_accelerator(preset), MemoryCache()
    model = quantised_resnet8(accelerator)
    for compiled in (Compiled(model, accelerator, cache), Compiled(model, accelerator, cache)):
        traced = records(compiled.program)
        assert len({function for function, *_ in traced}) > 8
        for number, stage in enumerate(_WITH_CALLS):
            text, passes = compiled.texts[stage]
            for shown in (text, *(text for _, text in passes if "call_extern" in text)):
                check(shown, {record for record in traced if _WITH_CALLS.index(record[2]) <= number}, accelerator)


def check(text: str, traced: set[tuple[str, int, str, str]], accelerator: Accelerator) -> None:
    """Every call of ``text`` has a site of its own, and that of each record calls what the record says."""
    called = lines(text)
    assert sum(map(len, called.values())) == text.count("call_extern")
    for function, site, _, op in traced:
        (call,) = called[function, site]
        assert op in names(accelerator, call), (function, site)


def test_a_call_that_a_pass_copies_and_moves_is_at_its_site_still() -> None:
    module = lower(conv_model(LAYER), VTA, "allocate")
    before, after = emit(module, VTA), emit(unrolled(module), VTA)
    assert len(after.origins) > len(before.origins)
    assert where(after) == where(before)
    (function,) = regions(unrolled(module))
    calls = {
        instruction_calls.site_of(call): instruction_calls.parse(call)[0]
        for call in collect(function.body, tirx.Evaluate)
    }
    rows = decode(VTA, after.words).kind
    for origin, kind in zip(after.origin.tolist(), rows.tolist(), strict=True):
        assert calls[after.origins[origin].site] == VTA.instructions[kind].name


def where(program: Program) -> list[tuple[str, int, str, str]]:
    """The origin of each instruction."""
    found = [program.origins[index] for index in program.origin.tolist()]
    return [(origin.function, origin.site, origin.pragma, origin.stage) for origin in found]


def unrolled(module: ir.IRModule) -> ir.IRModule:
    """Every loop replaced by copies of its body."""

    def copied(function: tirx.PrimFunc, _region: Region) -> tirx.PrimFunc:
        def loop(statement: tirx.For, mutator: Any) -> tirx.Stmt:
            values = [tirx.const(value, "int32") for value in range(int(statement.extent))]
            bodies = [mutator.mutate(substitute(statement.body, {statement.loop_var: value})) for value in values]
            return tirx.SeqStmt(bodies) if len(bodies) > 1 else bodies[0]

        return function.with_body(structural_mutate(function.body, (tirx.For, loop)))

    return map_regions(module, copied)


def test_a_call_that_no_stage_numbered_is_refused() -> None:
    body = instruction_calls.call("finish", {})
    with pytest.raises(CompileError, match="a call of finish has no site"):
        encode(tirx.PrimFunc([], body), VTA)
