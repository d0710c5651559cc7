"""Results that stay on the chip: the same numbers, in no more cycles and bytes, whatever the memory and its order."""

import dataclasses
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import load_accelerator, parse_accelerator
from accel.driver import compile_stages
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.errors import VerificationError
from accel.isa.decode import decode
from accel.isa.family import Family
from accel.joining.resident_tensors import Preference, keep_results
from accel.program.program_model import Program
from accel.program_files.program_container import load_program
from accel.report.documents.report_documents import Report
from accel.util.content_cache import FolderCache
from examples.graph import Graph
from examples.networks import build
from tests.integration.accel.driver.test_random_networks import networks
from tests.integration.docs.test_machines_page import small_network

ROOT = Path(__file__).parents[4]
TEXT = (ROOT / "docs" / "machines" / "tpu-v1.yaml").read_text(encoding="utf-8")
TPU = parse_accelerator(TEXT.encode())


def changed(*texts: tuple[str, str]) -> Accelerator:
    """The TPU with other texts; each old one is there."""
    text = TEXT
    for old, new in texts:
        assert old in text
        text = text.replace(old, new)
    return parse_accelerator(text.encode())


def npu() -> Accelerator:
    """The preset with a vector unit, whose results are stored to be checked, and an instruction that leaves data."""
    found = load_accelerator("npu").model_dump(mode="json", exclude={"source"})
    move = TPU.instruction("activate_to_ub").model_dump(mode="json") | {"unit": "vector"}
    move["operands"]["Y"]["memory"] = "x"
    move["fields"][0]["value"] = 100
    found["instructions"].append(move)
    return parse_accelerator(Accelerator.model_validate(found).model_dump_json().encode())


LANES = ("shape: [256, 256]", "shape: [8, 8]"), ("shape: [256]", "shape: [8]")
IN_ORDER = changed(*LANES, ("kind: hazards\n  window: 16", "kind: in_order"))
TIGHT = changed(
    *LANES,
    ("depth: 98304", "depth: 400"),
    ("{ name: columns, lsb: 80, bits: 16 }", "{ name: columns, lsb: 80, bits: 5 }"),
)
UNPADDED = changed(
    *LANES,
    (
        ",\n        pad_top: pad_top, pad_bottom: pad_bottom, pad_left: pad_left, pad_right: pad_right }",
        " }",
    ),
)
MACHINES = {"256 lanes": TPU, "in order": IN_ORDER, "tight": TIGHT, "unpadded": UNPADDED, "vector unit": npu()}


