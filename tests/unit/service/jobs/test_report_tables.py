"""Tables of a report as CSV say what the report says, and no name in them is a formula."""

import csv
import io
from typing import Any

from accel.report.documents.memory_documents import Allocation, LayerMemory, MemoryPlan, OnChipMemory
from service.jobs.job_report import TableName, report_csv

ACCOUNT = {"total": {"busy": {"gemm": 5}, "idle": {"ended": 2}}, "units": {"load": {"token": {"q": 7}}}}
LAYER = {"op": "conv2d", "cycles": 7, "macs": 3, "bytes_read": 5, "bytes_written": 2, "utilisation": 0.5}


def rows_of(report: dict[str, Any], table: TableName) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(report_csv(report, table), newline="")))


def test_layers_read_back_equal_the_report() -> None:
    """Catches a column under another's header, a lost row, and quotes or line ends in names that break a row."""
    layers = [
        {**LAYER, "name": 'a "b",\nc', "lower_bound": 6, "nodes": ["one", "two"]},
        {**LAYER, "name": "d", "lower_bound": None},
    ]
    for report in ({"layers": layers}, {"launches": layers}):
        first, second = rows_of(report, "layers")
        assert (first["layer"], first["name"], first["cycles"], first["read [bytes]"]) == ("1", 'a "b",\nc', "7", "5")
        assert (first["nodes"], first["lower bound [cycles]"]) == ("one; two", "6")
        assert (second["layer"], second["lower bound [cycles]"]) == ("2", "")


def test_cycles_of_the_whole_and_of_each_layer() -> None:
    """Catches a unit, a category or a layer that is left out; a report of an earlier version has no account."""
    rows = rows_of({"account": ACCOUNT, "layers": [{**LAYER, "name": "x", "account": ACCOUNT}]}, "cycles")
    whole = [("", "busy", "gemm", "5"), ("", "idle", "ended", "2"), ("load", "token", "q", "7")]
    assert [(row["unit"], row["category"], row["cause"], row["cycles"]) for row in rows] == whole * 2
    assert [row["layer"] + row["name"] for row in rows] == ["0"] * 3 + ["1x"] * 3
    assert rows_of({"layers": [{**LAYER, "name": "x"}]}, "cycles") == []


def test_changes_name_their_fields() -> None:
    changes = [{"change": "c", "resource": "r", "fields": [{"field": "/a", "before": 1, "after": 2}], "cycles": 4}]
    (row,) = rows_of({"layers": [], "limits": {"changes": changes}}, "limits")
    assert (row["fields"], row["cycles"], row["saved [share of 1]"]) == ("/a: 1 to 2", "4", "")
    assert rows_of({"launches": [], "limits": None}, "limits") == []


def test_text_that_is_a_formula_is_none_in_a_spreadsheet() -> None:
    """Catches a node whose name runs when the file is opened."""
    ops = [{"node": "=HYPERLINK(0)", "op": "@x", "reason": "+1"}]
    rows = list(csv.reader(io.StringIO(report_csv({"layers": [], "host_ops": ops}, "host-ops"))))
    assert rows == [["node", "operator", "reason"], ["'=HYPERLINK(0)", "'@x", "'+1"]]


def test_a_memory_plan_is_a_row_a_buffer() -> None:
    """Catches elements for bytes, a layer's number from 0, and a plan that is missing, as that of a program is."""
    place = {"memory": "acc", "begin": 2, "end": 5, "copies": 1, "role": "result", "first_instruction": None}
    more = {"buffer": "=b", "tensors": ["x", "y"], "last_instruction": None, "begin_cycle": 7, "end_cycle": None}
    layer = LayerMemory(name="l", begin_cycle=0, end_cycle=9, allocations=[Allocation.model_validate(place | more)])
    empty = layer.model_copy(update={"allocations": []})
    plan = MemoryPlan(memories=[OnChipMemory(name="acc", elements=8, element_bytes=64)], layers=[empty, layer])
    (row,) = csv.DictReader(io.StringIO(report_csv({"layers": []}, "memory", plan), newline=""))
    assert (row["layer"], row["name"], row["memory"], row["role"]) == ("2", "l", "acc", "result")
    assert (row["first element"], row["size [bytes]"], row["buffer"], row["tensors"]) == ("2", "192", "'=b", "x; y")
    assert (row["begin [cycle]"], row["end [cycle]"]) == ("7", "")
    assert rows_of({"launches": []}, "memory") == []
    (full,) = csv.DictReader(io.StringIO(report_csv({"layers": []}, "memories", plan), newline=""))
    assert (full["memory"], full["size [bytes]"], full["in use at most [bytes]"]) == ("acc", "512", "0")


def test_memories_are_as_full_as_their_buffers_at_a_time() -> None:
    """Catches a sum over buffers that lie there one after the other, and elements for bytes."""
    place = {"memory": "acc", "copies": 1, "role": "result", "buffer": "b", "tensors": [], "first_instruction": 0}
    spans = [(0, 3, 0, 10), (3, 5, 5, 20), (0, 4, 10, 30)]
    buffers = [
        Allocation.model_validate(
            place | {"begin": a, "end": b, "begin_cycle": c, "end_cycle": d, "last_instruction": 1}
        )
        for a, b, c, d in spans
    ]
    layer = LayerMemory(name="l", begin_cycle=0, end_cycle=30, allocations=buffers)
    plan = MemoryPlan(memories=[OnChipMemory(name="acc", elements=8, element_bytes=64)], layers=[layer])
    (full,) = csv.DictReader(io.StringIO(report_csv({"layers": []}, "memories", plan), newline=""))
    assert (full["in use at most [bytes]"], full["in use at most [share of 1]"]) == (str(6 * 64), "0.75")
    assert full["first at [cycle]"] == "10"


def test_differences_and_stages() -> None:
    found = [{"tensor": "y", "address": 64, "got": 1, "expected": -2, "instruction": None}]
    (row,) = rows_of({"launches": [], "mismatches": found}, "mismatches")
    assert list(row.values()) == ["y", "64", "1", "-2", ""]
    (row,) = rows_of({"layers": [], "stages": [{"name": "emit", "seconds": 0.25}]}, "stages")
    assert row == {"stage": "emit", "time [s]": "0.25"}
