"""Changes that look like mistakes and are none: what is just enough, or is the user's choice."""

from typing import Any

from tests.unit.accel.accelerator.refused.reach import again

BORDERS: dict[str, tuple[str, str, Any]] = {
    "an address that just reaches all": ("output-stationary", "instructions/load_a/fields/sram/bits", 12),
    "an operand's address that just reaches all": ("vector", "instructions/vmac/fields/x/bits", 13),
    "a DRAM address of what the memory holds": ("mvin-mvout", "instructions/mvin_a/fields/dram/bits", 13),
    "an image of rows of two": ("vector", "instructions/load_x/fields/row_stride/bits", 2),
    "a stride of one element": ("output-stationary", "instructions/store_c/fields/row_stride/bits", 9),
    "a step to the last element": (
        "output-stationary",
        "instructions/multiply/loops/0",
        lambda old: old | {"steps": {"C": 31}},
    ),
    "a memory of one tile": ("mvin-mvout", "memories/a/depth", 1),
    "a memory of one of each factor": ("shared", "memories/a/depth", 2),
    "a memory that fills its addresses": ("mvin-mvout", "memories/b/depth", 1 << 16),
    "a limit that fills its field": (
        "output-stationary",
        "instructions/multiply/loops/0",
        lambda old: old | {"limit": 65535},
    ),
    "the same with wider fields": ("mvin-mvout", "instructions", again("mvin_a", "mvin_far", 6, dram=40)),
    "the same under another pragma": ("mvin-mvout", "instructions", again("matmul", "twin", 6, pragma="pragma_twin")),
    "rows side by side": (
        "vector",
        "instructions/load_w/copy_fields",
        lambda old: {role: field for role, field in old.items() if role != "row_stride"},
    ),
    "one instruction at a time": ("vector", "synchronisation/window", 1),
    "rows that are at least one": ("vector", "instructions/load_x/cycles", "rows - 1 + 64 / rows"),
    "a copy within its memory": ("vector", "instructions/load_x/energy", "8192 - bytes"),
    "elements in other words": ("output-stationary", "instructions/load_c/cycles", "rows * columns - elements"),
    "a scalar that changes nothing": (
        "output-stationary",
        "instructions/load_c",
        lambda old: (
            old
            | {
                "fields": [*old["fields"], {"name": "down", "lsb": 24, "bits": 5}],
                "operations": [{"name": "shifted", "does": "sram[m, n] = dram[m, n] >> down"}],
            }
        ),
    ),
    "an instruction that is free": ("mvin-mvout", "instructions/mvin_a/cycles", "bytes / bus_bytes - 4"),
    "composites of all that may follow": (
        "vta",
        "composites",
        [{"name": "c", "operators": ["dense"]}, {"name": "d", "operators": ["conv2d", "bias", "requantize", "clip"]}],
    ),
    "another tile of a mesh": ("output-stationary", "memories/c/depth", 1),
}
