"""A small document whose compute instruction is encoded as two words."""

from typing import Any


def document() -> dict[str, Any]:
    field = {"name": "code", "lsb": 0, "bits": 4}
    return {
        "name": "two-words",
        "title": "Two words",
        "family": "explicit",
        "word_bits": 64,
        "units": ["dma", "array"],
        "synchronisation": {"kind": "in_order"},
        "memories": [
            {"name": "a", "scope": "local.a", "dtype": "int8", "shape": [16], "depth": 256},
            {"name": "c", "scope": "local.c", "dtype": "int32", "shape": [16], "depth": 64},
        ],
        "instructions": [
            {
                "kind": "copy",
                "name": "mvin",
                "unit": "dma",
                "pragma": "pragma_mvin",
                "direction": "load",
                "memory": "a",
                "dram_dtype": "int8",
                "dram_unit": "byte",
                "max_rows": 16,
                "copy_fields": {"sram": "sram", "dram": "dram", "rows": "rows"},
                "fields": [
                    field | {"value": 1},
                    {"name": "sram", "lsb": 4, "bits": 8},
                    {"name": "rows", "lsb": 12, "bits": 5},
                    {"name": "dram", "lsb": 32, "bits": 32},
                ],
                "energy": "2 * bytes + elements",
            },
            {
                "kind": "part",
                "name": "preload",
                "unit": "array",
                "fields": [
                    field | {"value": 2},
                    {"name": "weights", "lsb": 4, "bits": 8},
                    {"name": "results", "lsb": 12, "bits": 8},
                    {"name": "scale", "lsb": 32, "bits": 32, "type": "float32"},
                ],
                "energy": "4 * scale",
            },
            {
                "kind": "part",
                "name": "go",
                "unit": "array",
                "fields": [
                    field | {"value": 3},
                    {"name": "data", "lsb": 4, "bits": 8},
                    {"name": "n", "lsb": 12, "bits": 5},
                ],
            },
            {
                "kind": "compute",
                "name": "matmul",
                "unit": "array",
                "pragma": "pragma_matmul",
                "sequence": ["preload", "go"],
                "operands": {
                    "C": {"memory": "c", "address": "preload.results"},
                    "A": {"memory": "a", "address": "go.data"},
                    "B": {"memory": "a", "shape": [16, 16], "address": "preload.weights"},
                },
                "operations": [{"name": "multiply", "does": "C[j] += i32(A[k]) * i32(B[k, j])"}],
                "loops": [{"extent": "go.n", "limit": 16, "steps": {"A": 1, "C": 1}}],
                "cycles": "go.n + n + read_latency",
            },
        ],
    }
