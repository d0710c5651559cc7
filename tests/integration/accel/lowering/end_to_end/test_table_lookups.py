"""Functions of bytes on a machine that looks them up in tables that it loads: each network's own, in the memory beside.

The reference runs the model's own nodes, so a wrong table, one that begins elsewhere and another layer's are found.
"""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from accel.accelerator.checks.document_checks import check_document
from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.report.documents.report_documents import Report
from tests.helpers.marking import rest_slow

FUNCTIONS = ("Tanh", "Elu", "Softplus")


def copy(name: str, opcode: int, direction: str, memory: str) -> dict[str, Any]:
    fields = {"sram": (8, 16), "dram": (32, 32), "rows": (64, 16), "columns": (80, 16), "row_stride": (96, 32)}
    return {
        "name": name,
        "kind": "copy",
        "pragma": f"pragma_{direction}",
        "unit": direction,
        "direction": direction,
        "memory": memory,
        "dram_dtype": "int8",
        "dram_unit": "byte",
        "copy_fields": {field: field for field in fields},
        "fields": [
            {"name": "opcode", "lsb": 0, "bits": 8, "value": opcode},
            *({"name": field, "lsb": lsb, "bits": bits} for field, (lsb, bits) in fields.items()),
        ],
        "cycles": "ceil(bytes / bus_bytes)",
    }


def machine(lanes: int) -> Accelerator:
    """The preset ``vector`` with a memory of tables, one of bytes, and an instruction that looks bytes up."""
    document = load_accelerator("vector").model_dump(mode="json", exclude_none=True)
    table = {"name": "t", "scope": "local.t", "dtype": "int8", "shape": [256], "depth": 4, "ports": 2}
    data = {"name": "b", "scope": "local.b", "dtype": "int8", "shape": [lanes], "depth": 2048, "ports": 3}
    at = "l" if lanes > 1 else "0"
    fields = {"y": (8, 16), "x": (24, 16), "table": (40, 8), "count": (64, 16), "y_step": (80, 8), "x_step": (88, 8)}
    lookup = {
        "name": "lookup",
        "kind": "compute",
        "pragma": "pragma_lookup",
        "unit": "vector",
        "operands": {
            "Y": {"memory": "b", "address": "y"},
            "X": {"memory": "b", "address": "x"},
            "T": {"memory": "t", "address": "table"},
        },
        "operations": [{"name": "lookup", "does": f"Y[{at}] = lut(T[128], X[{at}])"}],
        "loops": [{"extent": "count", "factors": {"Y": "y_step", "X": "x_step"}}],
        "fields": [
            {"name": "opcode", "lsb": 0, "bits": 6, "value": 43},
            *({"name": field, "lsb": lsb, "bits": bits} for field, (lsb, bits) in fields.items()),
        ],
        "cycles": "count + 3",
    }
    document |= {
        "name": "lookups",
        "memories": [*document["memories"], table, data],
        "instructions": [
            *document["instructions"],
            copy("load_t", 40, "load", "t"),
            copy("load_b", 41, "load", "b"),
            copy("store_b", 42, "store", "b"),
            lookup,
        ],
    }
    accelerator = Accelerator.model_validate(document)
    check_document(accelerator)
    return accelerator


def network(size: int) -> onnx.ModelProto:
    """Convolutions with a function behind each."""
    random = np.random.default_rng(size)
    nodes, weights, given, channels = [], [], "x", 8
    for number, function in enumerate((*FUNCTIONS, "")):
        weights.append(
            numpy_helper.from_array(random.normal(0, 0.3, (16, channels, 1, 1)).astype(np.float32), f"w{number}")
        )
        channels = 16
        nodes.append(helper.make_node("Conv", [given, f"w{number}"], [f"c{number}"], name=f"conv{number}"))
        given = f"c{number}"
        if function:
            nodes.append(helper.make_node(function, [given], [f"f{number}"], name=function))
            given = f"f{number}"
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, count, size, size])
        for name, count in (("x", 8), (given, 16))
    ]
    graph = helper.make_graph(nodes, "functions", values[:1], values[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def run(size: int, lanes: int, folder: Path) -> Report:
    path = folder / "model.onnx"
    path.write_bytes(network(size).SerializeToString())
    return run_model(path, machine(lanes), Options(trace=False), folder)


@pytest.mark.parametrize(("size", "lanes"), rest_slow([(16, 16), (24, 1)]))
def test_each_function_has_its_table(size: int, lanes: int, tmp_path: Path) -> None:
    """Catches tables that two layers share, one that is loaded for the first tile alone, and what the host looks up."""
    report = run(size, lanes, tmp_path)
    assert report.verified
    assert [layer.name for layer in report.layers if layer.op == "vector"] == list(FUNCTIONS)
    # behind a layer sixteen lanes have channels side by side, which the host takes apart
    laid_out = FUNCTIONS if lanes > 1 else ()
    assert {op.op for op in report.host_ops} == {"QuantizeLinear", "DequantizeLinear", *laid_out}
    told = {op.reason.rpartition("; ")[2] for op in report.host_ops if op.op in FUNCTIONS}
    assert told <= {"the host lays its data out"}


@pytest.mark.slow
def test_what_is_not_looked_up_is_said(tmp_path: Path) -> None:
    """Rows of five bytes are no whole elements of sixteen: the host's reason is that, and not that nothing looks up."""
    report = run(5, 16, tmp_path)
    assert report.verified
    reasons = {op.reason for op in report.host_ops if op.op in FUNCTIONS}
    why = "its rows are no whole elements of b, of 16 numbers each"
    assert reasons == {f"it is a table of 256 entries: {why}; the host looks it up, in int8"}
