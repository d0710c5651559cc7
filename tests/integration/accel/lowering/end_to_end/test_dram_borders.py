"""Results within a border in DRAM: what readers pad is there beforehand, no host pads between two launches."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accel.accelerator.target import Target
from accel.catalog.load_accelerator import load_accelerator
from accel.driver.fault_localization import locate_fault
from accel.driver.quantisation_scheme import scheme_of
from accel.driver.run_options import QuantisationOptions
from accel.frontend.quantize.quantize_model import ensure_quantised
from accel.lowering.ir.host_runs import HostRun, split_main
from accel.program.program_model import HostStep, Launch, Program
from accel.simulate.engine import Simulation, simulate
from accel.simulate.machine_state import segment_view
from accel.verify.output_comparison import sqnr_db
from examples.graph import Graph
from examples.networks import build as example
from tests.helpers.marking import rest_all, rest_slow, share
from tests.helpers.models.build_models import build, imported, lower
from tests.helpers.models.padded_readers import PaddedImage, Reader, padded_image_model, padded_images
from tests.helpers.programs.race_checks import assert_ordered
from tests.reference import dyadic
from tests.reference.host import draw_inputs, run_onnx, run_relax

_KINDS = {"vta": ("conv", "sum", "max"), "gemmini": ("conv",)}
_BOTH = PaddedImage(1, 16, 12, 9, -128, (Reader("conv"), Reader("conv", 5, (2, 0, 1, 2)), Reader("conv", 1, (0,) * 4)))


def pads_between(program: Program) -> int:
    """The host's steps that pad what a launch made."""
    launches = [at for at, step in enumerate(program.steps) if isinstance(step, Launch)]
    between = [step for step in program.steps[launches[0] : launches[-1]] if isinstance(step, HostStep)]
    return sum(node["op"] == "Pad" for step in between for node in json.loads(step.module)["nodes"])


def borders(program: Program) -> list[str]:
    """The results of launches that have something around them before the run."""
    return [
        name for step in program.steps if isinstance(step, Launch) for name in step.outputs if name in program.image
    ]


def one_wish(image: PaddedImage) -> bool:
    """Whether all readers want one number around it: a maximum wants the least, others the zero point."""
    wanted = {reader.kind == "max" for reader in image.readers if any(reader.pads)}
    return image.zero_point == -128 or len(wanted) < 2


def ran(model: onnx.ModelProto, preset: str) -> tuple[Program, Simulation, list[np.ndarray]]:
    accelerator, inputs = load_accelerator(preset), draw_inputs(model)
    program = build(model, accelerator)
    simulation = simulate(program, dict(zip(program.inputs, inputs.values(), strict=True)))
    return program, simulation, run_relax(imported(model, accelerator), *inputs.values())


def rows_axis(preset: str) -> int:
    """The axis of an image's rows in DRAM, before that of its columns: Gemmini's blocks of channels lie behind them."""
    return 1 if preset.startswith("gemmini") else 2


def check(image: PaddedImage, preset: str, seed: int) -> Program:
    """The outputs are exact, and what lay around each result before the run lies there after it."""
    model = padded_image_model(image, seed)
    program, simulation, reference = ran(model, preset)
    for name, expected in zip(program.outputs, reference, strict=True):
        np.testing.assert_array_equal(simulation.outputs[name], expected)
    if preset.startswith("vta"):
        assert_ordered(program)
        independent = dyadic.run(model, draw_inputs(model), balances=True)
        for name, output in zip(program.outputs, model.graph.output, strict=True):
            np.testing.assert_array_equal(simulation.outputs[name], independent[output.name])
    for name in borders(program):
        before, after = program.image[name], segment_view(simulation.dram, program.segments[name])
        assert len(np.unique(before)) == 1
        if one_wish(image):
            top, left = (max(reader.pads[side] for reader in image.readers) for side in (0, 1))
            rows = rows_axis(preset)
            inside = after[(slice(None),) * rows + (slice(top, top + image.height), slice(left, left + image.width))]
            assert (inside != before.flat[0]).any(), "the launch stores there"
            inside[...] = before.flat[0]
            np.testing.assert_array_equal(after, before)
    return program


@pytest.mark.slow
@pytest.mark.parametrize("preset", rest_all(["vta", "vta-small"]))
@settings(max_examples=share(16), deadline=None, suppress_health_check=list(HealthCheck))
@given(image=padded_images((-128, -128, -37, 0), _KINDS["vta"]), seed=st.integers(0, 99))
def test_readers_of_any_padding(preset: str, image: PaddedImage, seed: int) -> None:
    """It would catch a window that begins elsewhere, a store that writes on a border, and a border of another number.

    Where a maximum and a sum of products want other numbers around an image, the host pads for one of them.
    """
    program = check(image, preset, seed)
    if one_wish(image):
        assert pads_between(program) == 0


@pytest.mark.slow
@pytest.mark.parametrize("preset", rest_all(["gemmini", "gemmini-8"]))
@settings(max_examples=share(12), deadline=None, suppress_health_check=list(HealthCheck))
@given(image=padded_images((-128,), _KINDS["gemmini"]), seed=st.integers(0, 99))
def test_readers_on_machines_whose_loads_cannot_pad(preset: str, image: PaddedImage, seed: int) -> None:
    """The relus clip at -128, as the machine's stores do, so that nothing else is left to the host."""
    check(image, preset, seed)


