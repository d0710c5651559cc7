"""What a family of instruction sets asks for beside the common schema."""

from typing import Any

from tests.unit.accel.accelerator.refused.case import REMOVED, Case


def _with(**more: Any) -> Any:
    return lambda old: old | more


def _walks_a_table(old: Any) -> Any:
    """The instruction with a table of micro-ops that hold no address."""
    fields = [{"name": name, "lsb": lsb, "bits": 8} for name, lsb in (("begin", 64), ("end", 72))]
    table = {"memory": "a", "begin": "begin", "end": "end", "fields": [], "operands": {}}
    return old | {"microops": table, "fields": [*old["fields"], *fields]}


FAMILIES = (
    Case(
        "a family that is none", "mvin-mvout", "family", "mine", "family", "explicit, gemmini, vta", beyond_types=False,
    ),
    Case(
        "the wrong family", "mvin-mvout", "family", "vta", "parameters/queue_depths", "the key is missing",
        beyond_types=False,
    ),
    Case(
        "parameters where there are none", "mvin-mvout", "parameters", {"queue_depth": 4}, "parameters/queue_depth",
        "no key 'queue_depth' here; there are none", beyond_types=False,
    ),
    Case(
        "a parameter of another machine", "gemmini", "parameters", {"mesh": 16}, "parameters/mesh",
        "no key 'mesh' here.*there are .*dim", beyond_types=False,
    ),
    Case(
        "blocks in a family that takes lines", "mvin-mvout", "instructions/mvin_a",
        _with(blocks={"scalars": "far", "stride": "apart", "most": 2}), "instructions/mvin_a/blocks/scalars",
        "mvin_a has no field far",
    ),
    Case(
        "a load of windows", "gemmini", "instructions/store_pooled/direction", "load",
        "instructions/store_pooled/windows", "a load brings elements as they are; a store takes windows",
    ),
    Case(
        "windows beside rows", "gemmini", "instructions/store_pooled/copy_fields", _with(rows="mvout.rows"),
        "instructions/store_pooled/windows", "windows take the place of rows and columns",
    ),
    Case(
        "windows under the pragma of another store", "gemmini", "instructions/store_pooled/pragma", "pragma_mvout",
        "instructions/store_pooled/pragma", "a store of windows needs a pragma of its own",
    ),
    Case(
        "one field for windows' stride and their count", "gemmini", "instructions/store_pooled/windows/rows",
        _with(count="config_st.pool_stride"), "instructions/store_pooled/windows/rows/count",
        "config_st.pool_stride is windows.rows.stride already",
    ),
    Case(
        "blocks as far apart as a field says and as they always are", "gemmini", "instructions/load_rows/blocks",
        _with(apart=16), "instructions/load_rows/blocks", "it needs one of the two",
    ),
    Case(
        "a mesh of twelve", "gemmini", "parameters", {"dim": 12}, "parameters", "dim must be a power of two; it is 12",
    ),
    Case(
        "a mesh of another size", "gemmini", "parameters", {"dim": 32}, "memories/spad/shape",
        r"spad has \[16\]; with these parameters it must be \[32\]",
    ),
    Case("a Gemmini of wider words", "gemmini", "word_bits", 256, "word_bits", "256; it must be 192"),
    Case(
        "a Gemmini's units in another order", "gemmini", "units", ["execute", "load", "store"], "units",
        "they must be load, execute, store, in that order",
    ),
    Case(
        "a Gemmini's word that is laid out otherwise", "gemmini", "instructions/mvin/fields/rows/bits", 8,
        "instructions/mvin/fields/rows", "\"bits\": 8.; Gemmini's mvin has .*\"bits\": 16.",
    ),
    Case(
        "a Gemmini's word of another unit", "gemmini", "instructions/flush/unit", "store", "instructions/flush/unit",
        "\"store\"; of Gemmini's flush it is \"load\"",
    ),
    Case(
        "a document of the wrong family", "mvin-mvout", "family", "vta", "parameters/queue_depths",
        "the key is missing; there are no parameters, as in documents of the family explicit",
    ),
    Case(
        "a queue of a VTA that is missing", "vta", "parameters/queue_depths/store", REMOVED, "parameters/queue_depths",
        "there must be a depth for each of load, compute, store; found load, compute",
    ),
    Case(
        "a parameter of a VTA that is none", "vta", "parameters", _with(fetch_burst=128), "parameters/fetch_burst",
        "no key 'fetch_burst' here; the nearest is fetch_burst_instructions", beyond_types=False,
    ),
    Case("a VTA of 192 bits", "vta", "word_bits", 192, "word_bits", "192; a VTA has 128"),
    Case(
        "a VTA of four units", "vta", "units", ["load", "compute", "store", "fetch"], "units",
        "4 units; a VTA has three",
    ),
    Case(
        "a VTA with one loop", "vta", "instructions/gemm/loops", lambda old: old[:1], "instructions/gemm/loops",
        "1 loops; a VTA has two",
    ),
    Case(
        "a VTA's tile of three rows", "vta", "memories/inp/shape", [3, 16], "instructions/gemm/operations/0/does",
        "axis b of .* is",
    ),
    Case(
        "a VTA's bus of twelve bytes", "vta", "dram/bus_bytes", 12, "dram/bus_bytes",
        "12; it is one of 4, 8, 16, 32, 64, 128",
    ),
    Case(
        "a VTA's burst across its boundary", "vta", "dram/burst_boundary_bytes", 1000, "dram/burst_boundary_bytes",
        "1000; it must be a power of two, at least 64",
    ),
    Case(
        "a VTA's alignment of 96", "vta", "dram/alignment_bytes", 96, "dram/alignment_bytes",
        "96; it must be a power of two, at least 64",
    ),
    Case(
        "micro-ops where there are none", "mvin-mvout", "instructions/matmul", _walks_a_table,
        "instructions/matmul/microops", "the family explicit has no micro-ops; each operand has its address in a field",
    ),
)  # fmt: skip
