"""Networks whose layers run as one launch: they compute the same, in fewer cycles, and nothing is left to chance."""

import dataclasses
import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import load_accelerator
from accel.driver import compile_stages
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.errors import SimulationError
from accel.isa.family_registry import family_of
from accel.joining import joined_launches
from accel.joining.joined_launches import join_launches
from accel.program.program_model import Launch
from accel.program_files.program_container import load_program
from accel.simulate.engine import simulate
from examples.graph import Graph
from examples.networks import build
from tests.helpers.models.integer_layers import SCALE, ZERO, convolution
from tests.helpers.programs.race_checks import assert_ordered
from tests.integration.accel.driver.test_random_networks import ACCELERATORS, networks


def ran(model, accelerator, launches):
    """The report, the program and the outputs of a job."""
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory)
        options = Options(trace=False, schedule="quick", launches=launches)
        report = run_model(model.SerializeToString(), accelerator, options, out)
        return report, load_program(out / "program.zip"), dict(np.load(out / "outputs.npz"))


def ran_both_ways(model, accelerator):
    """What :func:`ran` returns of a job that joins launches, and of one of equal tiles that leaves them apart."""
    joined = ran(model, accelerator, "joined")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(compile_stages, "join_launches", lambda program, _family: program)
        return joined, ran(model, accelerator, "joined")


def ran_without(step, instead, model, accelerator):
    """What :func:`ran` returns of a job that joins launches in another way."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(joined_launches, step, instead)
        return ran(model, accelerator, "joined")


def check(model: onnx.ModelProto, accelerator: Accelerator) -> None:
    (joined, program, outputs), (apart, separate, others) = ran_both_ways(model, accelerator)
    assert joined.verified
    assert apart.verified
    for name, output in outputs.items():
        np.testing.assert_array_equal(output, others[name])
    assert joined.timing_model == apart.timing_model
    assert joined.program.launches == apart.program.launches == apart.program.starts
    assert joined.cycles <= apart.cycles
    assert joined.cycles >= joined.bound.cycles
    assert sum(layer.cycles for layer in joined.layers) == joined.cycles
    assert all(layer.utilisation <= 1 for layer in joined.layers)
    assert [layer.bytes_written for layer in joined.layers] == [layer.bytes_written for layer in apart.layers]
    # one table of micro-ops is loaded for all layers
    assert sum(layer.bytes_read for layer in joined.layers) <= sum(layer.bytes_read for layer in apart.layers)
    assert_ordered(program)
    assert join_launches(separate, family_of(accelerator)).words.tobytes() == program.words.tobytes()


@pytest.mark.slow
@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(model=networks(), accelerator=st.sampled_from(ACCELERATORS))
def test_joined_networks_compute_the_same_in_no_more_cycles(model, accelerator):
    check(model, accelerator)


@pytest.mark.all
@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(model=networks(), accelerator=st.sampled_from(ACCELERATORS))
def test_many_joined_networks(model, accelerator):
    check(model, accelerator)


@pytest.mark.slow
def test_what_a_seam_takes_away_is_told_as_a_race_or_a_deadlock():
    """Catches seams whose tokens order nothing, and a check of races that looks at layers one by one."""
    accelerator = load_accelerator("vta")
    _, program, _ = ran(build("autoencoder"), accelerator, "joined")
    assert sum(not step.joined for step in program.steps if hasattr(step, "joined")) == 1
    assert not simulate(program, {}).hazards.races
    second = next(step for step in program.steps if getattr(step, "joined", False))
    fields = {name: accelerator.field(accelerator.instructions[0], name) for name in ("pop_next", "push_prev")}
    found = []
    for row in range(second.begin, second.begin + 6):
        for field in fields.values():
            words = program.words.copy()
            words[row, field.lsb // 64] &= ~np.uint64(1 << field.lsb % 64)
            if (words == program.words).all():
                continue
            try:
                found.append(bool(simulate(dataclasses.replace(program, words=words), {}).hazards.races))
            except SimulationError as error:
                found.append(error.kind == "deadlock")
    assert found
    assert all(found)


@pytest.mark.slow
def test_what_is_put_between_takes_the_token_that_it_passes_on():
    """Catches a relay ahead of an instruction that was to take an earlier token: it would take that one."""
    report, program, _ = ran(build("visual_wake_words"), load_accelerator("vta-32"), "joined")
    assert report.verified
    assert_ordered(program)


@pytest.mark.slow
def test_layers_have_places_of_their_own_and_end_in_parts():
    """Catches layers that wait for the one before to leave the chip, for its whole last tile, or for micro-ops.

    And tilings that are chosen as if each had its beginning and its end to itself, and a first product that waits for
    what its epilogue needs.
    """
    network, accelerator = build("keyword_spotting"), load_accelerator("vta")
    (report, program, _), (_, separate, _) = ran_both_ways(network, accelerator)
    apart, _, _ = ran(network, accelerator, "separate")
    assert_ordered(program)
    tables = {step.inputs[-1] for step in program.steps if hasattr(step, "joined")}
    assert len(tables) == 1
    assert not tables & separate.segments.keys()
    assert any(step.moved for step in program.steps if hasattr(step, "joined"))
    assert len(program.words) > len(separate.words)  # ends in parts
    assert report.cycles <= 1.1 * report.bound.cycles <= 0.9 * apart.cycles
    late, _, _ = ran_without("with_needed_first", lambda launch: launch, network, accelerator)
    assert report.cycles < late.cycles


@pytest.mark.slow
def test_weights_are_loaded_ahead_of_other_launches():
    """Catches a dense layer's weights behind a pooling that waits for the last store, and more contexts that race."""
    random, graph = np.random.default_rng(0), Graph("ahead")
    x = graph.input("x", (1, 64, 14, 14))
    kernel = graph.constant("kernel", random.normal(0, 0.05, (128, 64, 3, 3)).astype(np.float32))
    x = graph.node(
        "Flatten", "flat", [graph.node("GlobalAveragePool", "mean", [graph.node("Conv", "conv", [x, kernel])])]
    )
    dense = graph.constant("dense", random.normal(0, 0.1, (128, 512)).astype(np.float32))
    graph.output(graph.node("MatMul", "last", [x, dense]), (1, 512))
    accelerator = load_accelerator("vta")
    report, program, outputs = ran(graph.model(), accelerator, "joined")
    assert report.verified
    assert_ordered(program)
    loaded = 512 * 128 / accelerator.dram.bus_bytes  # cycles
    behind, _, others = ran_without("with_prefetched_loads", lambda *_: None, graph.model(), accelerator)
    assert report.cycles < behind.cycles - 0.8 * loaded
    for name, output in outputs.items():
        np.testing.assert_array_equal(output, others[name])
    conv, *_, last = (step for step in program.steps if isinstance(step, Launch))
    own = {program.origins[at].function for at in program.origin[last.begin : last.begin + last.count]}
    ahead = {program.origins[at].function for at in program.origin[conv.begin : conv.begin + conv.count]}
    assert own & ahead


