"""Nodes that a job leaves to the host."""

from pathlib import Path

import pytest

from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.errors import InvalidModel
from examples.single import Conv, conv_model
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
