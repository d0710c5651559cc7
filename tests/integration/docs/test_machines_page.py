"""The documents of known machines: each is in the page's table, is right, and runs a small network bit for bit."""

import re
from pathlib import Path

import numpy as np
import onnx
import pytest

from accel.catalog.load_accelerator import parse_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from examples.graph import Graph
from tests.helpers.marking import rest_all

DOCS = Path(__file__).parents[3] / "docs"
DOCUMENTS = sorted((DOCS / "machines").glob("*.yaml"))
PRESETS = [DOCS.parent / "accel" / "accelerator" / "presets" / "conv-engine.yaml"]
MACHINES = ("Eyeriss", "NVDLA", "TPU", "Trainium", "tensor cores", "Ethos-U", "RISC-V", "digital CIM")
MACS = 16 * 8 * 9 * 100 + 16 * 16 * 100 + 16 * 10


def small_network() -> onnx.ModelProto:
    """Float layers of a residual network: convolutions 3x3 and 1x1, an addition, a mean, a dense layer."""
    random, graph = np.random.default_rng(0), Graph("small")

    def constant(name: str, *shape: int) -> str:
        return graph.constant(name, random.normal(0, 0.2, shape).astype(np.float32))

    first = graph.node(
        "Conv", "conv3", [graph.input("x", (1, 8, 10, 10)), constant("w1", 16, 8, 3, 3), constant("b1", 16)],
        pads=[1, 1, 1, 1],
    )  # fmt: skip
    first = graph.node("Relu", "relu", [first])
    second = graph.node("Conv", "conv1", [first, constant("w2", 16, 16, 1, 1), constant("b2", 16)])
    mean = graph.node("GlobalAveragePool", "pool", [graph.node("Add", "add", [second, first])])
    flat = graph.node("Flatten", "flat", [mean])
    graph.node("Gemm", "fc", [flat, constant("w3", 10, 16), constant("b3", 10)], "y", transB=1)
    graph.output("y", (1, 10))
    return graph.model()


def table() -> list[list[str]]:
    lines = (DOCS / "machines.md").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    return rows[1:]


def test_each_machine_has_its_document_or_what_is_missing() -> None:
    """Catches a document that the page does not name, a link to none, and a machine without a word on either."""
    rows = table()
    assert [name for name in MACHINES if not any(row[0].startswith(name) for row in rows)] == []
    linked = {link for row in rows for link in re.findall(r"\(machines/([^)]+)\)", row[1])}
    assert linked == {path.name for path in DOCUMENTS}
    assert {path.name for path in PRESETS} == {
        link for row in rows for link in re.findall(r"presets/([^)]+)\)", row[1])
    }
    assert all(row[2] for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize("path", rest_all([*PRESETS, *DOCUMENTS], keep=2), ids=lambda path: path.stem)
def test_a_document_runs_a_small_network(path: Path, tmp_path: Path) -> None:
    """Catches a document that is refused, computes wrong numbers, or leaves multiply-accumulates to the host."""
    accelerator = parse_accelerator(path.read_bytes())
    assert accelerator.name == path.stem
    model = tmp_path / "model.onnx"
    model.write_bytes(small_network().SerializeToString())
    report = run_model(model, accelerator, Options(trace=False), tmp_path)
    assert report.verified
    assert sum(layer.macs for layer in report.layers) == MACS
    assert not report.warnings
