"""Instructions as large as a layer that say what cannot be: operands, windows, loops, sums, and what they use."""

from typing import Any

from tests.unit.accel.accelerator.refused.case import REMOVED, Case

_CONVOLVE = "instructions/convolve"
_ADD = "instructions/add"
_SUM = f"{_CONVOLVE}/operations/requantise"


def _field(name: str, **changes: Any) -> Any:
    """The fields with one of them changed."""
    return lambda old: [field | changes if field["name"] == name else field for field in old]


def _with_a_window(old: Any) -> Any:
    """The instruction with a second operand that a kernel moves over."""
    window = {"over": {"kernel_columns": "w_column"}, "extent": "w_width"}
    operands = old["operands"] | {"W": old["operands"]["W"] | {"windows": [window]}}
    loops = [loop | ({"factors": {}} if loop["extent"] == "kernel_columns" else {}) for loop in old["loops"]]
    fields = [
        field | ({"bits": 20} if field["name"] == "w_column" else {})
        for field in (*old["fields"], {"name": "w_width", "lsb": 8, "bits": 8})
    ]
    return old | {"operands": operands, "loops": loops, "fields": fields}


def _case(name: str, path: str, value: Any, field: str, reason: str) -> Case:
    return Case(f"layer: {name}", "conv-engine", path, value, field, reason)


