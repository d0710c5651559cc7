"""Memories that do not hold one tile of what is worked on, or more than is simulated."""

from typing import Any

from tests.unit.accel.accelerator.refused.case import Case


def _operand(shape: list[int]) -> Any:
    return lambda old: old | {"shape": shape}


def _weights(old: Any) -> Any:
    """All of the memory as one operand, of which an execution reads a row."""
    operands = old["operands"] | {"B": old["operands"]["B"] | {"shape": [4096, 8]}}
    does = "C[m, n] += i32(A[m]) * i32(B[0, n])"
    return old | {"operands": operands, "operations": [{"name": "accumulate", "does": does}]}


CAPACITY = (
    Case(
        "a memory of half a factor", "gemmini", "parameters", {"scratchpad_bytes": 128}, "parameters/scratchpad_bytes",
        "greater than or equal to 1024", beyond_types=False,
    ),
    Case(
        "factors that fit one by one only", "shared", "memories/a/depth", 1, "memories/a/depth",
        r"1 elements; multiply works on 2 of a at once \(1 of A, 1 of B\): at least 2",
    ),
    Case(
        "weights that leave no room for data", "shared", "instructions/multiply", _weights, "memories/a/depth",
        r"4096 elements; multiply works on 4097 of a at once \(1 of A, 4096 of B\): at least 4097",
    ),
    Case(
        "an operand larger than its memory", "output-stationary", "instructions/multiply/operands/A",
        _operand([8192, 8]), "instructions/multiply/operands/A/shape", "8192 elements of a, which has 4096",
    ),
    Case(
        "more on the chip than is simulated", "mvin-mvout", "memories/c/depth", 1 << 25, "memories/c/depth",
        "bytes of memories together; at most 1073741824",
    ),
    Case(
        "an element larger than is simulated", "vector", "memories",
        lambda old: [*old, old[-1] | {"name": "d", "scope": "local.d", "shape": [1 << 17]}], "memories/d/shape",
        "524288 bytes of an element; at most 65536",
    ),
    Case(
        "a VTA's memory beyond 16 MiB", "vta", "memories/wgt/depth", 1 << 17, "memories/wgt/depth",
        "33554432 bytes; at most 16777216",
    ),
    Case(
        "more micro-ops than are addressed", "vta", "memories/uop/depth", 8193, "instructions/gemm/microops/begin",
        "13 bits do not address the 8193 elements of uop",
    ),
    Case(
        "micro-ops of 64 bits", "vta", "memories/uop/shape", [2], "instructions/gemm/microops/memory",
        "a micro-op is one word of 32 bits",
    ),
    Case(
        "a scratchpad that its parameters do not say", "gemmini", "memories/spad/depth", 8192,
        "memories/spad/depth", "spad has 8192; with these parameters it must be 16384",
    ),
    Case(
        "a third memory of Gemmini", "gemmini", "memories",
        lambda old: [*old, old[0] | {"name": "more", "scope": "local.more"}], "memories/2",
        "more is one too many; a Gemmini has a scratchpad and an accumulator",
    ),
)  # fmt: skip
