"""Networks whose layers run as one on a Gemmini: fences order what DRAM must, and loads of weights go before them."""

from dataclasses import replace

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import load_accelerator
from accel.isa.family_registry import family_of
from accel.joining.joined_launches import join_launches
from accel.program.program_model import Launch, Program, joined_groups
from accel.simulate.engine import simulate
from examples.networks import build
from tests.helpers.marking import rest_all
from tests.integration.accel.driver.test_random_networks import networks
from tests.integration.accel.joining.test_joined_networks import ran

FENCE, COUNTER = 127, 126
_IN_THE_WAY = 0.02  # of a launch's cycles: 1.8% in one of some 400 networks, none in the others
GEMMINIS = [load_accelerator(name) for name in ("gemmini", "gemmini-8", "gemmini-32", "gemmini-lean")]


def check(model: onnx.ModelProto, accelerator: Accelerator) -> tuple[Program, int, int]:
    """The joined program, and cycles apart and joined."""
    apart, separate, _ = ran(model, accelerator, "separate")
    program = join_launches(separate, family_of(accelerator))
    one, other = simulate(separate, {}), simulate(program, {})
    for name, output in one.outputs.items():
        np.testing.assert_array_equal(output, other.outputs[name])
    assert apart.verified
    assert not other.hazards.races
    assert len(other.hazards.errata) <= len(one.hazards.errata)
    fences = int((program.words[:, 0] == FENCE).sum())
    # the fence that ends a launch by itself is in no cycles; what goes before one may come in the way of products
    assert other.cycles <= (1 + _IN_THE_WAY) * one.cycles + fences
    assert sum(result.timing.cycles for result in other.launches) == other.cycles
    return program, one.cycles, other.cycles


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "name", "least"),
    rest_all(
        [
            ("keyword_spotting", "gemmini", 0.01),
            ("visual_wake_words", "gemmini", 0.03),
            ("resnet8", "gemmini", 0.02),
            ("resnet8", "gemmini-lean", 0.005),
        ],
        keep=1,
    ),
)
def test_layers_overlap_with_fences_between_them(network: str, name: str, least: float) -> None:
    """Catches early loads that find another configuration, or that the order of instructions takes for another's."""
    program, apart, joined = check(build(network), load_accelerator(name))
    assert joined <= (1 - least) * apart
    assert sum(step.joined for step in program.steps if isinstance(step, Launch)) >= 10


def sums_of_products() -> onnx.ModelProto:
    """A product of few rows and many terms, and what is added to it."""
    weights = np.random.default_rng(0).normal(0, 1 / 32, (1024, 256)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["product"], name="product"),
            helper.make_node("Add", ["product", "z"], ["y"], name="y"),
        ],
        "sums",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [64, 1024]),
            helper.make_tensor_value_info("z", TensorProto.FLOAT, [64, 256]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [64, 256])],
        [numpy_helper.from_array(weights, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_early_loads_leave_the_order_of_the_launch_before() -> None:
    """Catches a launch that is arranged again for what goes into it, which took this product 2.5% longer."""
    check(sums_of_products(), load_accelerator("gemmini"))


@pytest.mark.slow
def test_every_fence_is_needed() -> None:
    """Catches fences that order nothing, and a check of races that does not see launches together."""
    _, separate, _ = ran(build("autoencoder"), load_accelerator("gemmini"), "separate")
    program = join_launches(separate, family_of(separate.accelerator))
    assert len(list(joined_groups(program.steps, lambda step: getattr(step, "joined", False)))) == 3
    fences = np.flatnonzero(program.words[:, 0] == FENCE)
    assert len(fences) == 9
    for fence in fences.tolist():
        words = program.words.copy()
        words[fence, 0] = COUNTER
        assert simulate(replace(program, words=words), {}, timing=False).hazards.races


@pytest.mark.all
@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(model=networks(), accelerator=st.sampled_from(GEMMINIS))
def test_many_fenced_networks(model: onnx.ModelProto, accelerator: Accelerator) -> None:
    check(model, accelerator)
