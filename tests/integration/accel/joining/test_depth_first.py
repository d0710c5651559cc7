"""Layers that run stripe by stripe: the same numbers in any order of tiles, and taken where it is better alone."""

import dataclasses
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import load_accelerator, parse_accelerator
from accel.driver import compile_stages
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.isa.family import Family, ResidentRow
from accel.isa.family_registry import family_of
from accel.joining import resident_tensors
from accel.joining.depth_first import Chain, StripedRow
from accel.joining.striped_trials import StripedTrials
from accel.program.program_model import Launch, Program
from accel.program_files.program_container import load_program
from accel.program_files.program_validation import check_program
from accel.report.documents.report_documents import Report
from accel.simulate.engine import simulate
from examples.graph import Graph

MACHINES = Path(__file__).parents[4] / "docs" / "machines"


def machine(name: str, *texts: tuple[str, str]) -> Accelerator:
    """A document of docs/machines with other texts; each old one is there."""
    text = (MACHINES / f"{name}.yaml").read_text(encoding="utf-8")
    for old, new in texts:
        assert old in text
        text = text.replace(old, new)
    return parse_accelerator(text.encode())


def with_floats(accelerator: Accelerator) -> Accelerator:
    """A document with the float32 memory and the vector unit of ``float-array``, in larger words."""
    machine, other = (
        each.model_dump(mode="json", exclude_none=True)
        for each in (accelerator, parse_accelerator((MACHINES / "float-array.yaml").read_bytes()))
    )
    machine["memories"] += [memory for memory in other["memories"] if memory["name"] == "v"]
    machine["units"].append("vector")
    for each in other["instructions"]:
        if each["name"].startswith(("load_v", "store_v", "vector")):
            each["unit"] = "output" if each["unit"] == "store" else each["unit"]
            each["fields"][0]["value"] += 100  # opcodes of its own
            machine["instructions"].append(each)
    return parse_accelerator(machine | {"name": "feature-memory-floats", "word_bits": other["word_bits"]})


SMALL = machine("feature-memory", ("depth: 8192 # 128 KiB", "depth: 1024"), ("depth: 1024 # 64 KiB", "depth: 256"))
LARGE = machine("feature-memory", ("depth: 1024 # 64 KiB", "depth: 256"))
IN_ORDER = machine(
    "feature-memory", ("depth: 8192 # 128 KiB", "depth: 1024"), ("kind: hazards\n  window: 16", "kind: in_order")
)
TPU = machine("tpu-v1", ("[256, 256]", "[8, 8]"), ("[256]", "[8]"), ("depth: 98304", "depth: 600"), ("4096", "128"))
RANDOM = {"small": SMALL, "large": LARGE, "in order": IN_ORDER, "8 lanes": TPU}


