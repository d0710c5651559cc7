"""What limits a program: the changed resource is that of the document, and the cycles are the clock's own."""

import copy
import dataclasses
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from accel.catalog.load_accelerator import check_accelerator, load_accelerator, parse_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options, SimulateOptions
from accel.driver.run_program import run_program
from accel.isa.family_registry import family_of
from accel.isa.variations import OfLaunch
from accel.program.program_model import Launch
from accel.program_files.program_container import load_program
from accel.report import program_limits
from accel.report.layer_report import layers_of, machine_of
from accel.report.program_limits import limits_of
from accel.simulate.engine import simulate
from examples.single import Conv, conv_model
from tests.helpers.programs.streams import small_program, stream
from tests.reference.encode import encode

EXPECTED = {
    "vta": {"the bus", "the read latency", "the reads in flight", "the fetch", "the instruction queues"}
    | {"gemm", "alu", "store_out"},
    "gemmini": {"the bus", "the memory latency", "the requests in flight", "the reservation station"},
    "vector": {"the bus", "the read latency", "the window", "the ports of the memories"}
    | {"the load unit", "the vector unit", "the store unit"},
}


@pytest.fixture(scope="module", params=["vta", "gemmini", "vector"])
def ran(request, tmp_path_factory):
    """A convolution on a preset of each family, as it ran."""
    out = tmp_path_factory.mktemp(request.param)
    model = conv_model(Conv(channels=20, filters=33, height=9, width=8)).SerializeToString()
    report = run_model(model, load_accelerator(request.param), Options(trace=False, schedule="quick"), out)
    program = load_program(out / "program.zip")
    return request.param, program, report


@pytest.mark.slow
def test_each_change_is_what_a_job_on_that_document_would_take(ran):
    preset, program, report = ran
    limits = report.limits
    assert {change.resource for change in limits.changes} == EXPECTED[preset]
    assert limits.left_out is None
    document = program.accelerator.model_dump(mode="json")
    document["parameters"] = family_of(program.accelerator).parameters(**program.accelerator.parameters).model_dump()
    compared = 0
    for change in limits.changes:
        assert change.gain == pytest.approx(1 - change.cycles / report.cycles)
        assert sum(change.layers) == change.cycles
        if not change.fields:
            continue
        changed = program_of(document, change.fields)
        check_accelerator(changed)  # a whole document, which a user could write
        timed = simulate(dataclasses.replace(program, accelerator=changed), {}, function=False)
        assert timed.cycles == change.cycles
        compared += 1
    assert compared >= 4


def program_of(document, fields):
    """The document with other values at JSON pointers; all of them were what the report says."""
    changed = copy.deepcopy(document)
    for each in fields:
        *path, last = each.field.split("/")[1:]
        parent = changed
        for part in path:
            parent = parent[int(part)] if isinstance(parent, list) else parent[part]
        assert parent[last] == each.before
        parent[last] = each.after
    return parse_accelerator(changed)


def test_the_sentence_is_of_the_change_that_saves_most(ran):
    _, _, report = ran
    best, *others = report.limits.changes
    assert all(best.cycles <= other.cycles for other in others)
    share = f"{1 - best.cycles / report.cycles:.1%}"
    assert report.limits.sentence == f"bound by {best.resource}: with {best.change} it would take {share} fewer cycles"


def test_half_the_cycles_of_an_instruction_leaves_at_most_half_its_busy_cycles_less():
    program = small_program()
    simulation = simulate(program, {"x": np.zeros((4, 16), np.int8)})
    limits = limits_of(program, simulation)
    changes = {change.resource: change for change in limits.changes}
    busy = sum(result.account.units["compute"]["busy"]["alu"] for result in simulation.launches)
    assert 0 < simulation.cycles - changes["alu"].cycles <= busy // 2
    assert changes["gemm"].cycles == simulation.cycles  # it runs none


def test_what_is_left_out_for_the_size_is_named(monkeypatch):
    program = small_program()
    simulation = simulate(program, {"x": np.zeros((4, 16), np.int8)})
    monkeypatch.setattr(program_limits, "MOST_PIECES", 3 * len(program.words))
    limits = limits_of(program, simulation)
    assert {change.resource for change in limits.changes} == {"the bus", "the read latency", "the reads in flight"}
    assert "memory" in simulation.launches[0].account.total  # most of it, so that those are tried which may ease it
    assert limits.left_out == "5 of 8 changes were not tried, as the program is large: ask for all"
    assert len(limits_of(program, simulation, every=True).changes) == 8
    for wanted, count in (("some", 3), ("all", 8)):
        report = run_program(program, SimulateOptions(limits=wanted), None)
        assert len(report.limits.changes) == count
    monkeypatch.setattr(program_limits, "MOST_PIECES", 1)
    assert (limits_of(program, simulation).sentence, limits_of(program, simulation).changes) == (None, [])