@pytest.mark.parametrize("preset", ["vta", "gemmini"])
def test_readers_of_one_image_share_its_border(preset: str) -> None:
    """The border is as wide as any of them wants on each side; who wants less, or none, reads a window of it."""
    program = check(_BOTH, preset, 5)
    assert pads_between(program) == 0
    (name,) = borders(program)
    rows = rows_axis(preset)
    assert program.segments[name].shape[rows : rows + 2] == (2 + 12 + 1, 1 + 9 + 2)
    assert (program.image[name] == -128).all()
    assert name not in program.constants, "a launch writes it"
    launches = [step for step in program.steps if isinstance(step, Launch)]
    assert sum(name in launch.inputs for launch in launches) == 3


@pytest.mark.slow
def test_a_border_is_nobody_elses_memory() -> None:
    """It would catch a tensor that lies in another's border."""
    program = check(replace(_BOTH, shown=True), "vta", 6)
    spans = sorted((segment.address, segment.address + segment.nbytes) for segment in program.segments.values())
    assert all(end <= begin for (_, end), (begin, _) in pairwise(spans))
    (name,) = borders(program)
    image, segment = program.image[name], program.segments[name]
    assert image.nbytes == segment.nbytes


@pytest.mark.slow
def test_another_run_finds_the_border() -> None:
    """A program may run again on what the run before left in DRAM; it would catch a border that a launch overwrites."""
    model = padded_image_model(_BOTH, 7)
    program, first, reference = ran(model, "vta")
    left = {name: segment_view(first.dram, program.segments[name]).copy() for name in borders(program)}
    again = replace(program, image={**program.image, **left})
    inputs = dict(zip(program.inputs, draw_inputs(model).values(), strict=True))
    second = simulate(again, inputs)
    for name, expected in zip(program.outputs, reference, strict=True):
        np.testing.assert_array_equal(second.outputs[name], expected)


@pytest.mark.slow
def test_a_fault_is_looked_for_within_borders() -> None:
    """It would catch a comparison that takes the border for what a launch should have stored."""
    model, accelerator = padded_image_model(_BOTH, 8), load_accelerator("vta")
    packed = lower(model, accelerator, "pack")
    program = build(model, accelerator)
    inputs = dict(zip(program.inputs, draw_inputs(model).values(), strict=True))
    assert borders(program)
    assert locate_fault(packed, program, simulate(program, inputs), inputs) is None


@pytest.mark.parametrize(
    ("preset", "name"),
    [("gemmini", "resnet8"), *rest_slow([("vta", "resnet8"), ("gemmini", "visual_wake_words")], keep=0)],
)
def test_networks_have_no_step_of_the_host_between_launches(preset: str, name: str) -> None:
    """The host quantises the image and pads it in one step, and has the softmax at the end."""
    target = Target(load_accelerator(preset))
    model = ensure_quantised(example(name), scheme=scheme_of(target, QuantisationOptions()))
    runs = split_main(lower(model, target.accelerator, "pack"))
    assert [at for at, run in enumerate(runs) if isinstance(run, HostRun)] == [0, len(runs) - 1]


def stacked(kernel: int = 3) -> onnx.ModelProto:
    """Float32: convolutions that pad, each behind a relu, as of a U-Net on one level."""
    graph, random = Graph("stacked"), np.random.default_rng(11)
    x, channels = graph.input("x", (1, 3, 24, 24)), 3
    for number in range(5):
        size = (16, channels, kernel, kernel)
        weight = random.normal(0, (2 / (channels * kernel**2)) ** 0.5, size).astype(np.float32)
        made = graph.node("Conv", f"conv{number}", [x, graph.constant(f"w{number}", weight)], pads=[kernel // 2] * 4)
        x, channels = graph.node("Relu", f"relu{number}", [made]), 16
    graph.output(x, (1, 16, 24, 24))
    return graph.model()


@pytest.mark.slow
def test_what_is_padded_has_all_levels_on_machines_that_shift() -> None:
    """It would catch relus ahead of padded convolutions with half of the levels: 2 dB of five layers."""
    target, model, random = Target(load_accelerator("vta")), stacked(), np.random.default_rng(12)
    samples = random.normal(size=(4, 1, 3, 24, 24)).astype(np.float32)
    accuracy = {}
    for which in ("unpadded", "auto"):
        options = QuantisationOptions.model_validate({"zero_points": which})
        scheme = scheme_of(target, options)
        quantised = ensure_quantised(model, {"x": samples}, scheme=scheme)
        graph = imported(quantised, target.accelerator)
        (found,) = zip(*(run_relax(graph, sample) for sample in samples), strict=True)
        (wanted,) = zip(*(run_onnx(model, {"x": sample}) for sample in samples), strict=True)
        accuracy[which] = sqnr_db(np.stack(found), np.stack(wanted))
        assert pads_between(build(quantised, target.accelerator)) == 0
    assert accuracy["auto"] > accuracy["unpadded"] + 1.5
