import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.errors import SimulationError
from accel.isa.decode import decode
from accel.isa.family import dram_traffic
from accel.isa.vta.timing import timing_table
from accel.isa.vta.timing.vta_timing import time_launch
from accel.isa.vta.timing.vta_work import boxes_of
from tests.helpers.programs.golden import FOLDER, board, documents, needs_golden, words
from tests.helpers.programs.streams import stream

VTA = board()
LATENCIES = {
    latency: VTA.model_copy(update={"dram": VTA.dram.model_copy(update={"read_latency": latency})})
    for latency in (0, 16, 64, 128, 200)
}


@needs_golden
def test_every_microbenchmark_takes_the_cycles_of_the_rtl():
    streams = words("microbenchmarks.npz")
    expected = {name: entry["rtl_cycles"] for name, entry in documents("microbenchmarks.json").items()}
    assert {name: time_launch(decode(VTA, streams[name]), {}).cycles for name in expected} == expected


@needs_golden
def test_every_stream_takes_the_cycles_of_the_rtl_at_every_latency():
    streams = words("streams.npz")
    expected, got = {}, {}
    for name, entry in documents("streams.json").items():
        cycles = {"16": entry.get("rtl_cycles")} | (entry.get("rtl_cycles_by_dram_latency") or {})
        for latency, reference in cycles.items():
            if reference is not None:
                expected[name, latency] = reference
                decoded = decode(LATENCIES[int(latency)], streams[name])
                got[name, latency] = time_launch(decoded, entry["initial_tokens"]).cycles
    assert len(expected) == 40
    assert got == expected


@needs_golden
def test_every_run_takes_the_cycles_of_the_rtl_with_tokens_carried_over():
    tokens: dict[str, int] = {}
    for entry in documents("runs/index.json"):
        stream = np.load(FOLDER / "runs" / f"{entry['name']}.npz")["insn"].view(np.uint64)
        tokens = {} if entry["name"].endswith("_r0") else tokens
        timing = time_launch(decode(VTA, stream), tokens)
        assert timing.cycles == entry["rtl_cycles"], entry["name"]
        tokens = timing.tokens


@needs_golden
def test_traffic_is_what_the_functional_simulator_counted():
    streams = words("streams.npz")
    for name, entry in documents("streams.json").items():
        if "rtl_cycles" in entry:
            read, written = dram_traffic(boxes_of(decode(VTA, streams[name])))
            counters = entry["fsim"]
            assert read == sum(counters[f"{m}_load_nbytes"] for m in ("inp", "wgt", "acc", "uop")), name
            assert written == counters["out_store_nbytes"], name


@needs_golden
def test_a_whole_network_runs_with_tokens_carried_from_launch_to_launch():
    accelerator, tokens = board(), {}
    streams = words("streams.npz")
    launches = sorted(name for name in streams if name.startswith("resnet18_network_launch"))
    assert len(launches) == 25
    total = 0
    for name in launches:
        timing = time_launch(decode(accelerator, streams[name]), tokens)
        tokens, total = timing.tokens, total + timing.cycles
    assert 9_800_000 < total < 10_100_000


@needs_golden
def test_stalls_account_for_all_time_of_a_unit():
    stream = words("streams.npz")["resnet18_C2"]
    decoded = decode(VTA, stream)
    timing = time_launch(decoded, {})
    units = np.array([i.unit for i in VTA.instructions])[decoded.kind]
    before_start = sum(cycles for cause, cycles in timing.waits.items() if cause != "memory")
    for unit in VTA.units:
        rows = np.flatnonzero(units == unit)
        free = np.concatenate([[0], timing.end[rows[:-1]]])
        assert np.array_equal(timing.start[rows] - free, before_start[rows])
        assert timing.busy[unit] == (timing.end[rows] - timing.start[rows]).sum()


