"""Nodes that a job leaves to the host."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import load_accelerator
from accel.driver.dry_run import plan_model
from accel.driver.run_model import run_model
from accel.driver.run_options import Launches, Options
from accel.errors import InvalidAccelerator, InvalidModel
from examples.single import Conv, conv_model
from tests.integration.accel.driver.test_movement import between
from tests.integration.accel.lowering.partition.test_residual import block

VTA = load_accelerator("vta")


def test_a_layer_goes_to_the_host_and_the_report_says_why(tmp_path: Path) -> None:
    model = conv_model(Conv(16, 16, 8, 8)).SerializeToString()
    report = run_model(model, VTA, Options(host_nodes=("conv",)), tmp_path)
    assert report.layers == []
    assert report.macs.accelerator == 0
    assert {op.node: op.reason for op in report.host_ops}["conv"] == "the job's options leave it to the host"


def test_its_neighbours_stay(tmp_path: Path) -> None:
    """Of a convolution with an addition behind, the addition alone stays on the accelerator."""
    model = block((1, 16, 6, 6), 3).SerializeToString()
    report = run_model(model, VTA, Options(host_nodes=("conv",)), tmp_path)
    assert [layer.op for layer in report.layers] == ["add"]
    assert report.verified


def test_a_node_that_the_model_does_not_have(tmp_path: Path) -> None:
    model = conv_model(Conv(16, 16, 8, 8)).SerializeToString()
    with pytest.raises(InvalidModel, match="no node 'cnov'") as caught:
        run_model(model, VTA, Options(host_nodes=("conv", "cnov")), tmp_path)
    assert caught.value.field == "options.host_nodes[1]"


@pytest.mark.parametrize("left", [(), ("lrn",)])
def test_a_node_that_is_said_in_parts_is_one(left: tuple[str, ...], tmp_path: Path) -> None:
    """It would catch parts under names that the model does not have, which an option cannot name either."""
    model = between(helper.make_node("LRN", ["a"], ["b"], "lrn", size=3))
    report = run_model(model.SerializeToString(), load_accelerator("npu"), Options(host_nodes=left), tmp_path)
    assert report.verified
    told = {node for layer in report.layers for node in layer.nodes}, {each.node for each in report.host_ops}
    assert ["lrn" in each for each in told] == [not left, bool(left)]
    assert not any("_node" in name for name in set.union(*told))


LAUNCH = 1_000_000.0  # cycles of the host's, so that a small layer is its own


def with_slow_launches(name: str) -> Accelerator:
    accelerator = load_accelerator(name)
    assert accelerator.host is not None
    return accelerator.model_copy(update={"host": accelerator.host.model_copy(update={"launch_cycles": LAUNCH})})


def two_layers() -> onnx.ModelProto:
    """A product of 16 million multiply-accumulates, and one of two thousand behind what only a host can do."""
    random = np.random.default_rng(0)
    sizes = {"w": (512, 512), "v": (512, 4)}
    weights = [
        onnx.numpy_helper.from_array(random.normal(size=size).astype(np.float32), name) for name, size in sizes.items()
    ]
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]> two (float[64, 512] x) => (float[64, 4] y) {
            [large] a = MatMul(x, w)
            [wave] b = Sin(a)
            [small] y = MatMul(b, v)
        }"""
    )
    model.graph.initializer.extend(weights)
    return model


@pytest.mark.parametrize("name", ["vta", pytest.param("gemmini", marks=pytest.mark.slow)])
def test_what_is_faster_on_the_host_goes_there_and_says_so(name: str, tmp_path: Path) -> None:
    """Catches a choice that does not count launches, and a dry run that places nodes otherwise than the job."""
    model = conv_model(Conv(16, 16, 8, 8)).SerializeToString()
    quick, slow = load_accelerator(name), with_slow_launches(name)
    fastest = Options(placement="fastest")
    assert len(run_model(model, quick, fastest, tmp_path).layers) == 1
    there, here = run_model(model, slow, Options(), tmp_path), run_model(model, slow, fastest, tmp_path)
    assert not here.layers
    assert here.end_to_end.cycles < there.end_to_end.cycles
    said = next(op.reason for op in here.host_ops if op.node == "conv")
    assert said.startswith(f"the whole is faster so: {here.end_to_end.cycles:,} cycles end to end as estimated")
    plan = plan_model(model, slow, fastest)
    (planned,) = (node.reason for node in plan.nodes if node.name == "conv")
    (words, cycles), (told, timed) = (text.rsplit(" ", 1) for text in (planned, said))
    assert words == told
    assert int(cycles.replace(",", "")) == pytest.approx(int(timed.replace(",", "")), rel=1e-3)  # without trials


