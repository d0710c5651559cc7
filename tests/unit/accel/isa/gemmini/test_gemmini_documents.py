"""The presets of Gemmini, and what a document of one must have."""

import pydantic
import pytest

from accel.catalog.derive_accelerator import derive_accelerator
from accel.catalog.load_accelerator import load_accelerator, parse_accelerator
from accel.errors import InvalidAccelerator
from accel.isa.gemmini.document.gemmini_changes import changes_of_gemmini
from accel.isa.gemmini.document.gemmini_document import gemmini_accelerator, parameters_of
from accel.isa.gemmini.document.gemmini_parameters import GemminiParameters
from accel.isa.gemmini.document.rocc_encoding import unnamed_loop_fields
from accel.isa.gemmini.timing.gemmini_calibration import DEFAULT, EIGHT, LEAN, ROCKET


def test_the_preset_is_the_default_configuration():
    preset = load_accelerator("gemmini")
    assert preset == gemmini_accelerator(GemminiParameters()).model_copy(update={"host": preset.host})


def test_presets_follow_from_their_parameters():
    for name in ("gemmini-8", "gemmini-32", "gemmini-2025", "gemmini-rocket"):
        preset = load_accelerator(name)
        derived = gemmini_accelerator(parameters_of(preset), name=name, title=preset.title)
        assert preset == derived.model_copy(update={"host": preset.host})


def test_the_small_preset_is_the_design_that_was_recorded():
    assert parameters_of(load_accelerator("gemmini-8")) == EIGHT
    assert parameters_of(load_accelerator("gemmini")) == DEFAULT
    assert parameters_of(load_accelerator("gemmini-rocket")) == ROCKET


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"dma_bus_bytes": 128}, "dma_bus_bytes is 128, more than dma_max_bytes, 64"),
        ({"mvin_scale_units": 32}, "mvin_scale_units is 32, more than dim, 16"),
        ({"execute_queue": 2}, "greater than or equal to 3"),
        ({"load_entries": 63}, "less than or equal to 62"),
        ({"core": {"issue_cycles": 0}}, "greater than or equal to 1"),
        ({"memory": {"l2_bytes": 100_000}}, "l2_bytes must be a multiple of l2_ways lines, 512; it is 100000"),
        ({"memory": {"llc_bytes": 1000}}, "llc_bytes must be a multiple of llc_ways lines, 512; it is 1000"),
        ({"memory": {"misses_in_flight": 65}}, "less than or equal to 64"),
    ],
)
def test_parameters_of_no_machine_are_refused(values, said):
    with pytest.raises(pydantic.ValidationError, match=said):
        GemminiParameters.model_validate(values)


def test_the_lean_preset_is_the_configuration_that_was_measured():
    lean = load_accelerator("gemmini-lean")
    assert parameters_of(lean) == LEAN
    default = {instruction.name for instruction in load_accelerator("gemmini").instructions}
    assert default - {instruction.name for instruction in lean.instructions} == {"store_full"}


def test_a_derived_document_costs_what_its_parameters_say():
    """Catches loops that are priced for another memory; a cost that somebody has changed is theirs."""
    preset, slower = load_accelerator("gemmini"), {"memory_latency": 60, "requests_in_flight": 32}
    changed = derive_accelerator(preset, slower)
    assert changed.instructions == gemmini_accelerator(GemminiParameters(**slower)).instructions
    own = tuple(
        each.model_copy(update={"cycles": "1000"}) if each.name == "conv_loop" else each for each in preset.instructions
    )
    derived = derive_accelerator(preset.model_copy(update={"instructions": own}), slower)
    assert {
        each.name for each, other in zip(derived.instructions, changed.instructions, strict=True) if each != other
    } == {"conv_loop"}
    assert next(each.cycles for each in derived.instructions if each.name == "conv_loop") == "1000"


def test_a_larger_mesh_costs_what_its_parameters_say():
    """Catches loops of a mesh of 32 rows that are priced as those of one of 16."""
    (mesh,) = (each for each in changes_of_gemmini(load_accelerator("gemmini")) if each.name == "mesh")
    assert mesh.make().instructions == gemmini_accelerator(GemminiParameters(dim=32)).instructions


