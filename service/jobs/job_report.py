"""The report that an ended job left: read with a bound, and its tables as CSV (RFC 4180)."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import pydantic

from accel.report.documents.end_to_end_documents import PARTS
from accel.report.documents.end_to_end_spans import part_spans
from accel.report.documents.memory_documents import MemoryPlan
from accel.report.documents.memory_occupancy import memory_occupancy
from accel.report.documents.report_documents import Report, SimulationReport
from accel.trace.perfetto.modelled_tracks import ModelledSpan
from worker.records.job_artifacts import Artifacts

REPORT = "report.json"
_MOST_BYTES = 8 << 20  # of a report that is parsed for somebody: thousands of layers
_REPORTS: pydantic.TypeAdapter[Report | SimulationReport] = pydantic.TypeAdapter(Report | SimulationReport)

TableName = Literal[
    "layers",
    "steps",
    "cycles",
    "limits",
    "accuracy",
    "tensors",
    "host-ops",
    "mismatches",
    "stages",
    "memory",
    "memories",
]
PLAN_TABLES = frozenset({"memory", "memories"})
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_COLUMNS: Mapping[TableName, Mapping[str, str]] = {
    "layers": {
        "number": "layer",
        "name": "name",
        "op": "operator",
        "cycles": "cycles",
        "overhead_cycles": "launch and caches, modelled [cycles]",
        "lower_bound": "lower bound [cycles]",
        "utilisation": "utilisation [share of 1]",
        "limited_by": "limited by",
        "macs": "multiply-accumulates",
        "bytes_read": "read [bytes]",
        "bytes_written": "written [bytes]",
        "instructions": "instructions",
        "energy_pj": "energy [pJ]",
        "nodes": "nodes",
    },
    "steps": {
        "number": "step",
        "name": "name",
        "kind": "runs on",
        "begin": "begin [cycle]",
        "accelerator": "accelerator [cycles]",
        "host": "host, modelled [cycles]",
        "movement": "movement, modelled [cycles]",
        "elements": "elements by class",
        "nbytes": "read and written by the host [bytes]",
        "crossing": "cleaned or invalidated [bytes]",
        "nodes": "nodes",
    },
    "cycles": {
        "layer": "layer",
        "name": "name",
        "unit": "unit",
        "category": "category",
        "cause": "cause",
        "cycles": "cycles",
    },
    "limits": {
        "change": "change",
        "resource": "resource",
        "fields": "fields",
        "cycles": "cycles",
        "gain": "saved [share of 1]",
    },
    "accuracy": {
        "output": "output",
        "sqnr_db": "SQNR [dB]",
        "cosine": "cosine similarity",
        "float_sqnr_db": "SQNR to the float model [dB]",
        "float_cosine": "cosine similarity to the float model",
    },
    "tensors": {
        "tensor": "tensor",
        "node": "node",
        "sqnr_db": "SQNR to the float network [dB]",
        "before_db": "SQNR of what it is made of [dB]",
        "scale": "scale",
        "zero_point": "zero point",
    },
    "host-ops": {"node": "node", "op": "operator", "reason": "reason"},
    "mismatches": {
        "tensor": "tensor",
        "address": "DRAM address [byte]",
        "got": "found",
        "expected": "expected",
        "instruction": "stored by instruction",
    },
    "stages": {"name": "stage", "seconds": "time [s]"},
    "memories": {
        "name": "memory",
        "bytes": "size [bytes]",
        "peak_bytes": "in use at most [bytes]",
        "share": "in use at most [share of 1]",
        "peak_cycle": "first at [cycle]",
    },
    "memory": {
        "layer": "layer",
        "name": "name",
        "memory": "memory",
        "role": "role",
        "buffer": "buffer",
        "tensors": "tensors",
        "begin": "first element",
        "end": "element after the last",
        "bytes": "size [bytes]",
        "copies": "copies",
        "begin_cycle": "begin [cycle]",
        "end_cycle": "end [cycle]",
        "first_instruction": "first instruction",
        "last_instruction": "last instruction",
    },
}


def read_report(artifacts: Artifacts) -> dict[str, Any] | None:
    """Returns the report as it is in JSON; None if there is none, or one that is too large or of another version."""
    try:
        size = artifacts.get(REPORT).bytes
    except KeyError:
        return None
    if size > _MOST_BYTES:
        return None
    try:  # the job's process wrote it, of whatever version it was
        return _REPORTS.validate_json(artifacts.read(REPORT, 0, size)).model_dump()
    except pydantic.ValidationError:
        return None


def modelled_spans(found: Mapping[str, Any]) -> list[ModelledSpan]:
    """Returns a report's end-to-end time as tracks beside its trace: of accelerator, host and movement."""
    spans = sorted(part_spans(found["steps"]), key=lambda span: PARTS.index(span.part))
    return [ModelledSpan(span.part, span.step, span.begin, span.end) for span in spans]


