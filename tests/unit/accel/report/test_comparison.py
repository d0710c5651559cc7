"""Comparing reports: documents field by field, layers by the nodes they compute, causes that add up."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.catalog.load_accelerator import canonical, load_accelerator
from accel.errors import InvalidReport
from accel.report.compare.comparison import Run, compare_runs, differences, read_document, read_report
from accel.report.end_to_end import DramTensors, PricedStep, end_to_end

LEAF = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.text("a/~", max_size=2))
NAMED = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from("pqrs"), "x": LEAF}), max_size=4, unique_by=lambda item: item["name"]
)
JSON = st.recursive(
    LEAF | NAMED,
    lambda inner: st.dictionaries(st.text("a/~", max_size=2), inner, max_size=3) | st.lists(inner, max_size=3),
    max_leaves=12,
)


def at(document: Any, pointer: str) -> Any:
    """The value at a JSON pointer; None where it is not there (RFC 6901)."""
    for part in pointer.split("/")[1:]:
        key: Any = part.replace("~1", "/").replace("~0", "~")
        if isinstance(document, list):
            document = document[int(key)] if int(key) < len(document) else None
        else:
            document = (document or {}).get(key)
    return document


@given(JSON)
def test_a_document_does_not_differ_from_itself(document: Any) -> None:
    assert not list(differences(document, copy.deepcopy(document)))


@given(JSON, JSON)
def test_documents_that_differ_do_so_where_it_says(one: Any, other: Any) -> None:
    found = list(differences(one, other))
    assert bool(found) == (json.dumps(sorted_names(one)) != json.dumps(sorted_names(other)))
    for each in found:
        if each.before is not None:
            assert at(one, each.field) == each.before
    back = [(each.before, each.after) for each in differences(other, one)]
    assert sorted(map(str, back)) == sorted(str((each.after, each.before)) for each in found)


def sorted_names(value: Any) -> Any:
    """Lists of items with names of their own have no order, and objects none."""
    if isinstance(value, dict):
        return {key: sorted_names(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        items = [sorted_names(item) for item in value]
        named = bool(items) and all(isinstance(item, dict) and isinstance(item.get("name"), str) for item in items)
        unique = named and len({item["name"] for item in items}) == len(items)
        return sorted(items, key=lambda item: item["name"]) if unique else items
    return value


def test_a_changed_accelerator_differs_where_it_was_changed() -> None:
    before = json.loads(canonical(load_accelerator("vta")))
    after = copy.deepcopy(before)
    after["dram"]["bus_bytes"] = 16
    moved = after["memories"].pop(0)  # another place is no difference
    after["memories"].append({**moved, "depth": 1})
    found = {each.field: (each.before, each.after) for each in differences(before, after)}
    assert found == {"/dram/bus_bytes": (8, 16), "/memories/0/depth": (moved["depth"], 1)}


def account(**categories: dict[str, int]) -> dict[str, Any]:
    return {"total": categories, "units": {}}


def layer(name: str, nodes: list[str], found: dict[str, Any] | None, cycles: int | None = None) -> dict[str, Any]:
    total = sum(sum(causes.values()) for causes in found["total"].values()) if found else 0
    numbers = {"macs": 5, "lower_bound": 1, "utilisation": 0.5, "gemm_share": 0.5, "load_overlap": 0.0}
    return {
        "name": name,
        "op": "conv2d",
        "nodes": nodes,
        "cycles": total if cycles is None else cycles,
        **numbers,
        "bytes_read": 10,
        "bytes_written": 1,
        "instructions": 2,
        "account": found,
    }


SOURCE = {"name": "vta", "title": "VTA", "label": None, "sha256": None, "id": "d" * 64}
MODEL = {"statement": "modelled", "calibrated": False, "exact": 0, "of": 0, "worst_percent": None, "outside": []}
VERSIONS = dict.fromkeys(("cyclops", "sources", "tvm", "onnxruntime", "onnx", "numpy", "python", "machine"), "1")


def report(layers: list[dict[str, Any]], *, host: tuple[str, ...] = (), **changes: Any) -> dict[str, Any]:
    accounts = [each["account"] for each in layers]
    total: dict[str, dict[str, int]] = {}
    for each in accounts:
        for category, causes in each["total"].items() if each else ():
            for cause, cycles in causes.items():
                total.setdefault(category, {}).setdefault(cause, 0)
                total[category][cause] += cycles
    origin = {"versions": VERSIONS, "cpu": None, "model": "m", "program": None, "accelerator": SOURCE, "inputs": None}
    return {
        "accelerator": "vta",
        "provenance": origin | {"calibration": None, "options": {"seed": 0}},
        "verified": True,
        "cycles": sum(each["cycles"] for each in layers),
        "macs": {"total": 10, "accelerator": 10, "share": 1.0},
        "units": {},
        "warnings": [],
        "layers": layers,
        "host_ops": [{"node": node, "op": "Relu", "reason": "none"} for node in host],
        "quantisation": [],
        "program": {"instructions": 4, "launches": 2, "host_steps": 0, "dram_bytes": 9},
        "timing_model": MODEL,
        "stages": [],
        "account": account(**total) if all(accounts) else None,
    } | changes


def run(document: dict[str, Any], accelerator: Any = None) -> Run:
    return Run(read_report(json.dumps(document).encode(), "a"), accelerator)


def test_layers_are_matched_by_their_nodes_however_they_are_cut() -> None:
    conv, add = account(busy={"gemm": 100}, memory={"load_wgt": 20}), account(busy={"alu": 7})
    both = account(busy={"gemm": 60, "alu": 5}, memory={"load_wgt": 50})
    before = report([layer("conv", ["conv", "relu"], conv), layer("add", ["add"], add), layer("only", ["x"], add)])
    after = report([layer("fused", ["conv", "relu", "add"], both), layer("new", [], conv)], host=("x",))
    found = compare_runs(run(before), run(after))
    rows = {row.name: row for row in found.layers}
    assert set(rows) == {"conv", "only", "new"}
    fused = rows["conv"]
    assert (fused.nodes, fused.a.names, fused.b.names) == (["conv", "relu", "add"], ["conv", "add"], ["fused"])
    assert (fused.a.cycles, fused.b.cycles, fused.difference) == (127, 115, -12)
    assert {(each.category, each.cause, each.a, each.b, each.difference) for each in fused.causes} == {
        ("busy", "gemm", 100, 60, -40),
        ("busy", "alu", 7, 5, -2),
        ("memory", "load_wgt", 20, 50, 30),
    }
    assert (fused.main_cause.cause, fused.main_cause.difference) == ("gemm", -40)
    assert (rows["only"].b, rows["only"].difference) == (None, -7)
    assert (rows["new"].a, rows["new"].difference) == (None, 120)
    assert found.host_only_b == ["x"]
    assert found.host_only_a == []
    sizes = [abs(row.difference) for row in found.layers]
    assert sizes == sorted(sizes, reverse=True)


COUNTS = st.dictionaries(st.sampled_from(["gemm", "alu", "load"]), st.integers(1, 50), max_size=3)
ACCOUNTS = st.fixed_dictionaries({}, optional={"busy": COUNTS, "memory": COUNTS, "other": COUNTS})
LAYERS = st.lists(st.tuples(st.sets(st.sampled_from("abcdef"), max_size=3), ACCOUNTS), max_size=6)


@pytest.mark.slow
@given(LAYERS, LAYERS)
def test_all_differences_add_up(one: Any, other: Any) -> None:
    sides = [
        report([layer(f"l{n}", sorted(nodes), account(**found)) for n, (nodes, found) in enumerate(side)])
        for side in (one, other)
    ]
    found = compare_runs(run(sides[0]), run(sides[1]))
    assert found.difference == sum(row.difference for row in found.layers) == sum(c.difference for c in found.causes)
    for row in found.layers:
        assert row.difference == sum(cause.difference for cause in row.causes)
    names = sorted(name for row in found.layers for name in (row.a.names if row.a else []))
    assert names == [f"l{n}" for n in range(len(one))]
    seen: list[str] = [node for row in found.layers for node in row.nodes]
    assert len(seen) == len(set(seen))  # no node is in two rows


def test_reports_that_do_not_say_where_cycles_went_are_compared_without() -> None:
    before = report([layer("conv", ["conv"], None, 130)])
    for key in ("account", "limits", "machine", "seconds", "energy_pj"):
        before.pop(key, None)
    for each in before["layers"]:
        each.pop("account")
    after = report([layer("conv", ["conv"], account(busy={"gemm": 100}))])
    found = compare_runs(run(before), run(after, {"name": "vta"}))
    assert (found.difference, found.causes) == (-30, None)
    assert (found.layers[0].difference, found.layers[0].causes, found.layers[0].main_cause) == (-30, None, None)
    assert found.document is None
    assert found.document_left_out == "there is no accelerator.json of a, as earlier versions kept none"
    assert found.a.seconds is None


def test_origins_differ_where_they_do() -> None:
    before, after = report([]), report([])
    after["provenance"]["options"] = {"seed": 1}
    after["provenance"]["versions"] = VERSIONS | {"tvm": "2"}
    after["provenance"]["accelerator"] = SOURCE | {"id": "e" * 64}
    found = compare_runs(run(before), run(after))
    assert {each.field: each.after for each in found.provenance} == {"/versions/tvm": "2", "/options/seed": 1}
    assert found.b.document == "e" * 64


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"{", "the report cannot be read: it is not JSON"),
        (b'{"cycles": 3}', "it is no report of this version of Cyclops: accelerator: Field required; run it again"),
        (b"[1]", "it is no report of this version"),
        (b'{"a": 1, "a": 2}', "comes twice"),
    ],
)
def test_what_is_no_report_is_refused(data: bytes, told: str) -> None:
    with pytest.raises(InvalidReport, match=told) as caught:
        read_report(data, "b")
    assert caught.value.field == "b"


def test_what_is_no_document_is_refused() -> None:
    with pytest.raises(InvalidReport, match="the document cannot be read"):
        read_document(b"\xff", "a")


def test_end_to_end_times_are_compared_without_their_steps() -> None:
    steps = [PricedStep("a", "launch", (), ("x",), ("y",), cycles=2000, bound=1500)]
    tensors = DramTensors({"x": 64, "y": 64}, ("x",), ("y",))
    found = end_to_end(steps, tensors, load_accelerator("vta"), bounded=True)
    compared = compare_runs(run(report([], end_to_end=found.model_dump())), run(report([])))
    assert compared.a.end_to_end is not None
    assert compared.a.end_to_end.model_dump() == found.model_dump(exclude={"steps"})
    assert compared.b.end_to_end is None
