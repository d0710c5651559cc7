"""The clock against the design's registers (``tests/reference/vta_rtl.py``), each instruction's start and end."""

import numpy as np
import pytest

from accel.isa.decode import decode
from accel.isa.vta.timing.vta_timing import time_launch
from tests.helpers.marking import others_all, rest_all, rest_slow
from tests.helpers.programs.golden import FOLDER, board, documents, needs_golden, words
from tests.helpers.programs.streams import stream
from tests.reference.vta_rtl import Design, Machine

VTA = board()
SHORT_STREAMS = ["resnet18_C7", "resnet18_C10", "gemm128_b128"]
LONGER_STREAMS = ["resnet18_C6"]  # 3x3 with strides; C10 is 1x1 with strides, and the runs are of all kinds


@pytest.mark.slow
@needs_golden
def test_the_registers_take_the_cycles_of_the_rtl_on_every_microbenchmark():
    streams = words("microbenchmarks.npz")
    expected = {name: entry["rtl_cycles"] for name, entry in documents("microbenchmarks.json").items()}
    assert {name: Design(decode(VTA, streams[name]), Machine()).run() for name in expected} == expected


@needs_golden
def test_the_registers_take_the_cycles_of_the_rtl_on_every_run():
    tokens: dict[str, int] = {}
    for entry in documents("runs/index.json"):
        words_ = np.load(FOLDER / "runs" / f"{entry['name']}.npz")["insn"].view(np.uint64)
        design = Design(decode(VTA, words_), Machine(), {} if entry["name"].endswith("_r0") else tokens)
        assert design.run() == entry["rtl_cycles"], entry["name"]
        tokens = design.tokens_left()


@needs_golden
@pytest.mark.parametrize(
    "name", [pytest.param("resnet18_C7", marks=pytest.mark.all), *rest_slow(SHORT_STREAMS[1:], keep=0)]
)
def test_both_agree_with_the_rtl_at_every_latency(name):
    entry = documents("streams.json")[name]
    cycles = {"16": entry["rtl_cycles"]} | (entry.get("rtl_cycles_by_dram_latency") or {})
    for latency, expected in cycles.items():
        machine = Machine(latency=int(latency))
        design = compare(decode(accelerator(machine), words("streams.npz")[name]), machine)
        assert design.end.max() == expected


@needs_golden
@pytest.mark.slow
@pytest.mark.parametrize("name", others_all([f"resnet18_C{n}" for n in range(2, 12)], LONGER_STREAMS))
def test_both_agree_with_the_rtl_on_all_streams_of_resnet18(name):
    expected = documents("streams.json")[name]["rtl_cycles"]
    assert compare(decode(VTA, words("streams.npz")[name]), Machine()).end.max() == expected


def accelerator(machine):
    dram = {"read_latency": machine.latency, "burst_beats": machine.burst, "burst_boundary_bytes": machine.page}
    timing = {
        "queue_depths": dict.fromkeys(VTA.units, machine.queue),
        "reads_in_flight": machine.in_flight,
        "fetch_burst_instructions": machine.page // 16,
    }
    update = {
        "dram": VTA.dram.model_copy(update=dram),
        "synchronisation": VTA.synchronisation.model_copy(update={"limit": machine.token_limit}),
        "parameters": VTA.parameters | timing,
    }
    return VTA.model_copy(update=update)


def compare(decoded, machine, tokens=None):
    design = Design(decoded, machine, tokens)
    assert design.run() is not None
    timing = time_launch(decoded, tokens or {})
    wrong = np.flatnonzero((design.start != timing.start) | (design.end != timing.end))
    told = [(int(i), design.start[i], timing.start[i], design.end[i], timing.end[i]) for i in wrong[:3]]
    assert not told, f"(instruction, start in the RTL and ours, end in the RTL and ours): {told}"
    assert design.tokens_left() == timing.tokens
    return design


def launch(machine, instructions):
    return stream(accelerator(machine), [*instructions, ("finish", {})])


def random_copy(random, name):
    large = {"load_wgt": 3, "load_acc": 6}.get(name, 20) * (8 if random.random() < 0.15 else 1)
    fields = {
        "x_size": int(random.integers(random.random() >= 0.1, large + 1)),
        "y_size": int(random.integers(1, 6)),
        "dram_base": int(random.integers(0, 4000)),
    }
    fields["x_stride"] = fields["x_size"] + int(random.integers(0, 30))
    if name != "store_out" and random.random() < 0.5:
        for side in ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1"):
            if random.random() < 0.5:
                fields[side] = int(random.integers(0, 16 if random.random() < 0.2 else 4))
    return fields


