"""What is between two regions: packed tensors, and no transposes by the host."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from tvm import ir, relax

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.frontend.quantize.quantize_model import quantize_model
from accel.frontend.quantize.scale_grid import GRIDS, Grid
from accel.lowering.ir.function_attributes import REGION
from examples.graph import Graph
from examples.networks import build
from tests.helpers.marking import others_all, rest_slow
from tests.helpers.models import branches
from tests.helpers.models.build_models import lower
from tests.integration.accel.driver.test_random_networks import check

VTA = load_accelerator("vta")


@pytest.fixture(autouse=True)
def powers_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """With these scales float32 holds each sum, so that a half is a half in both."""
    monkeypatch.setitem(GRIDS, "power of two", Grid(1))


def transposes_between(module: ir.IRModule) -> int:
    """Transposes in ``main`` that a region's result reaches and from which another region is reached."""
    bindings = [binding for block in module["main"].body.blocks for binding in block.bindings]
    after, before = _reached(bindings), _reached(list(reversed(bindings)), backwards=True)
    return sum(_is_transpose(b.value) and b.var in after and b.var in before for b in bindings)


def _reached(bindings: list[relax.VarBinding], *, backwards: bool = False) -> set[relax.Var]:
    """Variables behind a launch, or before one."""
    found: set[relax.Var] = set()
    for binding in bindings:
        used = relax.analysis.free_vars(binding.value)
        if not backwards and (_is_launch(binding.value) or found.intersection(used)):
            found.add(binding.var)
        if backwards and (_is_launch(binding.value) or binding.var in found):
            found.update(used)
    return found


def _is_launch(value: relax.Expr) -> bool:
    return isinstance(value, ir.Call) and value.op == ir.Op.get("relax.call_tir")


def _is_transpose(value: relax.Expr) -> bool:
    return isinstance(value, ir.Call) and value.op == ir.Op.get("relax.permute_dims")


def allocated(model: onnx.ModelProto, accelerator: Accelerator = VTA) -> ir.IRModule:
    module = lower(quantize_model(model), accelerator)
    assert any(REGION in (function.attrs or {}) for function in module.functions.values())
    return module


FORKS = [branches.fire_modules, branches.inception, branches.dense_block, branches.preactivated]


@pytest.mark.slow
@pytest.mark.parametrize("network", others_all(FORKS, [branches.inception]))
def test_what_forks_and_joins_stays_packed(network: Callable[[], onnx.ModelProto]) -> None:
    assert transposes_between(allocated(network())) == 0


@pytest.mark.slow
@pytest.mark.parametrize("network", rest_slow(FORKS))
def test_what_forks_and_joins_is_right(network: Callable[[], onnx.ModelProto]) -> None:
    check(network(), VTA)


@pytest.mark.slow
def test_channels_that_fill_no_blocks_are_put_together_by_the_host() -> None:
    net = branches.Branches((1, 3, 6, 6))
    x = net.conv(net.x, 20)
    model = net.model(net.conv(net.concat([x, net.conv(x, 20)]), 8), 6, 6)
    assert transposes_between(allocated(model)) == 3
    check(model, VTA)


@pytest.mark.slow
def test_the_mean_of_an_image_feeds_a_dense_layer_as_it_lies() -> None:
    net = branches.Branches((1, 3, 6, 6))
    x = net.node("GlobalAveragePool", [net.conv(net.x, 20, 3)], 20)
    x = net.node("Flatten", [x], 20)
    weight = net.graph.constant("dense", np.random.default_rng(1).normal(0, 0.2, (7, 20)).astype(np.float32))
    net.graph.output(net.node("Gemm", [x, weight], 7, transB=1), (1, 7))
    model = net.graph.model()
    assert transposes_between(allocated(model)) == 0
    check(model, VTA)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "name",
    others_all(
        ["resnet18", "resnet50", "mobilenet_v1", "mobilenet_v2", "light_squeezenet", "light_densenet121"],
        ["mobilenet_v2"],
    ),
)
def test_bodies_of_networks_stay_packed(name: str) -> None:
    assert transposes_between(allocated(build(name))) == 0


def test_a_node_may_be_called_as_a_function_of_ours_is() -> None:
    graph = Graph("names")
    graph.node("Softmax", "conv2d_0", [graph.input("x", (1, 4, 5, 5))], axis=1)
    weights = np.random.default_rng(0).normal(size=(4, 4, 1, 1)).astype(np.float32)
    graph.output(graph.node("Conv", "conv2d_1", ["conv2d_0", graph.constant("weights", weights)]), (1, 4, 5, 5))
    with tempfile.TemporaryDirectory() as directory:
        model = graph.model().SerializeToString()
        options = Options(trace=False, schedule="quick")  # else what was timed is not compiled again
        assert run_model(model, load_accelerator("vta"), options, Path(directory)).verified
