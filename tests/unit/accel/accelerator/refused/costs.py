"""Costs that no instruction can have."""

from tests.unit.accel.accelerator.refused.case import Case

_MATMUL, _LOAD, _VMAC = "instructions/matmul/cycles", "instructions/mvin_a/cycles", "instructions/vmac/cycles"

_CASES = (
    (
        "a cost of an unknown number", "mvin-mvout", _LOAD, "latency + bytes",
        "no field or number latency; there are opcode, .*read_latency, bytes, elements",
    ),
    (
        "a cost of bytes that are none", "mvin-mvout", "instructions/matmul/energy", "bytes * 2",
        "no field or number bytes; there are opcode",
    ),
    (
        "a cost of a field of another instruction", "vector", _VMAC, "rows + 3",
        "no field or number rows; there are .*count",
    ),
    ("a cost that ends early", "vector", _VMAC, "count +", "column 8: found the end; expected a number, a name"),
    (
        "a cost with an open bracket", "mvin-mvout", _LOAD, "read_latency + ceil(bytes / bus_bytes",
        r"column 38: found the end; expected '\)'",
    ),
    (
        "a cost of an unknown function", "mvin-mvout", _LOAD, "round(bytes / bus_bytes)",
        "found 'round'; expected a function, one of ceil, floor, max, min",
    ),
    (
        "a cost that is an expression of tensors", "mvin-mvout", _MATMUL, "A[i, k]",
        r"column 2: found '\['; expected an operator or the end",
    ),
    ("a cost divided by zero", "mvin-mvout", _LOAD, "bytes / 0", "bytes / 0 divides by zero"),
    (
        "a cost divided by what is zero here", "mvin-mvout", _LOAD, "bytes / (bus_bytes - 8)",
        r"bytes / \(bus_bytes - 8\) divides by zero where bus_bytes - 8 is 0; a number from 0",
    ),
    ("cycles below nothing", "mvin-mvout", _MATMUL, "-8", "-8 is -8; cycles must be from 0 to 1099511627776"),
    (
        "cycles that come out below nothing", "mvin-mvout", _LOAD, "bytes / bus_bytes - read_latency",
        "is -36; cycles must be from 0",
    ),
    (
        "energy below nothing", "vector", "instructions/vmac/energy", "count * (1 - 1460.45)",
        "is -1459.45; energy must be from 0 to 1e.30",
    ),
    (
        "cycles that fall below nothing", "vector", _VMAC, "20 - count",
        "with count = 65535, 20 - count is -65515; cycles must be from 0 to 1099511627776",
    ),
    (
        "energy that falls below nothing", "vector", "instructions/load_x/energy", "100 - bytes",
        "with bytes = 8192, 100 - bytes is -8092; energy must be from 0 to 1e.30",
    ),
    (
        "cycles divided by an address", "vector", _VMAC, "100 / x",
        "with x = 0, 100 / x divides by zero where x is 0; a number from 0",
    ),
    (
        "cycles divided by what is zero between", "vector", _VMAC, "100 / (count - 37)",
        r"with count = 37, 100 / \(count - 37\) divides by zero where count - 37 is 0",
    ),
    (
        "a VTA's energy below nothing", "vta", "instructions/gemm/energy", "4 - iter_out",
        "with iter_out = 16383, 4 - iter_out is -16379; energy must be from 0 to 1e.30",
    ),
    (
        "cycles without end", "mvin-mvout", _MATMUL, "2000000 * 2000000",
        "is 4e.12; cycles must be from 0 to 1099511627776",
    ),
    (
        "cycles beyond the bound for the most of a field", "vector", _VMAC, "count * count * count",
        r"with count = 65535, count \* count \* count is 2.8.*e.14; cycles must be from 0 to 1099511627776",
    ),
    (
        "cycles below nothing between numbers that are tried", "vector", _VMAC, "(count - 700) * (count - 900) + 9000",
        "may be below 0 or above .*, as far as their ranges show",
    ),
    (
        "energy of the bits of a float", "output-stationary", "instructions/store_scaled/energy", "250 + scale",
        "with scale = -3.4.*e.38, 250 . scale is .*; energy must be from 0",
    ),
    (
        "energy without a bound", "vector", "instructions/load_x/energy", "1e20 * bytes * bytes * bytes",
        "with bytes = 8192, .*; energy must be from 0 to 1e.30",
    ),
)  # fmt: skip
COSTS = tuple(Case(name, base, path, value, path, reason) for name, base, path, value, reason in _CASES)