def chain(channels: tuple[int, ...], side: int) -> onnx.ModelProto:
    """Convolutions of single pixels one after the other."""
    random, graph = np.random.default_rng(0), Graph("chain")
    x = graph.input("x", (1, channels[0], side, side))
    for number, (taken, made) in enumerate(pairwise(channels)):
        kernel = graph.constant(f"kernel{number}", random.normal(0, 0.1, (made, taken, 1, 1)).astype(np.float32))
        bias = graph.constant(f"bias{number}", random.normal(size=made).astype(np.float32))
        x = graph.node("Relu", f"relu{number}", [graph.node("Conv", f"conv{number}", [x, kernel, bias])])
    graph.output(x, (1, channels[-1], side, side))
    return graph.model()


def test_what_goes_ahead_in_its_own_launch_is_waited_for():
    """Catches a load put where another one stood that has gone too, and took the token that both were waited for by."""
    report, program, _ = ran(chain((80, 80, 184), 14), load_accelerator("vta"), "joined")
    assert report.verified
    assert_ordered(program)


@pytest.mark.all
@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.sampled_from([16, 40, 80, 112, 184, 240, 320]), min_size=3, max_size=5).map(tuple),
    st.sampled_from([7, 10, 14, 20]),
    st.sampled_from(["vta", "vta-8", "vta-32", "vta-small", "vta-ultra96"]),
)
def test_many_chains(channels: tuple[int, ...], side: int, name: str) -> None:
    """Catches loads that go ahead, in launches whose weights have many tiles, unordered with what reads them."""
    report, program, _ = ran(chain(channels, side), load_accelerator(name), "joined")
    assert report.verified
    assert_ordered(program)


def with_outputs_between() -> onnx.ModelProto:
    """Three convolutions of which each result is an output, read by the next one too."""
    graph, random = Graph("taps"), np.random.default_rng(0)
    data = graph.dequantize(graph.input("x", (1, 16, 6, 6), TensorProto.INT8), SCALE, ZERO)
    for name in "abc":
        data = convolution(graph, name, data, random.integers(-8, 8, (16, 16, 1, 1), dtype=np.int8))
        graph.output(data, (1, 16, 6, 6))
    return graph.model()


@pytest.mark.parametrize("name", ["vta", "gemmini"])
def test_what_the_host_does_for_outputs_stands_behind_all_launches(name: str) -> None:
    """Catches launches that are parted by a host step of which none of them reads anything."""
    report, program, _ = ran(with_outputs_between(), load_accelerator(name), "joined")
    assert report.verified
    launches = [place for place, step in enumerate(program.steps) if isinstance(step, Launch)]
    assert [step.joined for step in program.steps if isinstance(step, Launch)] == [False, True, True]
    assert launches == list(range(launches[0], launches[0] + 3))


def test_borders_of_results_are_not_compulsory() -> None:
    """Catches more bytes said to be written at least than are: what readers pad with is in DRAM before the run."""
    graph = Graph("padded")
    data = graph.dequantize(graph.input("x", (1, 16, 6, 6), TensorProto.INT8), SCALE, ZERO)
    for name in "ab":
        data = convolution(graph, name, data, np.ones((16, 16, 3, 3), np.int8), pads=[1] * 4)
        graph.output(data, (1, 16, 6, 6))
    report, program, _ = ran(graph.model(), load_accelerator("gemmini"), "joined")
    results = [program.segments[name] for step in program.steps if isinstance(step, Launch) for name in step.outputs]
    assert sum(each.nbytes for each in results) > 2 * 16 * 6 * 6  # the first lies within a border
    assert report.dram.compulsory_written == report.dram.bytes_written == 2 * 16 * 6 * 6
