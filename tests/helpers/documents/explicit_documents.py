"""A small machine with everything that the family executes, and streams for it."""

import functools
import json
from typing import Any

import numpy as np

from accel.accelerator.checks.document_checks import check_document
from accel.accelerator.document import Accelerator
from accel.isa.decode import Decoded
from accel.isa.explicit.explicit_family import FAMILY
from tests.reference.encode import of_columns

UNITS = ("load", "compute", "store")
TOKENS = {
    "load": {"pop": {"compute": "pop"}, "push": {"compute": "push"}},
    "compute": {
        "pop": {"load": "pop", "store": "pop_store"},
        "push": {"load": "push", "store": "push_store"},
    },
    "store": {"pop": {"compute": "pop"}, "push": {"compute": "push"}},
}
PAD = ("pad_top", "pad_bottom", "pad_left", "pad_right")


def document(synchronisation: dict[str, Any], ports: int = 2, *, shared_bus: bool = False) -> Accelerator:
    """Data (int8 [2]), weights (int8 [2, 2]) and results (int32 [2, 2]); to load, compute and store is a unit each.

    On a shared bus a row of load_c takes two cycles at least, and store_wide one more than its bytes.
    """
    return _document(json.dumps(synchronisation), ports, shared_bus)


@functools.cache
def _document(text: str, ports: int, shared_bus: bool) -> Accelerator:
    synchronisation = json.loads(text)
    instructions = [
        _copy("load_x", 1, "load", "x", "int8", dram_unit="byte", pads=True),
        _copy("load_w", 2, "load", "w", "int8"),
        _copy("load_c", 3, "load", "c", "int32"),
        _gemm(),
        _alu(),
        _copy("store", 6, "store", "c", "int8", dram_unit="byte") | _scaled(),
        _copy("store_wide", 7, "store", "c", "int32"),
        {"name": "nop", "kind": "sync", "unit": "compute", "fields": [_field("opcode", 0, 4, value=8)], "cycles": "0"},
    ]
    if shared_bus:
        instructions[2]["bus_cycles"] = "max(ceil(bytes / bus_bytes), 2 * rows)"
        instructions[6]["bus_cycles"] = "ceil(bytes / bus_bytes) + 1"
    if synchronisation["kind"] == "tokens":
        for instruction in instructions:
            instruction["tokens"] = TOKENS[instruction["unit"]]
            for lsb, name in enumerate(("pop", "push", "pop_store", "push_store"), 4):
                instruction["fields"].append(_field(name, lsb, 1))
    found = {
        "name": "small",
        "title": "Small",
        "family": "explicit",
        "word_bits": 192,
        "memories": [
            {"name": "x", "scope": "local.x", "dtype": "int8", "shape": [2], "depth": 12, "ports": ports},
            {"name": "w", "scope": "local.w", "dtype": "int8", "shape": [2, 2], "depth": 8, "ports": ports},
            {"name": "c", "scope": "local.c", "dtype": "int32", "shape": [2, 2], "depth": 10, "ports": ports},
        ],
        "units": list(UNITS),
        "synchronisation": synchronisation,
        "dram": {"bus_bytes": 4, "read_latency": 5, "shared_by": ["load", "store"] if shared_bus else []},
        "instructions": instructions,
    }
    accelerator = Accelerator.model_validate(found)
    check_document(accelerator)
    FAMILY.check(accelerator)
    return accelerator


def _field(name: str, lsb: int, bits: int, **more: Any) -> dict[str, Any]:
    return {"name": name, "lsb": lsb, "bits": bits, **more}


