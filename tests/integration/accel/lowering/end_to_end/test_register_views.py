"""A machine with one register file for int8, int32 and float32, and with a DMA of four extents: programs for it."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from accel.accelerator.document import Accelerator
from accel.accelerator.text.document_text import read_text
from accel.catalog.load_accelerator import parse_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.isa.decode import Decoded, decode
from accel.isa.explicit.document_function import ExplicitMachine
from accel.isa.family_registry import family_of
from accel.program.program_model import Program
from accel.report.documents.report_documents import Report
from accel.simulate.engine import Simulation, simulate
from accel.util.arrays import Bytes
from examples.graph import Graph
from examples.single import Conv, conv_model
from tests.helpers.models.build_models import build, imported
from tests.helpers.models.random_float_networks import random_float_network
from tests.reference.document_machine import DocumentMachine
from tests.reference.host import draw_inputs, run_relax

DOCUMENT = Path(__file__).parents[5] / "docs" / "machines" / "vector-file.yaml"


def text() -> Any:
    return read_text(DOCUMENT.read_bytes())


def whole() -> Accelerator:
    return parse_accelerator(text())


def flat() -> Accelerator:
    """The same machine, whose copies have rows and columns alone."""
    document = text()
    for each in document["instructions"]:
        gone = {field for dimension in each.pop("dimensions", ()) for field in dimension.values()}
        each["fields"] = [field for field in each["fields"] if field["name"] not in gone]
        for cost in ("cycles", "bus_cycles"):
            if cost in each and gone:
                each[cost] = each[cost].replace("rows * inner * outer", "rows")
    return parse_accelerator(document | {"title": "with two extents"})


def softmax() -> onnx.ModelProto:
    """A layer, and floats behind it: a softmax whose axes are turned before."""
    graph, rng = Graph("softmax"), np.random.default_rng(1)
    weights = graph.constant("w", rng.normal(0, 0.3, (8, 6, 1, 1)).astype(np.float32))
    made = graph.node("Conv", "conv", [graph.input("x", (1, 6, 5, 4)), weights])
    turned = graph.node("Transpose", "turn", [made], perm=[0, 3, 2, 1])
    graph.node("Softmax", "softmax", [turned], "y", axis=-1)
    graph.output("y", (1, 4, 5, 8))
    return graph.model()


def job(model: onnx.ModelProto, accelerator: Accelerator, out: Path) -> Report:
    out.mkdir(parents=True)
    return run_model(model.SerializeToString(), accelerator, Options(trace=False), out)


def run(model: onnx.ModelProto, accelerator: Accelerator) -> tuple[Program, Simulation]:
    program, inputs = build(model, accelerator), draw_inputs(model)
    simulation = simulate(program, dict(zip(program.inputs, inputs.values(), strict=True)))
    assert simulation.hazards is not None
    assert not simulation.hazards.unwritten
    expected = run_relax(imported(model, accelerator), *inputs.values())
    for output, wanted in zip(program.outputs, expected, strict=True):
        if wanted.dtype != np.float32:
            np.testing.assert_array_equal(simulation.outputs[output], wanted)
    return program, simulation


def test_programs_do_what_numpy_does_with_the_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches buffers of two types that share bytes: the reference has one file of bytes, and knows no compiler."""
    references: dict[int, DocumentMachine] = {}
    engine, launches = ExplicitMachine.run, 0

    def both(self: ExplicitMachine, decoded: Decoded, dram: Bytes) -> None:
        nonlocal launches
        reference = references.setdefault(id(self), DocumentMachine(self.accelerator))
        expected = dram.copy()
        engine(self, decoded, dram)
        reference.run(decoded.words, expected)
        np.testing.assert_array_equal(dram, expected)
        np.testing.assert_array_equal(self.contents("v32"), reference.contents("v32"))
        launches += 1

    monkeypatch.setattr(ExplicitMachine, "run", both)
    run(conv_model(Conv(6, 20, 5, 4)), whole())
    assert launches == 2  # what quantises, and the layer


