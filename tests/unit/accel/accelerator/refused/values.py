"""Values of a wrong type or out of range: what a schema of types sees."""

from tests.unit.accel.accelerator.refused.case import REMOVED, Case

_CASES = (
    (
        "a memory of nothing", "mvin-mvout", "memories/a/depth", 0, "memories/a/depth",
        "greater than or equal to 1; found 0",
    ),
    (
        "a depth below nothing", "vector", "memories/w/depth", -512, "memories/w/depth",
        "greater than or equal to 1; found -512",
    ),
    ("a depth as text", "mvin-mvout", "memories/b/depth", "256", "memories/b/depth", "valid integer; found '256'"),
    (
        "a depth with a fraction", "output-stationary", "memories/c/depth", 32.0, "memories/c/depth",
        "valid integer; found 32.0",
    ),
    ("a truth value for a size", "vta", "memories/uop/depth", True, "memories/uop/depth", "valid integer; found True"),
    (
        "an element of halves", "mvin-mvout", "memories/c/dtype", "float16", "memories/c/dtype",
        "'int8', 'uint8'.*'int32'.*'float32'.*; found 'float16'",
    ),
    ("an element without axes", "vector", "memories/x/shape", [], "memories/x/shape", "0 items; at least 1"),
    (
        "an element of five axes", "vector", "memories/x/shape", [1, 1, 1, 1, 1], "memories/x/shape",
        "5 items; at most 4",
    ),
    (
        "a memory without ports", "vector", "memories/acc/ports", 0, "memories/acc/ports",
        "greater than or equal to 1; found 0",
    ),
    (
        "banks that no clock knows", "vector", "memories/acc/banks", 2, "memories/acc/banks",
        "the clock of explicit knows no banks; expected 1",
    ),
    ("a scope of the host", "mvin-mvout", "memories/a/scope", "global", "memories/a/scope", "local.*; found 'global'"),
    (
        "a name with a space", "mvin-mvout", "instructions/mvin_a/name", "mvin a", "instructions/0/name",
        "match pattern.*; found 'mvin a'",
    ),
    (
        "a key with a typing mistake", "mvin-mvout", "memories/a", lambda old: old | {"dtpye": "int8"},
        "memories/a/dtpye", "no key 'dtpye' here; the nearest is dtype; there are banks, depth, dtype",
    ),
    (
        "a key that must be there with a typing mistake", "mvin-mvout", "instructions/mvin_a",
        lambda old: {key.replace("memory", "memroy"): value for key, value in old.items()},
        "instructions/mvin_a/memroy",
        "no key 'memroy' here; the nearest is memory; there are blocks, bus_cycles, copy_fields",
    ),
    (
        "a key of another kind", "vector", "instructions/vmac", lambda old: old | {"memory": "w"},
        "instructions/vmac/memory", "no key 'memory' here; .*there are .*operands",
    ),
    (
        "a key that is missing", "output-stationary", "instructions/load_a/memory", REMOVED,
        "instructions/load_a/memory", "the key is missing",
    ),
    ("a document without memories", "mvin-mvout", "memories", REMOVED, "memories", "the key is missing"),
    (
        "memories by name", "mvin-mvout", "memories", lambda old: {one["name"]: one for one in old}, "memories",
        "a list is expected; found an object",
    ),
    ("the schema of before", "mvin-mvout", "schema_version", 1, "schema_version", "should be 2; found 1"),
    ("a clock that stands", "vta", "clock_mhz", 0.0, "clock_mhz", "greater than 0; found 0.0"),
    ("words of 100 bits", "mvin-mvout", "word_bits", 100, "word_bits", "multiple of 64; found 100"),
    (
        "a latency below nothing", "vector", "dram/read_latency", -1, "dram/read_latency",
        "greater than or equal to 0; found -1",
    ),
    (
        "a direction that is none", "mvin-mvout", "instructions/mvin_a/direction", "in",
        "instructions/mvin_a/direction", "'load' or 'store'; found 'in'",
    ),
    (
        "a kind that is none", "mvin-mvout", "instructions/mvin_a/kind", "load", "instructions/mvin_a",
        "'load' is no 'kind'; there are 'copy', 'compute'",
    ),
    (
        "a pragma without its prefix", "mvin-mvout", "instructions/mvin_a/pragma", "mvin", "instructions/mvin_a/pragma",
        "pragma_.*; found 'mvin'",
    ),
    (
        "a field of 65 bits", "vector", "instructions/vmac/fields/x/bits", 65, "instructions/vmac/fields/x/bits",
        "less than or equal to 64; found 65",
    ),
    (
        "a field of an unknown type", "output-stationary", "instructions/store_scaled/fields/scale/type", "float16",
        "instructions/store_scaled/fields/scale/type", "'signed' or 'float32'; found 'float16'",
    ),
    (
        "a compute that does nothing", "mvin-mvout", "instructions/matmul/operations", [],
        "instructions/matmul/operations", "0 items; at least 1",
    ),
    (
        "a cost without quotes", "mvin-mvout", "instructions/matmul/cycles", 8, "instructions/matmul/cycles",
        "valid string; found 8",
    ),
    (
        "DRAM by words", "mvin-mvout", "instructions/mvout/dram_unit", "word", "instructions/mvout/dram_unit",
        "'element' or 'byte'; found 'word'",
    ),
    (
        "a window of nothing", "vector", "synchronisation/window", 0, "synchronisation/window",
        "greater than or equal to 1; found 0",
    ),
    (
        "queues without tokens", "tokens", "synchronisation", {"kind": "tokens", "limit": 0}, "synchronisation/limit",
        "greater than or equal to 1; found 0",
    ),
    (
        "a synchronisation that is none", "vector", "synchronisation/kind", "scoreboard", "synchronisation",
        "'scoreboard' is no 'kind'; there are 'tokens', 'hazards', 'in_order'",
    ),
    (
        "an operator that is none", "vector", "composites", [{"name": "c", "operators": ["softmax"]}],
        "composites/c/operators/0", "'conv2d', 'dense'.*; found 'softmax'",
    ),
)  # fmt: skip
VALUES = tuple(Case(*case, beyond_types=False) for case in _CASES)