@st.composite
def chains(draw: st.DrawFn) -> onnx.ModelProto:
    """Layers that no host step parts: convolutions of any strides, kernels and groups, poolings and additions."""
    random, graph = np.random.default_rng(draw(st.integers(0, 999))), Graph("chain")
    channels, size = draw(st.integers(1, 20)), draw(st.integers(4, 12))
    batch = draw(st.integers(1, 2))
    x = graph.input("x", (batch, channels, size, size + draw(st.integers(0, 3))))
    for number in range(draw(st.integers(2, 5))):
        kernel, stride = draw(st.sampled_from([(1, 1), (3, 1), (3, 2), (5, 1), (1, 2)]))
        groups = draw(st.sampled_from([1, 1, channels]))
        filters = channels if groups > 1 else draw(st.integers(1, 40))
        shape = (filters, channels // groups, kernel, kernel)
        values = random.normal(0, (channels // groups * kernel**2) ** -0.5, shape).astype(np.float32)
        pads = [kernel // 2] * 4 if draw(st.booleans()) or size < 6 else [0] * 4
        operands = [x, graph.constant(f"w{number}", values)]
        made = graph.node("Conv", f"conv{number}", operands, pads=pads, strides=[stride] * 2, group=groups)
        if draw(st.booleans()):
            made = graph.node("Relu", f"relu{number}", [made])
        if filters == channels and stride == 1 and pads[0] == kernel // 2 and draw(st.booleans()):
            made = graph.node("Add", f"add{number}", [made, x])
        size = (size + 2 * pads[0] - kernel) // stride + 1
        x, channels = made, filters
    x = graph.node("GlobalAveragePool", "pool", [x])
    graph.output(x, (batch, channels, 1, 1))
    return graph.model()


def ran(
    model: onnx.ModelProto, accelerator: Accelerator, out: Path, on_chip: str = "auto", schedule: str = "quick"
) -> tuple[Report, dict]:
    out.mkdir(exist_ok=True)
    options = Options.model_validate({"trace": False, "schedule": schedule, "on_chip": on_chip})
    report = run_model(model.SerializeToString(), accelerator, options, out)
    return report, dict(np.load(out / "outputs.npz"))


def check(model: onnx.ModelProto, accelerator: Accelerator) -> Report:
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory)
        (kept, outputs), (plain, others) = (ran(model, accelerator, out / way, way) for way in ("auto", "off"))
        session = onnxruntime.InferenceSession(out / "auto" / "model.qdq.onnx")
        theirs = session.run(list(outputs), dict(np.load(out / "auto" / "inputs.npz")))
        program = load_program(out / "auto" / "program.zip")
    assert kept.verified
    assert plain.verified
    for (name, output), reference in zip(outputs.items(), theirs, strict=True):
        np.testing.assert_array_equal(output, others[name])
        step = np.diff(np.unique(reference)).min(initial=np.inf)
        assert np.abs(output - reference).max() <= 2 * step * (1 + 1e-3) or step == np.inf
    assert (kept.cycles, kept.dram.bytes_read + kept.dram.bytes_written) <= (
        plain.cycles, plain.dram.bytes_read + plain.dram.bytes_written,
    )  # fmt: skip
    assert kept.cycles >= kept.bound.cycles
    assert not plain.dram.on_chip
    stored = {name for step in program.steps for name in step.outputs} - {
        each.segment for each in program.residents if not each.stored
    }
    assert set(program.outputs) <= stored
    return kept


@pytest.mark.all
@pytest.mark.slow
def test_a_network_whose_results_stay():
    """Catches results that are stored though nobody reads them, and tilings that are chosen as if they were loaded."""
    kept = check(build("resnet8"), TPU)
    assert kept.dram.bytes_written == kept.dram.compulsory_written
    assert len(kept.dram.on_chip) == 13
    assert kept.cycles < 230_000


@pytest.mark.slow
@pytest.mark.slow
def test_no_more_cycles_than_in_dram_with_tilings_of_rows() -> None:
    """Catches tilings that are priced alone: those timed with their neighbours took 30% fewer cycles in DRAM."""
    text = (ROOT / "docs" / "machines" / "feature-memory.yaml").read_bytes()
    random, widths = np.random.default_rng(0), (200, 300, 150)
    graph = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]> layers (float[5, 200] x) => (float[5, 150] z) {
            y = MatMul(x, w0)
            z = MatMul(y, w1)
        }"""
    )
    graph.graph.initializer.extend(
        onnx.numpy_helper.from_array(random.normal(size=widths[at : at + 2]).astype(np.float32), f"w{at}")
        for at in range(2)
    )
    with tempfile.TemporaryDirectory() as directory:
        runs = [ran(graph, parse_accelerator(text), Path(directory), on_chip, "auto") for on_chip in ("auto", "off")]
    (kept, outputs), (in_dram, others) = runs
    np.testing.assert_array_equal(outputs["z"], others["z"])
    assert kept.cycles <= in_dram.cycles


def test_a_result_that_stays_wrongly_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches a fault that is looked for in DRAM, where a result that stays on the chip is not."""

    def misplaced(program: Program, family: Family, *, stored: bool, depth_first: Preference) -> Program:
        kept = keep_results(program, family, stored=stored, depth_first=depth_first)
        moves = decode(TPU, kept.words).rows(TPU.instruction("activate_to_ub"))
        words = kept.words.copy()
        words[moves[0], 0] ^= np.uint64(1 << 8)  # the lowest bit of where it goes
        return dataclasses.replace(kept, words=words)

    monkeypatch.setattr(compile_stages, "keep_results", misplaced)
    with pytest.raises(VerificationError, match="one that stays on the chip is wrong"):
        ran(small_network(), TPU, tmp_path)


@pytest.mark.all
def test_times_decide_what_stays_whatever_was_kept(tmp_path: Path) -> None:
    """Catches a program that is taken from a cache though other times make other results stay."""
    slow = changed(("cycles: rows * columns\n", "cycles: 200 * rows * columns + 100000\n"))
    cache = FolderCache(tmp_path / "cache")
    found = {}
    for name, accelerator, kept in (("fast", TPU, cache), ("slow", slow, cache), ("alone", slow, None)):
        (tmp_path / name).mkdir()
        model = small_network().SerializeToString()
        run_model(model, accelerator, Options(trace=False, schedule="quick"), tmp_path / name, cache=kept)
        found[name] = load_program(tmp_path / name / "program.zip")
    assert found["fast"].residents
    assert not found["slow"].residents
    assert found["slow"].words.tobytes() == found["alone"].words.tobytes()


@pytest.mark.slow
@settings(max_examples=1, deadline=None, suppress_health_check=list(HealthCheck))
@given(model=chains() | networks(), name=st.sampled_from(sorted(MACHINES)))
def test_networks(model: onnx.ModelProto, name: str) -> None:
    check(model, MACHINES[name])


@pytest.mark.all
@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(model=chains() | networks(), name=st.sampled_from(sorted(MACHINES)))
def test_many_networks(model: onnx.ModelProto, name: str) -> None:
    check(model, MACHINES[name])