def _copy(
    name: str, opcode: int, direction: str, memory: str, dtype: str, *, dram_unit: str = "element", pads: bool = False
) -> dict[str, Any]:
    names = ["sram", "dram", "rows", "columns", "row_stride", *(PAD if pads else ())]
    fields = [
        _field("opcode", 0, 4, value=opcode),
        _field("sram", 16, 8),
        _field("dram", 32, 16),
        _field("rows", 64, 4),
        _field("columns", 68, 4),
        _field("row_stride", 72, 12),
        *(_field(name, 84 + 2 * lsb, 2) for lsb, name in enumerate(PAD if pads else ())),
    ]
    latency = "read_latency + " if direction == "load" else ""
    return {
        "name": name,
        "kind": "copy",
        "pragma": f"pragma_{name}",
        "unit": direction,
        "direction": direction,
        "memory": memory,
        "dram_dtype": dtype,
        "dram_unit": dram_unit,
        "copy_fields": {name: name for name in names},
        "fields": fields,
        "cycles": f"{latency}ceil(bytes / bus_bytes)",
    }


def _scaled() -> dict[str, Any]:
    base = _copy("store", 6, "store", "c", "int8", dram_unit="byte")
    does = "dram[i, j] = i8(clip(rint(f32(sram[i, j]) * scale), -128, 127))"
    return {
        "fields": [*base["fields"], _field("scale", 128, 32, type="float32"), _field("how", 160, 2)],
        "operations": [
            {"name": "scaled", "when": {"how": 0}, "does": does},
            {"name": "low", "when": {"how": 1}, "does": "dram[i, j] = i8(sram[i, j])"},
        ],
    }


def _gemm() -> dict[str, Any]:
    return {
        "name": "gemm",
        "kind": "compute",
        "pragma": "pragma_gemm",
        "unit": "compute",
        "operands": {
            "X": {"memory": "x", "shape": [2, 2], "address": "x"},
            "W": {"memory": "w", "address": "w"},
            "C": {"memory": "c", "address": "c"},
        },
        "operations": [
            {"name": "accumulate", "when": {"op": 0}, "does": "C[i, j] += i32(X[i, k]) * i32(W[j, k])"},
            {"name": "zero", "when": {"op": 1}, "does": "C[i, j] = 0"},
        ],
        "loops": [
            {"extent": "outer", "factors": {"X": "x_outer", "C": "c_outer"}, "steps": {"W": -1}},
            {"extent": "inner", "factors": {"X": "x_inner", "W": "w_inner"}, "limit": 5},
        ],
        "fields": [
            _field("opcode", 0, 4, value=4),
            _field("op", 8, 2),
            _field("x", 16, 5),
            _field("w", 24, 5),
            _field("c", 32, 5),
            _field("outer", 64, 3),
            _field("inner", 68, 3),
            _field("x_outer", 72, 3),
            _field("c_outer", 76, 3),
            _field("x_inner", 80, 3),
            _field("w_inner", 84, 3),
        ],
        "cycles": "2 + outer * inner",
    }


def _alu() -> dict[str, Any]:
    operations = [
        "D[i, j] = D[i, j] + S[i, j]",
        "D[i, j] = max(D[i, j], imm)",
        "D[i, j] = D[i, j] >> imm",
        "D[i, j] = S[i, j]",
    ]
    return {
        "name": "alu",
        "kind": "compute",
        "pragma": "pragma_alu",
        "unit": "compute",
        "operands": {"D": {"memory": "c", "address": "d"}, "S": {"memory": "c", "address": "s"}},
        "operations": [
            {"name": f"op{value}", "when": {"op": value}, "does": does} for value, does in enumerate(operations)
        ],
        "loops": [{"extent": "count", "factors": {"S": "s_step"}, "steps": {"D": 1}}],
        "fields": [
            _field("opcode", 0, 4, value=5),
            _field("op", 8, 2),
            _field("d", 16, 4),
            _field("s", 24, 4),
            _field("count", 64, 3),
            _field("s_step", 68, 2),
            _field("imm", 96, 8, type="signed"),
        ],
        "cycles": "1 + count",
    }