def random_instruction(random):
    sort = random.choice(["load_uop", "load_inp", "load_wgt", "load_acc", "gemm", "alu", "store_out", "sync"])
    if sort == "sync":
        return random.choice(["load_inp", "load_uop", "load_acc", "store_out"]), {}
    if sort not in ("gemm", "alu"):
        return sort, random_copy(random, sort)
    fields = {
        "iter_out": int(random.integers(1, 4)),
        "iter_in": int(random.integers(1, 5)),
        "uop_bgn": 2,
        "uop_end": int(random.integers(3, 7)),
    }
    return sort, fields | {"reset_reg" if sort == "gemm" else "use_imm": int(random.integers(2))}


def random_launch(random, count):
    """Instructions that pop only what instructions before them pushed, so that they come to an end."""
    tokens: dict[tuple[str, str], int] = {}
    instructions = []
    for _ in range(count):
        name, fields = random_instruction(random)
        sort = VTA.instruction(name)
        for other, field in sort.tokens.pop.items():
            if tokens.get((other, sort.unit), 0) > 0 and random.random() < 0.5:
                fields[field] = 1
                tokens[other, sort.unit] -= 1
        for other, field in sort.tokens.push.items():
            if random.random() < 0.4:
                fields[field] = 1
                tokens[sort.unit, other] = tokens.get((sort.unit, other), 0) + 1
        instructions.append((name, fields))
    return instructions


def check_random(seed):
    random = np.random.default_rng(seed)
    machine = Machine(
        latency=int(random.choice([0, 1, 2, 3, 5, 16, 64, 200])),
        queue=int(random.choice([4, 5, 8, 512])),
        in_flight=int(random.choice([1, 2, 4, 16])),
        burst=int(random.choice([16, 32, 256])),
    )
    compare(launch(machine, random_launch(random, int(random.integers(1, 60)))), machine)


@pytest.mark.parametrize("seed", rest_all(range(60), keep=15))
def test_random_programs_on_random_machines(seed):
    check_random(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", rest_all(range(1000, 1020)))
def test_more_random_programs_on_random_machines(seed):
    for each in range(100):
        check_random(seed * 100 + each)


SHAPES = [
    {"y_pad_0": 3},
    {"y_pad_1": 3},
    {"x_pad_0": 2},
    {"x_pad_1": 2},
    {"y_pad_0": 1, "y_pad_1": 15},
    {"y_pad_0": 15, "y_pad_1": 1, "x_pad_0": 1},
    {"y_pad_0": 1, "y_pad_1": 2, "x_pad_0": 3, "x_pad_1": 4},
]


@pytest.mark.parametrize("pads", SHAPES)
@pytest.mark.parametrize("name", ["load_inp", "load_wgt", "load_acc", "load_uop"])
def test_padding_of_every_side(name, pads):
    for rows, columns in ((1, 1), (9, 2), (2, 13)):
        copy = {"y_size": rows, "x_size": columns, "x_stride": columns + 1, "dram_base": 7} | pads
        compare(launch(Machine(), [(name, copy)]), Machine())


@pytest.mark.parametrize("name", ["load_uop", "load_inp", "store_out"])
@pytest.mark.parametrize("begin", [0, 1, 127, 510, 511])
def test_copies_that_begin_anywhere_and_cross_pages(name, begin):
    copy = {"y_size": 3, "x_size": 301, "x_stride": 555, "dram_base": begin}
    compare(launch(Machine(), [(name, copy)]), Machine())


def test_a_full_queue_lets_the_next_instruction_in_two_cycles_after_the_last_of_one_that_leaves():
    busy = ("gemm", {"uop_end": 1, "iter_out": 20, "iter_in": 1})
    machine = Machine(queue=4)
    compare(launch(machine, [*[busy] * 12, ("store_out", {})]), machine)


@pytest.mark.slow
def test_fetching_in_bursts_beside_loads():
    load = ("load_acc", {"x_size": 40, "y_size": 3, "x_stride": 40})
    compare(launch(Machine(), [load, *[("load_uop", {"x_size": 1, "y_size": 1})] * 300, *[load] * 30]), Machine())


@pytest.mark.parametrize("latency", range(0, 40, 3))
def test_short_rows_fill_the_requests_in_flight(latency):
    machine = Machine(latency=latency, in_flight=4)
    load = {"x_size": 1, "y_size": 60, "x_stride": 7}
    compare(launch(machine, [("load_inp", load), ("load_acc", load), ("load_uop", load), ("load_wgt", load)]), machine)


def test_a_counter_of_tokens_stops_at_its_limit_and_drops_the_rest():
    machine = Machine(token_limit=3)
    push = ("load_inp", {"push_next": 1})
    pop = ("load_uop", {"pop_prev": 1})
    wait = ("gemm", {"uop_end": 1, "iter_out": 40, "iter_in": 1})
    compare(launch(machine, [*[push] * 8, wait, *[pop] * 3]), machine)


def test_tokens_of_both_neighbours_are_taken_at_once():
    both = ("load_uop", {"pop_prev": 1, "pop_next": 1, "push_prev": 1, "push_next": 1})
    compare(launch(Machine(), [("load_inp", {"push_next": 1}), both]), Machine(), {"store_to_compute": 1})