def test_a_deadlock_names_unit_instruction_and_token():
    stream = np.array([[1 << 4, 0], [3 | 1 << 3, 0]], np.uint64)  # both wait for the other's token
    stream[0, 0] |= 2 << 7  # of inp: the load unit's
    with pytest.raises(
        SimulationError,
        match=r"deadlock: load waits at instruction 0 \(load_inp\) for a token of "
        r"compute_to_load; compute waits at instruction 1 \(finish\) for a token of load_to_compute",
    ):
        time_launch(decode(VTA, stream), {})


def test_a_token_that_was_there_before_lifts_the_deadlock():
    stream = np.array([[1 << 4 | 1 << 6 | 2 << 7, 0], [3 | 1 << 3, 0]], np.uint64)
    timing = time_launch(decode(VTA, stream), {"compute_to_load": 1})
    assert timing.cycles == 29
    assert not any(timing.tokens.values())


def test_unknown_queues_and_impossible_counts_are_refused():
    stream = np.array([[3, 0]], np.uint64)
    with pytest.raises(SimulationError, match="no token queue is called sideways; there are load_to_compute"):
        time_launch(decode(VTA, stream), {"sideways": 1})
    with pytest.raises(SimulationError, match="256 tokens in store_to_compute; its counter holds 0 to 255"):
        time_launch(decode(VTA, stream), {"store_to_compute": 256})


def test_an_empty_launch_takes_no_time():
    assert time_launch(decode(VTA, np.zeros((0, 2), np.uint64)), {}).cycles == 0


def test_a_launch_lasts_until_finish_whatever_the_other_units_still_do():
    store = ("store_out", {"y_size": 4, "x_size": 100, "x_stride": 100})
    timing = time_launch(stream(VTA, [store, ("finish", {})]), {})
    assert timing.cycles == timing.end[1] < timing.end[0]
    assert timing.busy["store"] == timing.end[0] - timing.start[0]


def test_without_finish_a_launch_lasts_until_its_last_instruction():
    timing = time_launch(stream(VTA, [("load_inp", {"y_size": 1, "x_size": 9, "x_stride": 9}), ("load_uop", {})]), {})
    assert timing.cycles == timing.end[0] > timing.end[1]


@settings(deadline=None)  # the first call compiles
@given(
    count=st.integers(0, 300), step=st.integers(0, 5000), first=st.integers(0, 1 << 40), divisor=st.integers(1, 5000)
)
def test_sums_of_quotients_are_counted_in_closed_form(count, step, first, divisor):
    expected = sum((first + i * step) // divisor for i in range(count))
    assert timing_table.floors(count, step, first, divisor) == expected


def test_a_hundred_thousand_stores_of_65535_rows_take_neither_time_nor_memory():
    store = ("store_out", {"y_size": 65535, "x_size": 65535, "x_stride": 65535, "dram_base": 2**32 - 1})
    one = time_launch(stream(VTA, [store, ("finish", {})]), {})
    many = decode(VTA, np.repeat(stream(VTA, [store]).words, 100_000, axis=0))
    begin = time.process_time()
    timing = time_launch(many, {})
    assert time.process_time() - begin < 2
    assert timing.busy["store"] == 100_000 * one.busy["store"]
    bursts = sum(((2**32 - 1 + row * 65535) * 16 + 65535 * 16 - 1) // 2048 - (2**32 - 1 + row * 65535) * 16 // 2048 + 1
                 for row in range(65535))  # fmt: skip
    assert one.busy["store"] == 1 + 3 * bursts + 3 * 65535**2


@needs_golden
@pytest.mark.all
def test_401419_instructions_are_decoded_and_timed_at_more_than_a_million_a_second():
    words_ = words("streams.npz")["conv16_224_shift9_fallback"]
    tokens = documents("streams.json")["conv16_224_shift9_fallback"]["initial_tokens"]
    seconds = []
    for _ in range(3):
        begin = time.process_time()
        time_launch(decode(VTA, words_), tokens)
        seconds.append(time.process_time() - begin)
    assert min(seconds) < 0.4  # on a quiet machine under 0.1: bench/timing.py
