"""Changes of documents: what is changed, what must follow it, and which are refused."""

from typing import Any

import pytest

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Compute
from accel.catalog.load_accelerator import check_accelerator, load_accelerator, parse_accelerator, preset_names
from accel.isa import document_changes
from accel.isa.document_changes import changes_of, deepened
from accel.isa.explicit.explicit_family import ExplicitFamily
from accel.isa.family_registry import family_of
from accel.report.compare.changed_documents import ChangedDocument, changed_documents
from tests.helpers.marking import others_all, rest_all


def found(accelerator: Accelerator) -> dict[str, ChangedDocument]:
    return {each.name: each for each in changed_documents(accelerator)}


def made(change: ChangedDocument) -> Accelerator:
    assert change.document is not None, change.refused
    return parse_accelerator(change.document.encode())


def at(document: Any, pointer: str) -> Any:
    for part in pointer.split("/")[1:]:
        document = document[int(part)] if isinstance(document, list) else document.get(part)
    return document


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", others_all(preset_names(), ["vta", "gemmini", "output-stationary", "mvin-mvout", "vector"])
)
def test_each_memory_is_offered_twice_as_large_or_refused_with_the_reason(name: str) -> None:
    before = load_accelerator(name)
    changes = found(before)
    assert len(changes) == len(changes_of(before, family_of(before)))
    for memory in before.memories:
        change = changes[f"memory-{memory.name}"]
        if change.refused is not None:
            # VTA's words and micro-ops are full: nothing else may keep a memory from growing
            assert before.family == "vta", change.refused
            assert "bits" in change.refused or "end at bit" in change.refused, change.refused
            continue
        after = made(change)
        assert after.memory(memory.name).depth == 2 * memory.depth
        others = [(each.name, each.depth) for each in before.memories if each.name != memory.name]
        assert [(each.name, each.depth) for each in after.memories if each.name != memory.name] == others


@pytest.mark.slow
@pytest.mark.parametrize("name", rest_all(["mvin-mvout", "gemmini", "vta-small", "vector"], keep=3))
def test_what_is_told_of_a_change_is_what_differs(name: str) -> None:
    before = load_accelerator(name)
    for change in found(before).values():
        if change.document is None:
            continue
        after = made(change).model_dump(mode="json")
        assert change.fields, change.name
        for field in change.fields:
            if not field.field.startswith("/parameters"):  # of those that the document leaves out, the defaults count
                assert at(after, field.field) == field.after, (change.name, field)
                assert at(before.model_dump(mode="json"), field.field) == field.before


@pytest.mark.slow
def test_a_gemmini_says_its_sizes_twice_and_keeps_silent_about_its_defaults() -> None:
    after = made(found(load_accelerator("gemmini"))["memory-spad"])
    assert after.parameters == {"scratchpad_bytes": 2 * 256 * 1024}
    assert after.memories[0].depth == 2 * 256 * 1024 // 16
    mesh = made(found(load_accelerator("gemmini"))["mesh"])
    assert (mesh.parameters, mesh.memories[0].shape) == ({"dim": 32}, (32,))
    assert "32 x 32" in mesh.title


@pytest.mark.slow
def test_a_vta_of_ten_keys_is_derived_anew_and_keeps_what_else_was_changed() -> None:
    document = load_accelerator("vta-8").model_dump(mode="json")
    document["dram"]["read_latency"] = 99
    document["parameters"]["queue_depths"]["load"] = 17
    before = parse_accelerator(document)
    after = made(found(before)["memory-acc"])
    key = "LOG_ACC_BUFF_SIZE"
    assert after.source["vta_config"][key] == before.source["vta_config"][key] + 1
    assert (after.dram.read_latency, after.parameters["queue_depths"]["load"]) == (99, 17)
    tile = made(found(before)["tile"])
    assert tile.memory("wgt").shape == (16, 16)
    assert tile.dram.read_latency == 99
    del document["source"]  # what it was derived from is not known: fields get a bit where they need it
    alone = found(parse_accelerator(document))
    assert "tile" not in alone
    assert made(alone["memory-wgt"]).memory("wgt").depth == 2 * before.memory("wgt").depth


def tight() -> Accelerator:
    """A machine whose fields address its memories to the last element and not one more, without a gap between."""
    document = load_accelerator("vector").model_dump(mode="json")
    depths = {memory["name"]: memory["depth"] for memory in document["memories"]}
    for instruction in document["instructions"]:
        addresses = {}
        if instruction["kind"] == "copy":
            addresses[instruction["copy_fields"]["sram"]] = depths[instruction["memory"]]
        for operand in instruction.get("operands", {}).values():
            addresses[operand["address"]] = depths[operand["memory"]]
        lsb = 0
        for field in instruction["fields"]:
            if field["name"] in addresses:
                field["bits"] = (addresses[field["name"]] - 1).bit_length()
            lsb += -lsb % 64 if lsb % 64 + field["bits"] > 64 else 0
            field["lsb"] = lsb
            lsb += field["bits"]
    return parse_accelerator(document)


def test_a_field_that_reaches_no_further_gets_a_bit_and_others_make_room() -> None:
    before = tight()
    after = deepened(before, ["x"])
    check_accelerator(after)
    for old, new in zip(before.instructions, after.instructions, strict=True):
        widths = {field.name: field.bits for field in old.fields}
        wider = [field.name for field in new.fields if field.bits != widths[field.name]]
        addresses = set()
        if getattr(old, "memory", None) == "x":
            addresses = {old.copy_fields.sram}  # type: ignore[union-attr]
        if isinstance(old, Compute):
            addresses = {each.address for each in old.operands.values() if each.memory == "x"}
        assert set(wider) == addresses, old.name
        assert [field.name for field in new.fields] == [field.name for field in old.fields]
    assert any(old != new for old, new in zip(before.instructions, after.instructions, strict=True))


@pytest.mark.slow
def test_a_word_without_room_refuses_the_memory_by_name_of_the_field() -> None:
    document = tight().model_dump(mode="json")
    load = next(each for each in document["instructions"] if each["kind"] == "copy" and each["memory"] == "x")
    taken = {bit for field in load["fields"] for bit in range(field["lsb"], field["lsb"] + field["bits"])}
    load["fields"] += [
        {"name": f"full_{bit}", "lsb": bit, "bits": 1} for bit in range(document["word_bits"]) if bit not in taken
    ]
    change = found(parse_accelerator(document))["memory-x"]
    assert change.document is None
    assert change.accelerator is None
    assert "ends at bit" in str(change.refused)


@pytest.mark.slow
def test_a_family_without_changes_of_its_own_has_those_of_its_memories() -> None:
    class Plain:
        name, parameters = "plain", ExplicitFamily.parameters

        @staticmethod
        def variations(_accelerator: Accelerator) -> list[Any]:
            return []

    accelerator = load_accelerator("mvin-mvout")
    names = [change.name for change in changes_of(accelerator, Plain())]  # type: ignore[arg-type]
    assert names == ["memory-a", "memory-b", "memory-c", "memories"]
    assert "units-apart" in found(accelerator)
    assert "units-apart" not in found(load_accelerator("vector")), "its units run apart already"


def test_titles_stay_within_their_length() -> None:
    long = load_accelerator("gemmini").model_copy(update={"title": "x" * 200})
    assert len(document_changes.titled(long, "a mesh").title) == 200