def test_a_large_program_is_not_timed_with_what_its_account_has_too_little_of(monkeypatch):
    program = small_program()
    simulation = simulate(program, {"x": np.zeros((4, 16), np.int8)})
    account = simulation.launches[0].account.total
    memory = sum(account["memory"].values())
    monkeypatch.setattr(program_limits, "MOST_PIECES", 7 * len(program.words))  # of the eight known
    monkeypatch.setattr(program_limits, "_LITTLE", memory / simulation.cycles)
    assert {change.resource for change in limits_of(program, simulation).changes} == {
        "the bus",
        "the read latency",
        "the reads in flight",
    }
    monkeypatch.setattr(program_limits, "_LITTLE", 1.01)
    limits = limits_of(program, simulation)
    assert limits.sentence == "no known change eases as much as 101% of the cycles, by their account"
    assert limits.left_out == "8 of 8 changes were not tried, as the program is large: ask for all"
    assert len(limits_of(program, simulation, every=True).changes) == 8


def test_tokens_are_there_that_the_program_starts_with_or_a_launch_leaves():
    accelerator = load_accelerator("vta")
    takes, sends = ("load_inp", {"pop_next": 1}), ("load_uop", {"push_prev": 1})
    first, second = [takes, sends, ("finish", {})], [takes, ("finish", {})]
    program = dataclasses.replace(
        small_program(),
        accelerator=accelerator,
        words=encode(stream(accelerator, [*first, *second])),
        steps=(launch("first", 0, 3), launch("second", 3, 2)),
        initial_tokens={"compute_to_load": 1},
    )
    simulation = simulate(program, {}, function=False)
    changes = {change.resource: change for change in limits_of(program, simulation).changes}
    assert len(changes) == 8  # without them the clock stands still, and a change would not be told
    assert changes["gemm"].layers == [result.timing.cycles for result in simulation.launches]


def launch(name, begin, count):
    return Launch(name=name, op="", nodes=(), begin=begin, count=count, macs=0, inputs=(), outputs=())


def test_a_layer_lies_under_the_roofline(ran):
    preset, program, report = ran
    (layer,) = report.layers
    roofline, machine = layer.roofline, report.machine
    moved = max(layer.bytes_read, layer.bytes_written)
    assert machine.bus_bytes_per_cycle == {"vta": 8, "gemmini": 16, "vector": 64}[preset]
    assert roofline.intensity == layer.macs / moved
    bus = machine.bus_bytes_per_cycle
    assert roofline.attainable == pytest.approx(min(roofline.peak, roofline.intensity * bus), rel=0.01)
    assert 0 < roofline.achieved == layer.macs / layer.cycles <= roofline.attainable
    assert roofline.peak <= machine.peak_macs_per_cycle <= {"vta": 256, "gemmini": 256, "vector": 64}[preset]
    assert report.seconds == report.cycles / (program.accelerator.clock_mhz * 1e6)


def test_a_program_whose_cycles_were_not_counted_has_no_speed():
    program = small_program()
    simulation = simulate(program, {"x": np.zeros((4, 16), np.int8)}, timing=False)
    layers = layers_of(simulation, program.accelerator)
    assert [(layer.account, layer.roofline.achieved) for layer in layers] == [(None, None)] * 2
    assert machine_of(layers, simulation, program.accelerator).peak_macs_per_cycle == 256


def test_a_family_that_was_written_before_there_were_changes_says_so(monkeypatch):
    program = small_program()
    simulation = simulate(program, {"x": np.zeros((4, 16), np.int8)})
    monkeypatch.setattr(program_limits, "family_of", lambda _: object())
    limits = limits_of(program, simulation)
    assert (limits.changes, limits.left_out) == ([], "the family vta names nothing that could be changed")


def test_what_variations_share_is_of_the_launch_at_hand():
    """Catches a variation that is timed with what another launch accesses."""
    computed = []
    shared = OfLaunch(lambda decoded: computed.append(decoded) or len(decoded))
    program = small_program()
    launches = [result.decoded for result in simulate(program, {"x": np.zeros((4, 16), np.int8)}).launches]
    with ThreadPoolExecutor(2) as pool:
        for decoded in launches:
            assert set(pool.map(shared, [decoded] * 4)) == {len(decoded)}
    assert list(map(id, computed)) == list(map(id, launches))
