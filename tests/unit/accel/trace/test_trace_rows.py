import csv
import io
import time
from dataclasses import replace

import numpy as np
import pytest

from accel.catalog.load_accelerator import load_accelerator
from accel.program.program_model import InstructionOrigin, Launch, Program
from accel.simulate.engine import simulate
from accel.trace.program_trace import Trace
from accel.trace.trace_builder import make_trace
from tests.helpers.programs.golden import needs_golden, words
from tests.helpers.programs.streams import small_program
from tests.helpers.programs.traces import Held, random_trace

X = np.zeros((4, 16), np.int8)


@pytest.fixture
def trace() -> Trace:
    program = small_program()
    return make_trace(program, simulate(program, {"x": X}))


def test_a_record_has_unit_fields_times_waits_and_origin(trace):
    (store,) = trace.page(3, 1)
    assert (store["index"], store["launch"], store["unit"], store["op"]) == (3, "first", "store", "store_out")
    assert store["fields"]["dram_base"] == 32
    assert "opcode" not in store["fields"]
    assert store["end"] - store["start"] == 16
    assert {"cause": "token", "cycles": 86, "on": "compute_to_store"} in store["waited_for"]
    assert store["origin"] == {
        "nodes": ["add1", "add2"],
        "function": "add",
        "site": 1,
        "pragma": "pragma_alu",
        "stage": "inject",
    }
    assert trace.page(4, 1)[0]["origin"] is None


def test_a_record_says_what_the_instruction_does(trace):
    records = {record["op"]: record["does"] for record in trace.page(0, 6)}
    assert records["alu"] == "dst[b, o] = dst[b, o] + imm"  # the operation that its fields choose
    assert records["store_out"] == "dram[b, o] = i8(sram[b, o])"
    assert records["finish"] == ""
    assert "  : dst[b, o] = dst[b, o] + imm  ; add#1 " in b"".join(trace.text()).decode().splitlines()[2]


def test_what_two_sequences_share_is_left_open():
    gemmini = load_accelerator("gemmini")
    words = np.zeros((3, 3), np.uint64)
    words[:, 0] = (4, 3, 3)  # compute_preloaded, which ends one sequence; mvout, which ends four
    words[2, 2] = 1 << 29 | 1 << 31 | 16 << 32  # all of the accumulator's bits
    program = Program(
        accelerator=gemmini,
        segments={},
        image={},
        inputs=(),
        outputs=(),
        steps=(Launch("l", "", (), 0, 3, 0, (), ()),),
        words=words,
        origin=np.full(3, -1, np.int32),
        origins=(),
        dram_bytes=0,
    )
    names = make_trace(program, simulate(program, {}, function=False, timing=False)).names
    does = {operation.name: [meaning.text for meaning in operation.does] for operation in names.operations}
    product = "i32(A[k]) * i32(B[k, n])"  # a bit of the preload says whether it goes on with a sum
    assert does["compute_preloaded"] == [f"C[n] += {product}", f"C[n] = {product}"]
    assert len({*does["mvout"]}) == 5
    assert [text.endswith("of the largest of each window") for text in does["mvout"]] == [False] * 3 + [True] * 2
    assert does["config_ex"] == []


def test_times_run_on_over_launches(trace):
    records = trace.page(0, 100)
    assert [record["launch"] for record in records] == ["first"] * 6 + ["second"] * 4
    assert records[6]["start"] > records[5]["end"]


def test_pages_end_with_the_trace(trace):
    assert len(trace) == 10
    assert [r["index"] for r in trace.page(8, 5)] == [8, 9]
    assert trace.page(10, 5) == []


def test_a_saved_trace_comes_back(trace, tmp_path):
    trace.save(tmp_path)
    assert Trace.load(tmp_path).page(0, 10) == trace.page(0, 10)


def test_csv_has_a_row_an_instruction_with_empty_cells_for_absent_fields(trace):
    rows = list(csv.DictReader(io.StringIO(b"".join(trace.csv()).decode(), newline="")))
    assert len(rows) == 10
    for row, record in zip(rows, trace.page(0, 10), strict=True):
        assert (int(row["index"]), row["op"], row["unit"]) == (record["index"], record["op"], record["unit"])
        assert (int(row["start"]), int(row["end"])) == (record["start"], record["end"])
        shown = {name: int(row[name]) for name in trace.names.fields if row[name] != ""}
        assert shown == record["fields"]
        waits = {name: int(row[f"wait_{name}"]) for name in trace.names.causes if int(row[f"wait_{name}"])}
        assert waits == {wait["on"]: wait["cycles"] for wait in record["waited_for"]}
        assert row["pragma"] == (record["origin"] or {"pragma": ""})["pragma"]


def test_csv_quotes_what_a_model_may_be_called():
    program = small_program()
    odd = InstructionOrigin(('a,"b"\n', "c"), "=1+1", 0, "p", "s")
    trace = make_trace(replace(program, origins=(odd, odd)), simulate(program, {}, function=False))
    rows = list(csv.DictReader(io.StringIO(b"".join(trace.csv()).decode(), newline="")))
    assert rows[0]["nodes"] == 'a,"b"\n c'
    assert rows[0]["function"] == "'=1+1"


def test_a_cause_that_is_no_queue_stands_for_itself():
    held = random_trace(1, 1)
    causes = {"fetch": 3, "hazard": 5, "load_to_compute": 7, "memory": 0}
    names = held.names.model_copy(update={"causes": tuple(causes)})
    columns = held.columns | {f"wait/{cause}": np.array([cycles]) for cause, cycles in causes.items()}
    (record,) = Trace(Held(names, columns)).page(0, 1)
    assert [(wait["cause"], wait["on"], wait["cycles"]) for wait in record["waited_for"]] == [
        ("fetch", "fetch", 3),
        ("hazard", "hazard", 5),
        ("token", "load_to_compute", 7),
    ]


def test_text_has_a_line_an_instruction(trace):
    lines = b"".join(trace.text()).decode().splitlines()
    assert len(lines) == 10
    assert lines[2].startswith("2 first compute alu ")
    assert "alu_opcode=2" in lines[2]
    assert "imm=1" in lines[2]
    assert lines[2].endswith("; add#1 pragma_alu inject add1 add2")


def test_without_timing_times_are_minus_one():
    program = small_program()
    (record,) = make_trace(program, simulate(program, {"x": X}, timing=False)).page(2, 1)
    assert (record["start"], record["end"], record["waited_for"]) == (-1, -1, [])


@needs_golden
@pytest.mark.all
def test_four_hundred_thousand_instructions_are_no_trouble(tmp_path):
    stream = words("streams.npz")["conv16_224_shift8_fallback"]
    launch = Launch("conv", "conv2d", (), 0, len(stream), 0, (), ())
    origin = np.zeros(len(stream), np.int32)
    program = replace(small_program(), steps=(launch,), words=stream, origin=origin, segments={}, image={})
    trace = make_trace(program, simulate(program, {}, function=False))
    begin = time.process_time()
    trace.save(tmp_path)
    loaded = Trace.load(tmp_path)
    page = loaded.page(200_000, 100)
    paged = time.process_time() - begin
    for pieces, lines in ((loaded.csv(), len(stream) + 1), (loaded.text(), len(stream))):
        assert sum(piece.count(b"\n") for piece in pieces) == lines
    assert page[0]["index"] == 200_000
    assert paged < 2
    assert time.process_time() - begin < 20
