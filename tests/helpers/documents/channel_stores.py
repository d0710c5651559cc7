"""A vector machine whose store of int8 multiplies each channel by a number that it reads from a memory of its own."""

from accel.accelerator.document import Accelerator, InOrderSync
from accel.accelerator.instructions import BitField, Copy, CopyFields, Operand, Operation
from accel.accelerator.memories import Memory
from accel.catalog.load_accelerator import load_accelerator, parse_accelerator

ROUNDED = "dram[l] = i8(clip(({0}(sram[l]) * {0}(M[l]) + ({0}(1) << down - 1)) >> down, low, high))"
NARROWED = "dram[l] = i8(clip(i32({0}(sram[l]) * {0}(M[l]) >> down), low, high))"

WHOLE = "dram[l] = i8(clip((({0}(sram[l] + B[l]) * {0}(M[l])) + ({0}(1) << {0}(S[l] - 1))) >> {0}(S[l]), low, 127))"
SHIFTED = "dram[l] = i8(clip({0}(sram[l]) * {0}(M[l]) >> {0}(S[l]), low, 127))"
BIASED = "dram[l] = i8(clip(({0}(sram[l] + B[l]) * {0}(M[l]) + ({0}(1) << down - 1)) >> down, low, 127))"
_ADDRESSES = {"M": ("m", 96, 16), "S": ("s", 118, 8), "B": ("b", 64, 8)}


def channel_stores(does: str = ROUNDED, wide: str = "i64", depth: int = 16, *, in_order: bool = False) -> Accelerator:
    """The preset ``vector`` with a memory of so many elements for multipliers; perhaps ``in_order``."""
    whole = load_accelerator("vector")
    memory = Memory(name="scales", scope="local.scales", dtype="int32", shape=(64,), depth=depth)
    load = whole.instruction("load_acc")
    store = whole.instruction("store_acc8")
    assert isinstance(load, Copy)
    assert isinstance(store, Copy)
    opcode = load.fields[0].model_copy(update={"value": 99})
    loads = load.model_copy(update={"name": "load_scales", "memory": "scales", "fields": (opcode, *load.fields[1:])})
    fields = [field for field in store.fields if field.name not in ("rows", "row_stride")]
    read = {name: _ADDRESSES[name] for name in _ADDRESSES if f"{name}[l]" in does}
    more = [BitField(name=name, lsb=lsb, bits=bits) for name, lsb, bits in read.values()]
    signed = (("low", 72),) if "B" in read or "S" in read else (("low", 64), ("high", 72))
    more += [BitField(name=name, lsb=lsb, bits=8, type="signed") for name, lsb in signed]
    more += [BitField(name="down", lsb=112, bits=6)] if "down" in does else []
    stores = store.model_copy(
        update={
            "fields": (*fields, *more),
            "copy_fields": CopyFields(sram="sram", dram="dram", columns="columns"),
            "operands": {name: Operand(memory="scales", address=field) for name, (field, _, _) in read.items()},
            "operations": (Operation(name="requantise", does=does.format(wide)),),
        }
    )
    made = [stores if each is store else each for each in whole.instructions]
    document = whole.model_copy(update={"memories": (*whole.memories, memory), "instructions": (*made, loads)})
    if in_order:
        document = document.model_copy(update={"synchronisation": InOrderSync()})
    return parse_accelerator(document.model_dump(mode="json"))