def depth_of(registers: int) -> Accelerator:
    document = text()
    for memory in document["memories"]:
        memory["depth"] = memory["depth"] * registers // 512
    return parse_accelerator(document)


@pytest.mark.slow
@pytest.mark.parametrize("registers", [512, 24])
def test_a_layer_and_floats_use_the_same_registers(registers: int, tmp_path: Path) -> None:
    """Catches a planner that counts each view for itself: with few registers its tiles would not fit."""
    accelerator = depth_of(registers)
    for number, model in enumerate((conv_model(Conv(20, 40, 12, 9)), softmax())):
        report = job(model, accelerator, tmp_path / str(number))
        assert report.verified
        assert sum(layer.macs for layer in report.layers)
    assert [each.op for each in report.host_ops] == ["QuantizeLinear"]


def test_buffers_of_all_views_fit_together() -> None:
    """Catches an allocation by views, each of which has room for what all of them together have not."""
    run(conv_model(Conv(20, 40, 12, 9)), depth_of(24))


def test_an_instruction_waits_for_the_bytes_of_another_view() -> None:
    """Catches hazards by the name of the memory: sums are read from registers that weights are being loaded to."""
    accelerator = whole()
    names = [each.name for each in accelerator.instructions]

    def word(name: str, **values: int) -> np.ndarray:
        made = np.zeros(accelerator.word_bits // 64, np.uint64)
        for field in accelerator.instructions[names.index(name)].fields:
            value = values.get(field.name, 0) if field.value is None else field.value
            made[field.lsb // 64] |= np.uint64(value << field.lsb % 64)
        return made

    one = {"rows": 1, "columns": 1, "outer": 1, "inner": 1}
    for register, waits in ((7, True), (6, False), (8, False)):
        words = np.stack([word("load_weights", sram=7, **one), word("ints", d=register, s=0, count=1)])
        timing = family_of(accelerator).time(decode(accelerator, words), {})
        assert bool(timing.start[1] >= timing.end[0]) == waits
    # of four words of a register the last is data
    words = np.stack([word("load_data", sram=7 * 16 + 15, **one), word("ints", d=7, s=0, count=1)])
    timing = family_of(accelerator).time(decode(accelerator, words), {})
    assert timing.start[1] >= timing.end[0]


@pytest.mark.all
def test_four_extents_take_fewer_instructions_than_two(tmp_path: Path) -> None:
    """Catches loops that no dimension takes: tiles of several blocks, and axes that are turned, are many copies."""
    for model, most in ((conv_model(Conv(16, 20, 32, 48)), 0.8), (random_float_network(11), 0.7)):
        deep, two = (job(model, each, tmp_path / str(most) / each.title) for each in (whole(), flat()))
        assert deep.verified
        assert two.verified
        assert sum(layer.instructions for layer in deep.layers) < most * sum(layer.instructions for layer in two.layers)
        assert deep.cycles <= two.cycles


@pytest.mark.slow
def test_sums_that_no_store_brings_to_dram_as_integers_are_the_hosts(tmp_path: Path) -> None:
    """What a zero point adds to each column of a product of activations is a sum of int32, held as floats on the chip.

    It would catch a program whose last store is none of the machine's.
    """
    graph = Graph("sums")
    x = graph.input("x", (1, 16, 16))
    weights = [np.random.default_rng(seed).normal(size=(16, 16)).astype(np.float32) for seed in range(2)]
    data, other = (graph.node("MatMul", f"m{n}", [x, graph.constant(f"w{n}", w)]) for n, w in enumerate(weights))
    turned = graph.node("Transpose", "turned", [other], perm=[0, 2, 1])
    y = graph.node("MatMul", "scores", [graph.node("Relu", "data", [data]), turned])
    graph.output(y, (1, 16, 16))
    report = run_model(graph.model().SerializeToString(), whole(), Options(trace=False), tmp_path)
    assert report.verified
    assert report.macs.share == 1
    assert "scores" in {op.node for op in report.host_ops}
