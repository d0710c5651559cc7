"""Expressions that cannot be read, or that do not fit the memories, fields and loops of their instructions."""

from typing import Any

from tests.unit.accel.accelerator.refused.case import Case

_MATMUL = "instructions/matmul/operations/multiply/does"
_VMAC = "instructions/vmac/operations/accumulate/does"
_MAX = "instructions/valu/operations/max_immediate/does"
_SCALE = "instructions/store_scaled/operations/scale/does"


def _three_more_loops(old: Any) -> Any:
    names = ("n0", "n1", "n2")
    fields = [{"name": name, "lsb": 112 + 4 * at, "bits": 4} for at, name in enumerate(names)]
    return old | {"loops": [*old["loops"], *({"extent": name} for name in names)], "fields": [*old["fields"], *fields]}


def _does(name: str, base: str, path: str, text: Any, reason: str) -> Case:
    return Case(name, base, path, text, path, reason)


EXPRESSIONS = (
    _does(
        "a bracket that is open", "mvin-mvout", _MATMUL, "C[i, j] += i32(A[i, k]) * i32(B[k, j]",
        r"column 38: found the end; expected '\)'",
    ),
    _does(
        "no target", "mvin-mvout", _MATMUL, "i32(A[i, k]) * i32(B[k, j])",
        r"column 1: found 'i32'; expected the target, such as C\[i, j\]",
    ),
    _does(
        "nothing on the right", "mvin-mvout", _MATMUL, "C[i, j] +=",
        "column 11: found the end; expected a number, a name",
    ),
    _does(
        "an axis too few", "mvin-mvout", _MATMUL, "C[i, j] += i32(A[i]) * i32(B[i, j])",
        r"A\[i\] has 1 indices; expected 2",
    ),
    _does(
        "weights the wrong way round", "mvin-mvout", _MATMUL, "C[i, j] += i32(A[i, k]) * i32(B[j, k])",
        r"axis j of B\[j, k\] is 8; expected 4 as elsewhere",
    ),
    _does(
        "an operand that is none", "mvin-mvout", _MATMUL, "C[i, j] += i32(A[i, k]) * i32(W[k, j])",
        "found the tensor W; expected one of A, B, C",
    ),
    _does(
        "a cast that is missing", "mvin-mvout", _MATMUL, "C[i, j] += A[i, k] * i32(B[k, j])",
        r"i32\(B\[k, j\]\) is int32 and A\[i, k\] is uint8; expected equal types: cast one",
    ),
    _does(
        "a product before the cast", "mvin-mvout", _MATMUL, "C[i, j] += i32(A[i, k] * B[k, j])",
        r"B\[k, j\] is int8 and A\[i, k\] is uint8; expected equal types: cast one of them",
    ),
    _does(
        "a sum into its own factor", "mvin-mvout", _MATMUL, "C[i, j] += C[i, j] + i32(A[i, k]) * i32(B[k, j])",
        r"'\+=' reads C already; expected '='",
    ),
    _does(
        "a sum over its own target", "mvin-mvout", _MATMUL, "C[i, j] = C[i, j] + i32(A[i, k]) * i32(B[k, j])",
        "the sum over k reads its own target C; expected other operands",
    ),
    _does(
        "a target with one axis twice", "mvin-mvout", _MATMUL, "C[i, i] += i32(A[i, k]) * i32(B[k, i])",
        "the target .* repeats an axis; expected each once",
    ),
    _does(
        "an index beyond the element", "vector", _VMAC, "ACC[l] += i32(X[1]) * i32(W[l])",
        r"X\[1\] has the index 1; expected at most 0",
    ),
    _does(
        "one scalar of data for each lane", "vector", _VMAC, "ACC[l] += i32(X[l]) * i32(W[l])",
        r"axis l of X\[l\] is 1; expected 64 as elsewhere",
    ),
    _does(
        "an immediate that is no field", "vector", _MAX, "DST[l] = max(DST[l], immediate)",
        "found the scalar immediate; expected one of .*imm",
    ),
    _does(
        "an immediate with brackets", "vector", _MAX, "DST[l] = max(DST[l], imm[l])",
        "imm is a scalar; expected no brackets",
    ),
    _does(
        "an operand without brackets", "vector", _MAX, "DST[l] = max(DST[l], SRC)",
        r"it is a tensor; expected SRC\[...\]",
    ),
    _does(
        "a function that is none", "vector", _MAX, "DST[l] = maximum(DST[l], imm)",
        "found 'maximum'; expected a function, one of abs, ceil, clip, erf",
    ),
    _does(
        "a function of three", "vector", _MAX, "DST[l] = max(DST[l], imm, 0)", r"column 25: found ','; expected '\)'",
    ),
    _does(
        "a division", "vector", _MAX, "DST[l] = DST[l] / imm", "DST\\[l\\] / imm is float32; expected int32",
    ),
    _does(
        "two places of one operand", "vector", _MAX, "DST[l] = max(DST[l], DST[0])",
        r"found DST\[0\] beside DST\[l\]; expected the same indices everywhere",
    ),
    _does(
        "a float among integers", "vector", _MAX, "DST[l] = max(DST[l], 0.5)",
        r"0.5 is float32 and DST\[l\] is int32; expected equal types: cast one of them",
    ),
    _does(
        "a literal beyond its type", "vector", _MAX, "DST[l] = max(DST[l], 3000000000)",
        "found 3000000000 as int32; expected an integer from -2147483648 to 2147483647",
    ),
    _does(
        "an integer times a float", "output-stationary", _SCALE,
        "dram[m, n] = i8(clip(rint(sram[m, n] * scale), -128, 127))",
        r"scale is float32 and sram\[m, n\] is int32; expected equal types: cast one",
    ),
    _does(
        "a store that does not narrow", "output-stationary", _SCALE,
        "dram[m, n] = clip(rint(f32(sram[m, n]) * scale), -128, 127)",
        r"is float32; expected int8: cast it or its parts with i8\(\)",
    ),
    _does(
        "rounding of integers", "output-stationary", _SCALE, "dram[m, n] = i8(rint(sram[m, n]))",
        r"sram\[m, n\] is int32; expected float32: cast it with f32\(\)",
    ),
    _does(
        "a store that loads", "output-stationary", _SCALE, "sram[m, n] = i32(dram[m, n])",
        r"found 'sram\[m, n\] = .*; a store writes dram and reads sram",
    ),
    _does(
        "a store of an element's row", "output-stationary", _SCALE, "dram[m] = i8(sram[m, 0])",
        r"dram\[m\] has 1 indices; expected 2, one an axis",
    ),
    _does(
        "an expression that is too deep", "vector", _MAX, "DST[l] = " + "-" * 60 + "DST[l]",
        "found more than 50 levels; expected fewer",
    ),
    Case(
        "factors that do not meet", "mvin-mvout", "memories/b/shape", [4, 4], _MATMUL,
        r"axis k of B\[k, j\] is 4; expected 8 as elsewhere",
    ),
    Case(
        "accumulators of 16 bits", "mvin-mvout", "memories/c/dtype", "int16", _MATMUL,
        r"is int32; expected int16: cast it or its parts with i16\(\)",
    ),
    Case(
        "an operand that does not end in an element", "vector", "instructions/vmac/operands/W",
        lambda old: old | {"shape": [64, 2]}, "instructions/vmac/operands/W/shape",
        r"the last axes must be those of an element of w, \[64\]; found \[64, 2\]",
    ),
    Case(
        "an operand of half an element", "gemmini", "instructions/matmul/operands/B/shape", [16, 8],
        "instructions/matmul/operands/B/shape", r"an element of spad, \[16\]; found \[16, 8\]",
    ),
    Case(
        "a block of another size", "gemmini", "instructions/matmul/operands/B/shape", [8, 16],
        "instructions/matmul/operations/accumulate/does", r"axis k of B\[k, n\] is 8; expected 16 as elsewhere",
    ),
    Case(
        "a field of two parts", "gemmini", "instructions/matmul/operations/accumulate/does",
        "C[n] += i32(A[k]) * i32(B[k, n]) + funct", "instructions/matmul/operations/accumulate/does",
        "found the scalar funct; expected one of subtype, dataflow",
    ),
    Case(
        "a loop over a field that is none", "parts", "instructions/matmul",
        lambda old: old | {"loops": [{"extent": "go.count", "steps": {"A": 256}}]},
        "instructions/matmul/loops/0/extent", "no field go.count",
    ),
    Case(
        "a step over the whole memory", "output-stationary", "instructions/multiply/loops/0",
        lambda old: old | {"steps": {"C": 32}}, "instructions/multiply/loops/0/steps/C",
        "32; c has 32 elements, so a step is less than that, up or down",
    ),
    Case(
        "a step that is given twice", "output-stationary", "instructions/multiply/loops/0",
        lambda old: old | {"steps": {"A": 1}}, "instructions/multiply/loops/0/steps",
        r"A has its step in a field already \(factors\)",
    ),
    Case(
        "four loops in hardware", "output-stationary", "instructions/multiply", _three_more_loops,
        "instructions/multiply/loops", "4 hardware loops; at most 3",
    ),
    Case(
        "an ALU that VTA has not", "vta", "instructions/alu/operations/min/does", "dst[b, o] = abs(dst[b, o])",
        "instructions/alu/operations/min/does", r"no VTA computes 'dst\[b, o\] = abs.*one computes: ",
    ),
    Case(
        "a VTA's store that multiplies", "vta", "instructions/store_out/operations/narrow/does",
        "dram[b, o] = i8(sram[b, o] * 2)", "instructions/store_out/operations/narrow/does",
        "no kernel does it, but one does 'dram",
    ),
)  # fmt: skip
