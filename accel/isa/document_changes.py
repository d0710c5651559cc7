"""Changes of a document that ask for another program: memories twice as large, and whatever a family names beside.

A change is made only where it is asked for, and may turn out to be none that an accelerator can have; then its ``make``
says why. Whether a document that was made can be executed and compiled for is for its checks.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial

from accel.accelerator.document import Accelerator
from accel.accelerator.field_roles import span
from accel.accelerator.instructions import AnyInstruction, BitField, Compute, Copy, Instruction, MicroOps
from accel.isa.family import DocumentChange, Family, NamesChanges, Variation
from accel.isa.variations import complete, with_fields

_KIBI = 1024
_WORD = 64  # bits that no field crosses
_TITLE = 200  # characters

Deepen = Callable[[Accelerator, Collection[str]], Accelerator]


def changes_of(accelerator: Accelerator, family: Family) -> list[DocumentChange]:
    """Returns the changes that a document can be compiled anew with, each name once.

    A family has ``changes`` of its own, or else those of its memories; and the changes of its ``variations`` that the
    document can say, as a compiler that knows of one may choose other tiles.
    """
    named = family.changes(accelerator) if isinstance(family, NamesChanges) else larger_memories(accelerator)
    found = [*named, *_retimed(accelerator, family, family.variations(accelerator))]
    return list({each.name: each for each in reversed(found)}.values())[::-1]


def _retimed(accelerator: Accelerator, family: Family, variations: Iterable[Variation]) -> Iterator[DocumentChange]:
    for each in variations:
        values = {field: after for field, (_, after) in each.fields.items()}
        changed = with_fields(accelerator, family, values) if values else None
        if changed is not None:
            changed = _saying_as_much(changed, accelerator, family)
            name = re.sub(r"[^a-z0-9]+", "-", each.resource.lower().removeprefix("the ")).strip("-")
            yield DocumentChange(name, each.resource, each.change, partial(_itself, changed))


def _saying_as_much(changed: Accelerator, accelerator: Accelerator, family: Family) -> Accelerator:
    """The changed document without parameters that are as they are by default, and that the other does not say."""
    known = complete(accelerator, family)["parameters"]
    said = {
        key: value
        for key, value in changed.parameters.items()
        if key in accelerator.parameters or value != known.get(key)
    }
    return changed.model_copy(update={"parameters": said})


def _itself(accelerator: Accelerator) -> Accelerator:
    return accelerator


def larger_memories(accelerator: Accelerator, deepen: Deepen | None = None) -> Iterator[DocumentChange]:
    """Yields each memory twice as large, and all of them, where there is more than one.

    Args:
        accelerator: the document.
        deepen: returns the document with the memories of these names twice as deep, and all that must follow; it
            raises InvalidAccelerator where there can be none. None: :func:`deepened`.
    """
    make = deepened if deepen is None else deepen
    own = [memory for memory in accelerator.memories if memory.view_of is None]
    for memory in own:
        text = f"{memory.name} of {_size(2 * memory.bytes)}"
        yield DocumentChange(
            f"memory-{memory.name}", f"the size of {memory.name}", text, partial(make, accelerator, (memory.name,))
        )
    if len(own) > 1:
        names = tuple(memory.name for memory in own)
        make_all = partial(make, accelerator, names)
        yield DocumentChange("memories", "the sizes of its memories", "all memories twice as large", make_all)


def _size(count: int) -> str:
    for unit in ("bytes", "KiB"):
        if count < _KIBI or count % _KIBI:
            return f"{count} {unit}"
        count //= _KIBI
    return f"{count} MiB"


def titled(accelerator: Accelerator, change: str) -> Accelerator:
    """Returns the document with a title that tells its change, where the old title would be wrong of it."""
    return accelerator.model_copy(update={"title": f"{accelerator.title}, {change}"[:_TITLE]})


def with_shape_of(accelerator: Accelerator, derived: Accelerator, base: Accelerator | None = None) -> Accelerator:
    """Returns a document with memories, encodings and ``source`` of another; its ports, costs and the rest are kept.

    Both have the same memories by name; instructions that the other alone has cost what it says. So do those that take
    the cycles that they have in a ``base``, of which the document was made: these are nobody's own.
    """
    ports = {memory.name: memory.ports for memory in accelerator.memories}
    usual = set() if base is None else {(each.name, each.cycles) for each in base.instructions}
    costs = {
        each.name: {"energy": each.energy} | ({} if (each.name, each.cycles) in usual else {"cycles": each.cycles})
        for each in accelerator.instructions
    }
    return accelerator.model_copy(
        update={
            "memories": tuple(each.model_copy(update={"ports": ports[each.name]}) for each in derived.memories),
            "instructions": tuple(each.model_copy(update=costs.get(each.name, {})) for each in derived.instructions),
            "source": derived.source,
        }
    )


def same_shape(accelerator: Accelerator, derived: Accelerator) -> bool:
    """Returns whether documents are one but for time and ``composites``: one follows from what the other is made of."""
    return accelerator.untimed() == derived.untimed().model_copy(update={"composites": accelerator.composites})


def deepened(accelerator: Accelerator, names: Collection[str]) -> Accelerator:
    """Returns a document with the memories ``names`` and views of them twice as deep, and fields that address all.

    A field that could address the last element, and now cannot, gets a bit; fields above it move where there is no bit
    between. Whether an instruction still has room for its fields, and can be told from others, is for the checks.
    """
    memories = {
        each.name: each.model_copy(update={"depth": 2 * each.depth}) if each.holder in names else each
        for each in accelerator.memories
    }
    larger = accelerator.model_copy(update={"memories": tuple(memories.values())})
    wider: dict[str, dict[str, int]] = {}  # of each instruction that is encoded: bits by field
    for each in accelerator.instructions:
        old, new = _largest(each, accelerator), _largest(each, larger)
        for field, largest in new.items():
            part, _, plain = field.rpartition(".")
            owner = part if part in each.sequence else each.name
            bits = _bits(accelerator.field(each, field), old[field], largest)
            mine = wider.setdefault(owner, {})
            mine[plain] = max(mine.get(plain, 0), bits)
    instructions = tuple(_widened(each, wider.get(each.name, {}), accelerator, larger) for each in larger.instructions)
    return larger.model_copy(update={"instructions": instructions})


def _largest(each: Instruction, accelerator: Accelerator) -> dict[str, int]:
    """The largest address that each field of an instruction, called as it calls it, should hold."""
    if isinstance(each, Copy):
        ends = {each.copy_fields.sram: accelerator.memory(each.memory).depth - 1}
        beside = (operand for operand in each.operands.values() if operand.address is not None)
        return ends | {str(other.address): accelerator.memory(other.memory).depth - 1 for other in beside}
    if not isinstance(each, Compute):
        return {}
    found = {}
    for operand in each.operands.values():
        memory = accelerator.memory(operand.memory)
        if operand.address is not None:
            found[operand.address] = memory.depth - span(operand, memory)
    if each.microops is not None:
        depth = accelerator.memory(each.microops.memory).depth
        found |= {each.microops.begin: depth - 1, each.microops.end: depth}
    return found


def _bits(field: BitField, old: int, new: int) -> int:
    """The bits of a field that has to hold ``new`` where it held ``old``; as they are where it did not hold that."""
    held = field.limits[1]
    more = new.bit_length() - old.bit_length() if old < held <= new else 0
    return field.bits + more


def _widened(each: AnyInstruction, bits: Mapping[str, int], old: Accelerator, new: Accelerator) -> AnyInstruction:
    changed: dict[str, object] = {"fields": _laid_out(each.fields, bits)}
    if isinstance(each, Compute) and each.microops is not None:
        changed["microops"] = _wider_table(each, each.microops, old, new)
    return each.model_copy(update=changed)


def _wider_table(compute: Compute, table: MicroOps, old: Accelerator, new: Accelerator) -> MicroOps:
    bits = {}
    for field in table.fields:
        name = table.operands.get(field.name)
        if name is not None:
            memory = compute.operands[name].memory
            bits[field.name] = _bits(field, old.memory(memory).depth - 1, new.memory(memory).depth - 1)
    return table.model_copy(update={"fields": _laid_out(table.fields, bits)})


def _laid_out(fields: Sequence[BitField], bits: Mapping[str, int]) -> tuple[BitField, ...]:
    """The fields with these widths, each where it was or as little above as it must be, in the order of the list."""
    if all(field.bits == bits.get(field.name, field.bits) for field in fields):
        return tuple(fields)
    placed, free = {}, 0
    for field in sorted(fields, key=lambda field: field.lsb):
        width = bits.get(field.name, field.bits)
        lsb = max(field.lsb, free)
        if lsb % _WORD + width > _WORD:
            lsb += -lsb % _WORD
        placed[field.name] = field.model_copy(update={"lsb": lsb, "bits": width})
        free = lsb + width
    return tuple(placed[field.name] for field in fields)