def test_what_pays_a_launch_by_itself_is_left_and_its_neighbours_are_not(tmp_path: Path) -> None:
    """Catches a search that ends with the first launch, and one that leaves layers whose products take too long."""
    model = two_layers().SerializeToString()
    report = run_model(model, with_slow_launches("vta"), Options(placement="fastest"), tmp_path)
    assert report.verified
    assert [layer.nodes for layer in report.layers] == [["large"]]


def chain_of_layers() -> onnx.ModelProto:
    """Three small layers that run as one launch."""
    random, width = np.random.default_rng(0), 24
    weights = [
        onnx.numpy_helper.from_array(random.normal(size=(width, width)).astype(np.float32), name) for name in "uvw"
    ]
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]> chain (float[4, 24] x) => (float[4, 24] y) {
            [first] a = MatMul(x, u)
            [second] b = MatMul(a, v)
            [third] y = MatMul(b, w)
        }"""
    )
    model.graph.initializer.extend(weights)
    return model


def test_layers_that_share_a_dear_launch_go_to_the_host_together(tmp_path: Path) -> None:
    """Catches a search of single layers alone: none saves anything while the others still need the launch."""
    model, slow = chain_of_layers().SerializeToString(), with_slow_launches("vta")
    there = run_model(model, slow, Options(), tmp_path)
    assert [layer.joined for layer in there.layers] == [False, True, True]
    alone = run_model(model, slow, Options(host_nodes=("third",)), tmp_path)
    assert alone.end_to_end.cycles > there.end_to_end.cycles
    fastest = run_model(model, slow, Options(placement="fastest"), tmp_path)
    forced = run_model(model, slow, Options(host_nodes=("first", "second", "third")), tmp_path)
    assert fastest.end_to_end.cycles == forced.end_to_end.cycles < there.end_to_end.cycles
    said = {op.node: op.reason for op in fastest.host_ops}
    assert len({said[name] for name in ("first", "second", "third")}) == 1
    assert said["first"].startswith(f"the whole is faster so: {forced.end_to_end.cycles:,} cycles end to end")


def test_a_plan_that_moves_nothing_says_what_one_without_a_search_does() -> None:
    """Catches launches that are not timed as one, as an earlier timer of the same target had their words."""
    model = chain_of_layers().SerializeToString()
    usual, fastest = (plan_model(model, VTA, options) for options in (Options(), Options(placement="fastest")))
    assert fastest.end_to_end == usual.end_to_end


@pytest.mark.parametrize("launches", ["joined", "separate"])
def test_a_plan_has_the_hosts_part_of_a_job_with_the_same_launches(launches: Launches, tmp_path: Path) -> None:
    """Catches a plan of joined launches where a job has them separate, each with its start and its end."""
    model, options = chain_of_layers().SerializeToString(), Options(launches=launches)
    plan, report = plan_model(model, VTA, options), run_model(model, VTA, options, tmp_path)
    assert plan.end_to_end.details == report.end_to_end.details


def test_without_a_host_nothing_is_faster_there(tmp_path: Path) -> None:
    """Catches a host that costs nothing, to which everything would go."""
    alone = VTA.model_copy(update={"host": None})
    with pytest.raises(InvalidAccelerator, match="does not say what its host costs") as caught:
        run_model(conv_model(Conv(16, 16, 8, 8)).SerializeToString(), alone, Options(placement="fastest"), tmp_path)
    assert caught.value.field == "host"