def stream(accelerator: Accelerator, rows: list[dict[str, Any]]) -> Decoded:
    """A launch of ``rows``: each has the instruction's name as ``op``, and fields; the others are 0, extents 1."""
    names = [instruction.name for instruction in accelerator.instructions]
    kind = np.array([names.index(row["op"]) for row in rows], np.int16)
    fields = {field.name for instruction in accelerator.instructions for field in instruction.fields}
    columns = {name: np.zeros(len(rows), np.int64) for name in fields}
    for at, row in enumerate(rows):
        for field in accelerator.instructions[kind[at]].fields:
            default = 1 if field.name in ("rows", "columns", "outer", "inner", "count") else 0
            value = field.value if field.value is not None else row["fields"].get(field.name, default)
            columns[field.name][at] = value
        unknown = set(row["fields"]) - {field.name for field in accelerator.instructions[kind[at]].fields}
        assert not unknown, unknown
    return of_columns(accelerator, kind, columns)


def row(op: str, /, **fields: int) -> dict[str, Any]:
    """One instruction of :func:`stream`."""
    return {"op": op, "fields": fields}


def random_rows(
    rng: np.random.Generator, count: int, accelerator: Accelerator, dram_bytes: int
) -> list[dict[str, Any]]:
    """Instructions that stay within the memories and ``dram_bytes`` of DRAM."""
    tokens = accelerator.synchronisation.kind == "tokens"
    return [_random_row(rng, dram_bytes, tokens=tokens) for _ in range(count)]


def _random_row(rng: np.random.Generator, dram_bytes: int, *, tokens: bool) -> dict[str, Any]:
    def below(limit: int) -> int:
        return int(rng.integers(limit))

    op = ("load_x", "load_w", "load_c", "gemm", "gemm", "alu", "alu", "store", "store_wide", "nop")[below(10)]
    if op == "nop":
        found = row(op)
    elif op == "gemm":
        fields = {"op": below(2), "x": below(3), "w": 3 + below(5), "c": below(4)}
        fields |= {"outer": below(4), "inner": below(4), "x_outer": below(2), "c_outer": below(3)}
        found = row(op, **fields, x_inner=below(2), w_inner=0 if fields["w"] > 5 else below(2))
    elif op == "alu":
        d, s = below(7), below(4)
        found = row(op, op=below(4), d=d, s=s, count=below(4), s_step=below(3), imm=below(256) - 128)
    else:
        found = _random_copy(op, below, dram_bytes, rng)
    if tokens:
        names = ("pop", "push", *(("pop_store", "push_store") if op in ("gemm", "alu", "nop") else ()))
        found["fields"] |= {name: int(below(4) < (1 if name.startswith("pop") else 2)) for name in names}
    return found


def _random_copy(op: str, below: Any, dram_bytes: int, rng: np.random.Generator) -> dict[str, Any]:
    memory = {"load_x": (12, 1), "load_w": (8, 4)}.get(op, (10, 1 if op == "store" else 16))
    depth, unit = memory
    rows, columns, stride = below(3), below(3), below(12)
    pads = {name: below(2) for name in PAD} if op == "load_x" else {}
    if rows == columns == 2:
        pads = pads and {**pads, "pad_bottom": 0}  # x has 12 elements
    height = rows + pads.get("pad_top", 0) + pads.get("pad_bottom", 0)
    width = columns + pads.get("pad_left", 0) + pads.get("pad_right", 0)
    size = {"load_x": 2, "store": 4}.get(op, 1)  # of an element in the unit of its addresses
    reach = (2 * stride + 2 * size) * unit
    fields = {"sram": below(max(1, depth - height * width + 1)), "dram": below((dram_bytes - reach) // unit)}
    fields |= {"rows": rows, "columns": columns, "row_stride": stride, **pads}
    if op == "store":
        scale = np.float32(rng.choice([0.5, 0.0123, 3.7, 1.0]))
        fields |= {"how": below(2), "scale": int(scale.view(np.uint32))}
    return row(op, **fields)