def without(*names):
    document = load_accelerator("gemmini").model_dump(mode="json")
    document["instructions"] = [each for each in document["instructions"] if each["name"] not in names]
    return document


def with_blocks(name: str, blocks: dict[str, object]) -> dict[str, object]:
    document = load_accelerator("gemmini").model_dump(mode="json")
    (copy,) = (each for each in document["instructions"] if each["name"] == name)
    copy["blocks"] = {"scalars": "mvin.columns", "stride": "config_ld0.block_stride", "most": 4} | blocks
    for operation in copy["operations"]:
        operation["when"] = {field: value for field, value in operation["when"].items() if field not in blocks.values()}
    return document


@pytest.mark.parametrize(
    ("name", "blocks", "field", "said"),
    [
        ("load_rows", {"most": 8}, "instructions.29.blocks.most", "8 blocks are 128 columns; a row of a mvin has 64"),
        ("load_rows", {"most": 4096}, "instructions.29.blocks.most", "65536 scalars, and mvin.columns has 16 bits"),
        ("load_rows", {"most": 1}, "instructions.29.blocks.most", "greater than or equal to 2"),
        ("load_rows", {"stride": "config_ld0.far"}, "instructions.29.blocks.stride", "has no field config_ld0.far"),
        ("load_rows", {"scalars": "mvin.rows"}, "instructions.29.blocks.scalars", "mvin.rows is copy_fields.rows"),
        (
            "store_scaled", {"scalars": "mvout.columns", "stride": "config_st.pool_left"},
            "instructions.32.blocks.apart", "a mvout has its blocks 16 rows apart",
        ),
    ],
)  # fmt: skip
def test_blocks_that_no_load_takes_are_refused(name: str, blocks: dict[str, object], field: str, said: str) -> None:
    with pytest.raises(InvalidAccelerator, match=said) as caught:
        parse_accelerator(with_blocks(name, blocks))
    assert caught.value.field == f"accelerator.{field}"


@pytest.mark.parametrize("name", ["gemmini", "gemmini-lean"])
def test_normalisations_are_derived(name):
    """A store that the derived document has not, because the other one had none; one that was left out, back again."""
    without_them = load_accelerator(name)
    normalising = derive_accelerator(without_them, {"normalizations": True}, "normalising")
    assert parameters_of(normalising).normalizations
    assert names_of(normalising) - names_of(without_them) == {
        "config_norm_inverse",
        "store_gelu",
        "store_layer_norm",
        "store_softmax",
    }
    assert names_of(without_them) <= names_of(normalising)
    back = derive_accelerator(normalising, {"normalizations": False}, name)
    assert back.model_copy(update={"title": without_them.title}) == without_them


def names_of(accelerator):
    return {each.name for each in accelerator.instructions}


def test_a_document_may_lack_what_does_nothing():
    assert parse_accelerator(without("counter", "fence")).family == "gemmini"
    with pytest.raises(InvalidAccelerator, match="there is no flush"):
        parse_accelerator(without("counter", "flush"))


def test_documents_from_before_the_loops_had_fields_are_taken():
    """Catches saved documents that are refused, or whose loops mean something else."""
    document = without("matmul_loop", "conv_loop")
    old = {part.name: part.model_dump(mode="json") for part in unnamed_loop_fields()}
    document["instructions"] = [old.get(each["name"], each) for each in document["instructions"]]
    assert parse_accelerator(document).layers == ()
    document["instructions"] = [
        each | ({"fields": each["fields"][:-1]} if each["name"] == "loop_ws" else {})
        for each in document["instructions"]
    ]
    with pytest.raises(InvalidAccelerator, match="8 fields; Gemmini's loop_ws has 9"):
        parse_accelerator(document)


def test_a_price_of_a_loops_energy_is_refused():
    document = without()
    (loop,) = (each for each in document["instructions"] if each["name"] == "conv_loop")
    loop["energy"] = "rows"
    with pytest.raises(InvalidAccelerator, match="counted instruction by instruction"):
        parse_accelerator(document)
