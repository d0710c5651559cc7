"""What is said of the cycle counts' error is what the recordings give, and what lies outside is named."""

from collections.abc import Iterator

import numpy as np
import pytest

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import load_accelerator, parse_accelerator
from accel.isa.decode import decode
from accel.isa.vta.document.vta_configuration import Variant, VtaConfig
from accel.isa.vta.document.vta_document import vta_accelerator
from accel.isa.vta.timing import vta_calibration
from accel.isa.vta.timing.vta_calibration import timing_model
from accel.isa.vta.timing.vta_timing import time_launch
from tests.helpers.documents.vta_presets import PRESETS
from tests.helpers.programs.golden import FOLDER, board, documents, needs_golden, words

VTA = board()
STATEMENT = "exact on 59 of 59 RTL programs and 95 of 95 micro-benchmarks; worst 0.00%"


def at_latency(latency: int) -> Accelerator:
    return VTA.model_copy(update={"dram": VTA.dram.model_copy(update={"read_latency": latency})})


def programs() -> Iterator[tuple[int, int]]:
    """Cycles of the model and of the RTL."""
    streams = words("streams.npz")
    for name, entry in documents("streams.json").items():
        cycles = {"16": entry.get("rtl_cycles")} | (entry.get("rtl_cycles_by_dram_latency") or {})
        for latency, rtl in cycles.items():
            if rtl is not None:
                yield time_launch(decode(at_latency(int(latency)), streams[name]), entry["initial_tokens"]).cycles, rtl
    tokens: dict[str, int] = {}
    for entry in documents("runs/index.json"):
        instructions = np.load(FOLDER / "runs" / f"{entry['name']}.npz")["insn"].view(np.uint64)
        timing = time_launch(decode(VTA, instructions), {} if entry["name"].endswith("_r0") else tokens)
        tokens = timing.tokens
        yield timing.cycles, entry["rtl_cycles"]


@pytest.mark.slow
@needs_golden
def test_the_stated_error_is_that_of_the_recordings() -> None:
    pairs = list(programs())
    assert len(pairs) == vta_calibration.PROGRAMS
    assert sum(ours == rtl for ours, rtl in pairs) == vta_calibration.EXACT_PROGRAMS
    assert max(100 * abs(ours - rtl) / rtl for ours, rtl in pairs) == vta_calibration.WORST_PERCENT
    streams = words("microbenchmarks.npz")
    rtl = {name: entry["rtl_cycles"] for name, entry in documents("microbenchmarks.json").items()}
    assert len(rtl) == vta_calibration.MICRO_BENCHMARKS
    exact = sum(time_launch(decode(VTA, streams[name]), {}).cycles == cycles for name, cycles in rtl.items())
    assert exact == vta_calibration.EXACT_MICRO_BENCHMARKS
    latencies = {int(key) for entry in documents("streams.json").values() for key in latencies_of(entry)}
    assert latencies | {16} == set(vta_calibration.LATENCIES)


def latencies_of(entry: dict) -> list[str]:
    return list(entry.get("rtl_cycles_by_dram_latency") or {})


@pytest.mark.parametrize("latency", vta_calibration.LATENCIES)
def test_the_calibrated_accelerators(latency: int) -> None:
    for accelerator in (at_latency(latency), vta_accelerator(VtaConfig(), Variant(read_latency=latency))):
        model = timing_model(accelerator)
        assert (model.statement, model.calibrated, model.outside) == (STATEMENT, True, [])
        assert (model.exact, model.of, model.worst_percent) == (59, 59, 0.0)


def test_which_presets_are_calibrated() -> None:
    calibrated = [name for name in PRESETS if timing_model(load_accelerator(name)).calibrated]
    assert calibrated == ["vta", "vta-chisel"]


@pytest.mark.parametrize(
    ("change", "outside"),
    [
        ({"dram": {"bus_bytes": 16}}, "bits of the memory bus 128, calibrated 64"),
        ({"dram": {"read_latency": 17}}, "read latency 17 cycles, calibrated 0, 16, 64, 128 and 200"),
        ({"dram": {"burst_beats": 16}}, "beats of a burst 16, calibrated 256"),
        ({"dram": {"burst_boundary_bytes": 4096}}, "bytes that a burst does not cross 4096, calibrated 2048"),
        ({"synchronisation": {"limit": 1024}}, "limit of a token counter 1024, calibrated 255"),
        ({"parameters": {"reads_in_flight": 4}}, "reads in flight 4, calibrated 16"),
        ({"parameters": {"fetch_burst_instructions": 64}}, "instructions of a fetch 64, calibrated 128"),
        ({"parameters": {"immediate_pass_cycles": 2}}, "ALU cycles a pass with an immediate 2, calibrated 1"),
        ({"parameters": {"two_operand_pass_cycles": 1}}, "ALU cycles a pass with two operands 1, calibrated 2"),
        (
            {"parameters": {"queue_depths": {"load": 512, "compute": 8, "store": 512}}},
            "depth of the instruction queues [512, 8, 512], calibrated [512, 512, 512]",
        ),
        ({"synchronisation": {"carry": False}}, "leftover tokens carried over False, calibrated True"),
    ],
)
def test_a_document_cannot_claim_more_than_its_fields_say(change: dict, outside: str) -> None:
    document = VTA.model_dump(mode="json")
    for key, value in change.items():
        document[key] = document[key] | value if isinstance(value, dict) else value
    model = timing_model(parse_accelerator(document))
    assert (model.calibrated, model.exact, model.of, model.worst_percent) == (False, 0, 0, None)
    assert model.outside == [outside]
    assert model.statement.startswith(f"not compared with any hardware: {outside}.")


def test_the_hls_presets_say_that_no_hls_design_was_measured() -> None:
    model = timing_model(load_accelerator("vta-ultra96"))
    assert model.outside == [
        "bits of the memory bus 128, calibrated 64",
        "limit of a token counter 1024, calibrated 255",
        "ALU cycles a pass with an immediate 2, calibrated 1",
    ]
    assert "no HLS design was measured" in model.statement


def test_sizes_are_named() -> None:
    outside = timing_model(load_accelerator("vta-8")).outside
    assert "element of wgt 8 x 8, calibrated 16 x 16" in outside
    assert "elements of acc 1024, calibrated 2048" in outside
