"""Buses that units share, wrongly said."""

from tests.unit.accel.accelerator.refused.case import REMOVED, Case

_LOAD = "instructions/load_x/bus_cycles"

SHARED_BUSES = (
    Case(
        "a bus shared with a unit that is none", "npu", "dram/shared_by", ["load", "dma"], "dram/shared_by/1",
        "there is no unit dma; there are load, matrix, vector, store",
    ),
    Case(
        "a bus shared with a unit that does not copy", "npu", "dram/shared_by", ["load", "store", "matrix"],
        "dram/shared_by/2", "matrix has no copies; those of load, store use the bus",
    ),
    Case(
        "a bus shared with itself", "npu", "dram/shared_by", ["load", "store", "load"], "dram/shared_by/2",
        "there are two called load",
    ),
    Case(
        "a bus that one unit shares", "npu", "dram/shared_by", ["load"], "dram/shared_by",
        "load alone; a bus is shared by two units at least, or by none",
    ),
    Case(
        "a bus shared by a text", "npu", "dram/shared_by", "load", "dram/shared_by", "tuple|list|array",
        beyond_types=False,
    ),
    Case(
        "cycles on a bus that is not shared", "npu", "dram/shared_by", REMOVED, _LOAD,
        "unit load shares the bus with none; it must be in dram.shared_by",
    ),
    Case(
        "cycles on a bus of what moves nothing", "npu", "instructions/multiply",
        lambda old: old | {"bus_cycles": "inner"}, "instructions/multiply/bus_cycles", "no key 'bus_cycles' here",
        beyond_types=False,
    ),
    Case(
        "cycles on the bus of an unknown number", "npu", _LOAD, "ceil(bytes / width)", _LOAD,
        "no field or number width; there are opcode, .*bus_bytes",
    ),
    Case(
        "cycles on the bus that may be below nothing", "npu", _LOAD, "rows - 2", _LOAD,
        "with rows = 1, rows - 2 is -1; bus_cycles must be from 0 to",
    ),
    Case("cycles on the bus that are no cost", "npu", _LOAD, "bytes over 32", _LOAD, "column 7: found 'over'"),
    Case(
        "a VTA whose units share the bus", "vta", "dram/shared_by", ["load", "store"], "dram/shared_by",
        "a VTA's reads and its writes have a channel each; leave it out",
    ),
    Case(
        "a Gemmini whose units share the bus", "gemmini", "dram/shared_by", ["load", "store"], "dram/shared_by",
        "the bus of a Gemmini is in its parameters; leave it out",
    ),
)  # fmt: skip
