"""Patch embeddings: a convolution whose windows lie side by side is one product, and its data are laid out at once."""

from pathlib import Path

import numpy as np
import onnx
import pytest

from accel.catalog.load_accelerator import load_accelerator
from accel.driver.dry_run import plan_model
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.host.host_graph_reader import read_host_graph
from accel.program.program_model import HostStep
from accel.program_files.program_container import load_program
from tests.helpers.marking import rest_all
from tests.helpers.models.exported_files import constant, info, model, node, weights

VTA = load_accelerator("vta-pynq")
OUTPUTS = 64


def embedding(patch: int, side: int) -> onnx.ModelProto:
    """That of a vision transformer, as torch exports it: tokens of an image of ``side`` patches a side."""
    nodes = [
        node("Conv", ["x", "w", "b"], ["c"], name="patches", kernel_shape=[patch] * 2, strides=[patch] * 2),
        node("Reshape", ["c", "shape"], ["r"], name="flatten"),
        node("Transpose", ["r"], ["y"], name="tokens", perm=[0, 2, 1]),
    ]
    tokens, extent = side * side, patch * side
    inits = [weights("w", OUTPUTS, 3, patch, patch), weights("b", OUTPUTS), constant("shape", [1, OUTPUTS, tokens])]
    return model(nodes, [info("x", 1, 3, extent, extent)], [info("y", 1, tokens, OUTPUTS)], inits)


def product(patch: int, side: int) -> bytes:
    """The same product of pixels that have all numbers of a patch."""
    channels = 3 * patch * patch
    inits = [weights("w", OUTPUTS, channels, 1, 1), weights("b", OUTPUTS)]
    outputs = [info("y", 1, OUTPUTS, side, side)]
    made = model([node("Conv", ["x", "w", "b"], ["y"])], [info("x", 1, channels, side, side)], outputs, inits)
    return made.SerializeToString()


@pytest.mark.slow
@pytest.mark.parametrize(("patch", "side"), rest_all([(16, 4), (4, 8), (32, 3)]))
def test_an_embedding_is_as_quick_as_its_product_and_one_rearrangement(patch: int, side: int, tmp_path: Path) -> None:
    data = embedding(patch, side).SerializeToString()
    plan = plan_model(data, VTA)
    report = run_model(data, VTA, Options(trace=False), tmp_path)
    assert (report.verified, report.macs.share) == (True, 1.0)
    assert plan.estimated_cycles == pytest.approx(report.cycles, rel=0.01)
    assert report.cycles == pytest.approx(plan_model(product(patch, side), VTA).estimated_cycles, rel=0.01)
    steps = [step for step in load_program(tmp_path / "program.zip").steps if isinstance(step, HostStep)]
    before, after = ([each.op for each in read_host_graph(step.module).graph.nodes] for step in steps)
    # the patches, then the tiles, whatever their size; the tokens are stored as the model has them
    assert before == ["QuantizeLinear", "Reshape", "Transpose", "Reshape", "Reshape", "Transpose"]
    assert after == ["DequantizeLinear"]
    assert np.isfinite([quality.sqnr_db for quality in report.quantisation]).all()
    assert all(launch.host == ["the host lays the patches of the image out as the channels of its pixels"]
               for launch in plan.launches)  # fmt: skip