LAYERS: tuple[Case, ...] = (
    _case(
        "a memory that there is not",
        f"{_CONVOLVE}/operands/X/memory", "cache", f"{_CONVOLVE}/operands/X/memory", "there is no memory cache",
    ),
    _case(
        "an address that is no field",
        f"{_CONVOLVE}/operands/W/dram", "weights", f"{_CONVOLVE}/operands/W/dram", "has no field weights",
    ),
    _case(
        "two operands at one address",
        f"{_CONVOLVE}/operands/W/dram", "x", f"{_CONVOLVE}/operands/W/dram", "x is operands.X.dram already",
    ),
    _case(
        "an address that reaches one tensor",
        f"{_ADD}/fields", _field("a", bits=4), f"{_ADD}/operands/A/dram", "no two tensors lie in them",
    ),
    _case(
        "the sums in DRAM",
        f"{_CONVOLVE}/operands/SUM/dram", "y", f"{_CONVOLVE}/operands/Y/dram", "y is operands.SUM.dram already",
    ),
    _case(
        "a type in DRAM of what is on the chip",
        f"{_CONVOLVE}/operands/SUM/dram_dtype", "int8", f"{_CONVOLVE}/operands/SUM/dram_dtype", "on the chip alone",
    ),
    _case(
        "a window over no loop",
        f"{_CONVOLVE}/operands/X/windows/0/over", {"lines": "stride_rows", "kernel_rows": "dilation_rows"},
        f"{_CONVOLVE}/operands/X/windows/0/over/lines", "there is no loop with the extent lines",
    ),
    _case(
        "a loop in two windows",
        f"{_CONVOLVE}/operands/X/windows/1/over", {"rows": "stride_columns", "kernel_columns": "dilation_columns"},
        f"{_CONVOLVE}/operands/X/windows/1/over/rows", "rows is in window 0 already",
    ),
    _case(
        "a step in a loop of a window",
        f"{_CONVOLVE}/loops/1", lambda old: old | {"steps": {"X": 1}},
        f"{_CONVOLVE}/operands/X/windows/0/over/rows", "X steps in the loop over rows by itself already",
    ),
    _case(
        "numbers beside fields",
        f"{_CONVOLVE}/numbers", {"lines": 8}, f"{_CONVOLVE}/numbers", "numbers are for a sequence of parts",
    ),
    _case(
        "a pitch that is no count",
        f"{_CONVOLVE}/operands/W/pitch", "low", f"{_CONVOLVE}/operands/W/pitch", "low is float32; it must be unsigned",
    ),
    _case(
        "a step that follows from a field that there is not",
        f"{_CONVOLVE}/loops/1/follows", {"W": "2 * lines"}, f"{_CONVOLVE}/loops/1/follows/W",
        "there is no field or number lines",
    ),
    _case(
        "a field that follows and is an address",
        f"{_ADD}/follows", {"a": "2 * b"}, f"{_ADD}/follows/a", "a has its value from elsewhere already",
    ),
    _case(
        "two operands with windows",
        _CONVOLVE, _with_a_window, f"{_CONVOLVE}/operands/W/windows", "X has windows already",
    ),
    _case(
        "sums that step",
        f"{_CONVOLVE}/loops/0/steps", {"BIAS": 1, "SUM": 1}, f"{_CONVOLVE}/loops/0/steps/SUM", "it does not step",
    ),
    _case(
        "a step down",
        f"{_CONVOLVE}/loops/2/steps/Y", -1, f"{_CONVOLVE}/loops/2/steps/Y", "steps up in DRAM",
    ),
    _case(
        "a step of no operand",
        f"{_ADD}/loops/2/steps/C", 1, f"{_ADD}/loops/2/steps", "there is no operand C",
    ),
    _case(
        "an extent of no bits",
        f"{_ADD}/fields", _field("rows", bits=0), f"{_ADD}/loops/1/extent", "0 bits and can only be 0",
    ),
    _case(
        "a beginning without an end",
        f"{_SUM}/ends", REMOVED, f"{_SUM}/begins", "begins without ends",
    ),
    _case(
        "sums that forget",
        f"{_SUM}/does", "SUM[n] = i32(X[k]) * i32(W[n, k])",
        f"{_SUM}/does", "keeps nothing of the points before",
    ),
    _case(
        "a beginning of something else",
        f"{_SUM}/begins", "Y[n] = 0", f"{_SUM}/begins", "both must be one",
    ),
    _case(
        "an end that does not read the sums",
        f"{_SUM}/ends", "Y[n] = i8(BIAS[n])",
        f"{_SUM}/ends", "does not read SUM",
    ),
    _case(
        "a result on the chip",
        f"{_ADD}/operands/Y/dram", REMOVED, f"{_ADD}/loops/0/factors/Y", "on the chip alone",
    ),
    _case(
        "a result that is read",
        f"{_ADD}/operations/requantise/does", "Y[n] = max(Y[n], A[n])",
        f"{_ADD}/operations/requantise/does", "reads Y, which the layer itself writes",
    ),
    _case(
        "an expression of the wrong type",
        f"{_SUM}/ends", "Y[n] = SUM[n]", f"{_SUM}/ends", "int8",
    ),
    _case(
        "results that reach nobody",
        f"{_CONVOLVE}/operations",
        lambda old: [each | {"ends": "Y[n] = i8(SUM[n])"} for each in old],
        f"{_SUM}/ends", "no results of convolve reach the host",
    ),
    _case(
        "a use of a memory that there is not",
        f"{_CONVOLVE}/uses/cache", "rows", f"{_CONVOLVE}/uses/cache", "there is no memory cache",
    ),
    _case(
        "a use of a number that there is not",
        f"{_CONVOLVE}/uses/sums", "lines * 2", f"{_CONVOLVE}/uses/sums", "there is no field or number lines",
    ),
    _case(
        "a use that is never there",
        f"{_CONVOLVE}/uses/sums", "columns * 4096", f"{_CONVOLVE}/uses/sums", "nothing would ever fit",
    ),
    _case(
        "cycles by the size of a memory",
        f"{_ADD}/cycles", "columns + sums", f"{_ADD}/cycles", "there is no field or number sums",
    ),
    _case(
        "cycles beyond all bounds",
        f"{_ADD}/cycles", "blocks * rows * columns * blocks", f"{_ADD}/cycles", "must be from 0",
    ),
    _case(
        "units that wait for tokens",
        "synchronisation", {"kind": "tokens"}, f"{_CONVOLVE}/kind", "a layer has none to wait for",
    ),
    _case(
        "a sequence of what is no part",
        f"{_ADD}/sequence", ["convolve"], f"{_ADD}/fields", "has its fields in its parts",
    ),
    _case(
        "an operand that nothing uses",
        f"{_ADD}/operands/C", {"memory": "data_buffer"}, f"{_ADD}/operands/C", "no operation of add uses C",
    ),
)  # fmt: skip