@st.composite
def chains(draw: st.DrawFn) -> onnx.ModelProto:
    """Two to four layers of any kernels, strides, dilations, padding and groups, poolings and additions among them."""
    random, graph = np.random.default_rng(draw(st.integers(0, 999))), Graph("chain")
    channels, height, width = draw(st.sampled_from([3, 8, 16, 24])), draw(st.integers(9, 24)), draw(st.integers(7, 24))
    x = graph.input("x", (draw(st.integers(1, 2)), channels, height, width))
    for number in range(draw(st.integers(2, 4))):
        kernel, stride, dilation = draw(
            st.sampled_from([(1, 1, 1), (3, 1, 1), (3, 2, 1), (3, 1, 2), (5, 1, 1), (2, 2, 1)])
        )
        reach = dilation * (kernel - 1)
        pads = [draw(st.integers(0, min(reach, 2))) for _ in range(4)]
        size = [
            (each + before + after - reach - 1) // stride + 1
            for each, before, after in ((height, pads[0], pads[2]), (width, pads[1], pads[3]))
        ]
        if min(size) < 2:
            break
        if kernel == 2 and draw(st.booleans()):
            made, filters = (
                graph.node("AveragePool", f"pool{number}", [x], kernel_shape=[2, 2], strides=[2, 2]),
                channels,
            )
            size = [height // 2, width // 2]
        else:
            groups = draw(st.sampled_from([1, 1, channels]))
            filters = channels if groups > 1 else draw(st.integers(1, 40))
            shape = (filters, channels // groups, kernel, kernel)
            values = random.normal(0, (channels // groups * kernel**2) ** -0.5, shape).astype(np.float32)
            made = graph.node(
                "Conv", f"conv{number}", [x, graph.constant(f"w{number}", values)], pads=pads, strides=[stride] * 2,
                dilations=[dilation] * 2, group=groups,
            )  # fmt: skip
            made = graph.node("Relu", f"relu{number}", [made]) if draw(st.booleans()) else made
        if (filters, *size) == (channels, height, width) and draw(st.booleans()):
            made = graph.node("Add", f"add{number}", [made, x])
        x, channels, (height, width) = made, filters, size
    graph.output(graph.node("GlobalAveragePool", "mean", [x]), ("N", channels, 1, 1))
    return graph.model()


def three_layers(size: int = 32, last: str | None = None) -> onnx.ModelProto:
    """Convolutions of 16 channels, none of whose results fits into the small memory; ``last`` is an operator behind."""
    random, graph = np.random.default_rng(0), Graph("three")
    x = graph.input("x", (1, 16, size, size))
    for number in range(3):
        weights = graph.constant(f"w{number}", random.normal(0, 0.1, (16, 16, 3, 3)).astype(np.float32))
        x = graph.node("Relu", f"relu{number}", [graph.node("Conv", f"conv{number}", [x, weights], pads=[1] * 4)])
    x = graph.node("GlobalAveragePool", "mean", [x])
    graph.output(x if last is None else graph.node(last, "last", [x]), (1, 16, 1, 1))
    return graph.model()


def ran(model: onnx.ModelProto, accelerator: Accelerator, out: Path, depth_first: str = "auto") -> Report:
    out.mkdir(exist_ok=True)
    options = Options.model_validate({"trace": False, "schedule": "quick", "depth_first": depth_first})
    report = run_model(model.SerializeToString(), accelerator, options, out)
    assert report.verified
    return report


class AnyStripes(StripedTrials):
    """Takes launches at random in any number of stripes, whatever they cost."""

    random = np.random.default_rng(0)

    def best(self) -> tuple[ResidentRow, StripedRow] | None:
        if self._tiled.launches < 2:
            return None
        first, last = sorted(self.random.choice(self._tiled.launches, 2, replace=False).tolist())
        self._chains = [Chain(first, last, int(self.random.integers(2, 9)))]
        order = self._tiled.ordered(self._chains)
        found = self._row.chosen(self._tiled.words(order.place))
        return None if found is None else (found, order)


def program_in_dram(model: onnx.ModelProto, accelerator: Accelerator) -> Program:
    """The program of a verified run with all results in DRAM, and its inputs."""
    seen: list[Program] = []

    def spied(program: Program, family: Family, **options: Any) -> Program:
        seen.append(program)
        return resident_tensors.keep_results(program, family, **options)

    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patched:
        patched.setattr(compile_stages, "keep_results", spied)
        ran(model, accelerator, Path(directory), "off")
    return seen[0]


def check_any_order(model: onnx.ModelProto, accelerator: Accelerator, seed: int, orders: int) -> None:
    AnyStripes.random = np.random.default_rng(seed)
    program = program_in_dram(model, accelerator)
    expected = simulate(program, {}, timing=False)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(resident_tensors, "StripedTrials", AnyStripes)
        patched.setattr(resident_tensors, "_fit", lambda *_: False)
        for _ in range(orders):
            kept = resident_tensors.keep_results(program, family_of(accelerator))
            check_program(kept)
            found = simulate(kept, {})
            assert found.hazards is None or not (found.hazards.races or found.hazards.stale)
            for name, output in expected.outputs.items():
                np.testing.assert_array_equal(found.outputs[name], output)
            launches = [[each for each in made.steps if isinstance(each, Launch)] for made in (kept, program)]
            assert len({each.name for each in launches[0]}) == len(launches[0])
            assert len({sum(each.macs for each in of) for of in launches}) == 1


@pytest.mark.slow
@settings(max_examples=1, deadline=None, suppress_health_check=list(HealthCheck))
@given(model=chains(), name=st.sampled_from(sorted(RANDOM)), seed=st.integers(0, 99))
def test_any_order_of_stripes(model: onnx.ModelProto, name: str, seed: int) -> None:
    """Catches tiles that run before what they need, rows that a later stripe overwrites, and borders out of place."""
    check_any_order(model, RANDOM[name], seed, 4)


@pytest.mark.all
@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(model=chains(), name=st.sampled_from(sorted(RANDOM)), seed=st.integers(0, 99))
def test_many_orders_of_stripes(model: onnx.ModelProto, name: str, seed: int) -> None:
    check_any_order(model, RANDOM[name], seed, 10)


@pytest.mark.slow
def test_stripes_where_results_do_not_fit(tmp_path: Path) -> None:
    """Catches stripes that are not found, that are taken where all fits, and figures that are none of the runs."""
    layered, striped = (ran(three_layers(), SMALL, tmp_path / way, way) for way in ("off", "auto"))
    assert not layered.dram.depth_first
    assert striped.cycles < layered.cycles
    assert (striped.dram.bytes_read, striped.dram.bytes_written) < (layered.dram.bytes_read, layered.dram.bytes_written)
    (chain,) = striped.dram.depth_first
    assert chain.cycles < chain.layered_cycles
    assert {layer.name.split("#")[0] for layer in striped.layers if "#" in layer.name} <= set(chain.launches)
    assert striped.bound.cycles <= striped.cycles
    assert not ran(three_layers(), LARGE, tmp_path / "large").dram.depth_first


@pytest.mark.all
def test_results_of_floats_are_compared_where_launches_are_cut(tmp_path: Path) -> None:
    """Catches bounds that are held against another launch's result, as the launches of stripes are more than layers."""
    report = ran(three_layers(last="Sigmoid"), with_floats(SMALL), tmp_path)
    assert report.dram.depth_first
    assert sum("#" in layer.name for layer in report.layers) > 3
    assert [(each.elements, each.independent) for each in report.floats] == [(16 * 32 * 32, True), (16, True)]
    assert 0 < report.floats[1].bound_used < 1


@pytest.mark.slow
def test_a_machine_whose_results_go_to_dram_is_left_alone(tmp_path: Path) -> None:
    """Catches an order that changes where nothing can stay."""
    for way in ("always", "off"):
        ran(three_layers(8), load_accelerator("mvin-mvout"), tmp_path / way, way)
    one, other = (load_program(tmp_path / way / "program.zip") for way in ("always", "off"))
    assert one.words.tobytes() == other.words.tobytes()
    assert [dataclasses.astuple(step) for step in one.steps] == [dataclasses.astuple(step) for step in other.steps]
