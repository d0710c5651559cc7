"""Random small networks, from float ONNX through the whole job, against numpy integers."""

import tempfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.isa.vta.document.vta_configuration import VtaConfig
from accel.isa.vta.document.vta_document import vta_accelerator
from accel.program_files.program_container import load_program
from accel.simulate.engine import simulate
from examples.graph import Graph
from tests.helpers.marking import share
from tests.helpers.programs.race_checks import assert_ordered
from tests.reference import dyadic

_BATCHED = vta_accelerator(
    VtaConfig(LOG_BATCH=1, LOG_BLOCK=3, LOG_INP_BUFF_SIZE=10, LOG_WGT_BUFF_SIZE=12, LOG_ACC_BUFF_SIZE=12),
    name="batched",
    title="Two rows a tile",
)
ACCELERATORS = [*map(load_accelerator, ("vta", "vta-8", "vta-32", "vta-small")), _BATCHED]


class _Network:
    """A float network that grows layer by layer; ``shape`` is that of its last tensor ``x``."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.random = np.random.default_rng(draw(st.integers(0, 999)))
        self.graph = Graph("random")
        self.nodes = 0
        self.shape = (
            draw(st.integers(1, 3)),
            draw(st.integers(1, 20)),
            draw(st.integers(4, 9)),
            draw(st.integers(4, 9)),
        )
        self.x = self.graph.input("x", self.shape)

    def node(self, op: str, inputs: list[str], **attributes: object) -> str:
        self.nodes += 1
        return self.graph.node(op, f"{op.lower()} {self.nodes}", inputs, **attributes)

    def constant(self, *shape: int, deviation: float) -> str:
        value = self.random.normal(0, deviation, shape).astype(np.float32)
        return self.graph.constant(f"constant {self.nodes} {shape}", value)

    def activation(self) -> None:
        kind = self.draw(st.sampled_from(["none", "relu", "clip"]))
        if kind == "relu":
            self.x = self.node("Relu", [self.x])
        elif kind == "clip":
            bounds = [np.array(bound, np.float32) for bound in (0, 6)]
            names = [self.graph.constant(f"bound {self.nodes} {bound}", bound) for bound in bounds]
            self.x = self.node("Clip", [self.x, *names])

    def convolution(self, *, keep: bool = False) -> None:
        batch, channels, height, width = self.shape
        filters = channels if keep else self.draw(st.integers(1, 24))
        size = self.draw(st.sampled_from([1, 3]))
        stride = 1 if keep else self.draw(st.sampled_from([1, 1, 2]))
        operands = [self.x, self.constant(filters, channels, size, size, deviation=(channels * size**2) ** -0.5)]
        if self.draw(st.booleans()):
            operands.append(self.constant(filters, deviation=0.3))
        self.x = self.node("Conv", operands, pads=[size // 2] * 4, strides=[stride] * 2)
        self.shape = (batch, filters, -(-height // stride), -(-width // stride))

    def residual(self) -> None:
        entry = self.x
        self.convolution(keep=True)
        self.activation()
        if self.draw(st.booleans()):
            self.convolution(keep=True)
        self.x = self.node("Add", [self.x, self.draw(st.sampled_from([entry, self.x]))])
        self.activation()

    def pool(self) -> None:
        batch, channels, *sizes = self.shape
        size, stride, pad = self.draw(st.sampled_from([(2, 2, 0), (3, 2, 1), (3, 1, 1), (2, 1, 0)]))
        if min(sizes) >= 2:
            self.x = self.node("MaxPool", [self.x], kernel_shape=[size] * 2, strides=[stride] * 2, pads=[pad] * 4)
            height, width = ((extent + 2 * pad - size) // stride + 1 for extent in sizes)
            self.shape = (batch, channels, height, width)

    def branches(self) -> None:
        """What came before and a convolution of it, side by side; now and then in whole blocks."""
        entry, channels = self.x, self.shape[1]
        batch, _, height, width = self.shape
        filters = self.draw(st.sampled_from([5, 8, 16, 32]))
        weights = self.constant(filters, channels, 1, 1, deviation=channels**-0.5)
        self.x = self.node("Conv", [self.x, weights])
        self.activation()
        self.x = self.node("Concat", self.draw(st.permutations([entry, self.x])), axis=1)
        self.shape = (batch, channels + filters, height, width)

    def classifier(self) -> None:
        depth, classes = int(np.prod(self.shape[1:])), self.draw(st.integers(1, 30))
        self.x = self.node("Flatten", [self.x])
        operands = [self.x, self.constant(classes, depth, deviation=depth**-0.5), self.constant(classes, deviation=0.3)]
        self.x = self.node("Gemm", operands, transB=1)
        self.graph.output(self.x, (self.shape[0], classes))


@st.composite
def networks(draw: st.DrawFn) -> onnx.ModelProto:
    network = _Network(draw)
    steps = {
        "activation": network.activation,
        "branches": network.branches,
        "convolution": network.convolution,
        "pool": network.pool,
        "residual": network.residual,
    }
    for step in draw(st.lists(st.sampled_from(sorted(steps)), min_size=1, max_size=4)):
        steps[step]()
        if step == "convolution":
            network.activation()
    if draw(st.booleans()):
        network.graph.output(network.x, network.shape)
    network.classifier()
    return network.graph.model()


def is_no_work(node: onnx.NodeProto, model: onnx.ModelProto) -> bool:
    """A Flatten; and an activation of what is in its range, or which one of each of its parts has done already."""
    kinds = {name: other.op_type for other in model.graph.node for name in other.output}
    return node.op_type == "Flatten" or (
        node.op_type in {"Relu", "Clip"} and kinds.get(node.input[0]) in {"Relu", "Clip", "Concat", "MaxPool"}
    )


def check(model: onnx.ModelProto, accelerator: Accelerator) -> None:
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory)
        report = run_model(model.SerializeToString(), accelerator, Options(trace=False), out)
        program = load_program(out / "program.zip")
        quantised = onnx.load(out / "model.qdq.onnx")
        inputs, outputs = (dict(np.load(out / f"{name}.npz")) for name in ("inputs", "outputs"))
    assert report.verified
    assert report.macs.share == 1
    assert report.cycles >= report.bound.cycles > 0
    assert sum(layer.cycles for layer in report.layers) == report.cycles
    named = {node for layer in report.layers for node in layer.nodes} | {op.node for op in report.host_ops}
    assert named >= {node.name for node in model.graph.node if not is_no_work(node, model)}
    assert_ordered(program)
    assert not any(simulate(program, {}, function=False).tokens.values()), "a token is left over"
    reference = dyadic.run(quantised, inputs, balances=True)
    for name, result in outputs.items():
        np.testing.assert_array_equal(result, reference[name], err_msg=name)


@pytest.mark.slow
@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(model=networks(), accelerator=st.sampled_from(ACCELERATORS))
def test_networks(model: onnx.ModelProto, accelerator: Accelerator) -> None:
    check(model, accelerator)


OTHERS = [*map(load_accelerator, ("gemmini", "mvin-mvout", "output-stationary", "vector"))]


def check_verified(model: onnx.ModelProto, accelerator: Accelerator) -> None:
    with tempfile.TemporaryDirectory() as directory:
        report = run_model(model.SerializeToString(), accelerator, Options(trace=False), Path(directory))
    assert report.verified
    assert report.macs.share == 1


@pytest.mark.slow
@pytest.mark.timeout(900)
@settings(max_examples=share(16), deadline=None, suppress_health_check=list(HealthCheck))
@given(model=networks(), accelerator=st.sampled_from(ACCELERATORS))
def test_more_networks(model: onnx.ModelProto, accelerator: Accelerator) -> None:
    check(model, accelerator)


@pytest.mark.slow
@pytest.mark.timeout(900)
@settings(max_examples=share(16), deadline=None, suppress_health_check=list(HealthCheck))
@given(model=networks(), accelerator=st.sampled_from(OTHERS))
def test_machines_of_other_kinds(model: onnx.ModelProto, accelerator: Accelerator) -> None:
    check_verified(model, accelerator)


@pytest.mark.all
@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(model=networks(), accelerator=st.sampled_from(OTHERS))
def test_many_networks_on_machines_of_other_kinds(model: onnx.ModelProto, accelerator: Accelerator) -> None:
    check_verified(model, accelerator)


@pytest.mark.all
@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(max_examples=45, deadline=None, suppress_health_check=list(HealthCheck))
@given(model=networks(), accelerator=st.sampled_from(ACCELERATORS))
def test_many_networks(model: onnx.ModelProto, accelerator: Accelerator) -> None:
    check(model, accelerator)