def report_csv(report: Mapping[str, Any], table: TableName, plan: MemoryPlan | None = None) -> str:
    """Returns a table of a report as CSV, units in its header; a value that the report lacks is an empty cell.

    Args:
        report: of a model's job, or of a program's.
        table: ``layers`` in the program's order, counted from 1; ``steps``, end to end, launches and host steps;
            ``cycles``, where they went, of the whole (layer 0) and of each layer, by unit, category and cause, where
            no unit means the accelerator as a whole; ``limits``, the changes that were timed; ``accuracy``, of
            outputs; ``tensors``, that of each; ``host-ops``; ``mismatches``, elements that differ from what was
            expected; ``stages``, of the job, with their times; ``memory``, the memory plan; ``memories``, how full
            each one is at most.
        plan: the memory plan, if the job left one.
    """
    text, columns = io.StringIO(), _COLUMNS[table]
    writer = csv.writer(text)
    writer.writerow(columns.values())
    rows = _plan_rows(plan, table) if table in PLAN_TABLES else _rows(report, table)
    writer.writerows([csv_cell(row.get(key)) for key in columns] for row in rows)
    return text.getvalue()


def _rows(report: Mapping[str, Any], table: TableName) -> Iterator[Mapping[str, Any]]:
    layers: Sequence[Mapping[str, Any]] = report["layers"] if "layers" in report else report["launches"]
    if table == "layers":
        yield from ({"number": number, **layer} for number, layer in enumerate(layers, 1))
    elif table == "steps":
        for number, step in enumerate((report.get("end_to_end") or {}).get("steps", ()), 1):
            elements = [f"{kind} {count}" for kind, count in step["elements"].items()]
            runs_on = "host" if step["kind"] == "host" else "accelerator"
            yield {"number": number, **step, "kind": runs_on, "elements": elements}
    elif table == "cycles":
        for number, part in enumerate([{"name": "", "account": report.get("account")}, *layers]):
            yield from ({"layer": number, "name": part["name"], **row} for row in _account_rows(part.get("account")))
    elif table == "limits":
        for change in (report.get("limits") or {}).get("changes", ()):
            fields = [f"{field['field']}: {field['before']} to {field['after']}" for field in change["fields"]]
            yield {**change, "fields": fields}
    else:
        yield from report.get({"accuracy": "quantisation", "host-ops": "host_ops"}.get(table, table)) or ()


def _plan_rows(plan: MemoryPlan | None, table: TableName) -> Iterator[Mapping[str, Any]]:
    if plan is None:
        return
    if table == "memories":
        for full in memory_occupancy(plan):
            share = full.peak_bytes / full.bytes
            use = {"bytes": full.bytes, "peak_bytes": full.peak_bytes, "share": share, "peak_cycle": full.held.peak_at}
            yield {"name": full.memory.name, **use}
    else:
        element_bytes = {memory.name: memory.element_bytes for memory in plan.memories}
        for number, layer in enumerate(plan.layers, 1):
            for each in layer.allocations:
                size = (each.end - each.begin) * element_bytes[each.memory]
                yield {"layer": number, "name": layer.name, "bytes": size, **each.model_dump()}


def _account_rows(account: Mapping[str, Any] | None) -> Iterator[Mapping[str, Any]]:
    if account is not None:
        for unit, shares in {"": account["total"], **account["units"]}.items():
            for category, causes in shares.items():
                for cause, cycles in causes.items():
                    yield {"unit": unit, "category": category, "cause": cause, "cycles": cycles}


def csv_cell(value: object) -> object:
    """Returns the value, a list as one text; text that a spreadsheet would compute begins with an apostrophe."""
    if isinstance(value, list):
        value = "; ".join(map(str, value))
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
