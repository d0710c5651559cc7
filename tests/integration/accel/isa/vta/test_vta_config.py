"""The original's ten keys: those of its own files, those that cannot be, and random ones against the reference."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import load_accelerator, parse_accelerator
from accel.errors import InvalidAccelerator
from accel.isa.decode import decode
from accel.isa.vta.document.vta_configuration import VtaConfig
from accel.isa.vta.document.vta_document import vta_accelerator
from accel.isa.vta.function.vta_machine import VtaMachine
from accel.isa.vta.timing.vta_timing import time_launch
from tests.helpers.marking import share
from tests.helpers.programs.random_programs import by_reference, random_dram, random_program
from tests.helpers.programs.streams import stream
from tests.reference.encode import encode

USUAL = {
    "LOG_INP_WIDTH": 3,
    "LOG_WGT_WIDTH": 3,
    "LOG_ACC_WIDTH": 5,
    "LOG_BATCH": 0,
    "LOG_BLOCK": 4,
    "LOG_UOP_BUFF_SIZE": 15,
    "LOG_INP_BUFF_SIZE": 15,
    "LOG_WGT_BUFF_SIZE": 18,
    "LOG_ACC_BUFF_SIZE": 17,
}
TEN = {"TARGET": "sim", "HW_VER": "0.0.2", **USUAL}
WITHOUT_BLOCK = {key: value for key, value in USUAL.items() if key != "LOG_BLOCK"}
BLOCKS = {"LOG_OUT_WIDTH": 3, "LOG_BLOCK_IN": 4, "LOG_BLOCK_OUT": 4}
DRAM_BYTES = 1 << 20

ORIGINALS = {  # the files of tvm-vta's config/, and of apache/tvm's vta/config/ and vta/make/ before it
    "vta_config": TEN,
    "fsim_sample": TEN,
    "tsim_sample": TEN | {"TARGET": "tsim"},
    "pynq_sample": TEN | {"TARGET": "pynq"},
    "ultra96_sample": TEN | {"TARGET": "ultra96"},
    "zcu104_sample": TEN | {"TARGET": "zcu104", "HW_VER": "0.0.1"},
    "de10nano_sample": TEN | {"TARGET": "de10nano"},
    "de10-nano_sample": TEN | {"TARGET": "de10-nano", "HW_VER": "0.0.1"},
    "intelfocl_sample": TEN | {"TARGET": "intelfocl", "HW_VER": "0.0.1"},
    "bsim": TEN | {"TARGET": "bsim", "ACC_DEP_DISTANCE": 3},
    "2018": {"TARGET": "sim", **WITHOUT_BLOCK, **BLOCKS, "LOG_WGT_BUFF_SIZE": 15},
    "2018 pynq": {"TARGET": "pynq", "HW_FREQ": 100, "HW_CLK_TARGET": 8, "HW_VER": "0.0.0", **WITHOUT_BLOCK, **BLOCKS},
    "2019 ultra96": {"TARGET": "ultra96", "HW_VER": "0.0.1", **WITHOUT_BLOCK, **BLOCKS, "LOG_BUS_WIDTH": 6},
    "as printed by vta_config.py": TEN | BLOCKS | {"LOG_OUT_BUFF_SIZE": 15},
}


@pytest.mark.parametrize("name", ORIGINALS)
def test_the_originals_own_files_are_accepted(name: str, tmp_path: Path) -> None:
    path = tmp_path / "vta_config.json"
    path.write_text(json.dumps(ORIGINALS[name], indent=2))
    accelerator = load_accelerator(str(path))
    sizes = "15_15_15_17" if name == "2018" else "15_15_18_17"
    assert accelerator.name == f"1x16_i8w8a32_{sizes}"
    assert (accelerator.dram.bus_bytes, accelerator.clock_mhz) == (8, 100.0)
    if name != "2018":
        same = load_accelerator("vta").model_dump(exclude={"name", "title", "source", "host"})
        assert accelerator.host is None  # the keys say nothing of one
        assert accelerator.model_dump(exclude={"name", "title", "source"}) == same
    assert parse_accelerator(accelerator.source | {"name": accelerator.name}) == accelerator


def test_the_usual_depths_and_encoding() -> None:
    accelerator = parse_accelerator(TEN)
    assert {memory.name: memory.depth for memory in accelerator.memories} == {
        "uop": 8192,
        "wgt": 1024,
        "inp": 2048,
        "acc": 2048,
    }
    places = {f.name: (f.lsb, f.lsb + f.bits) for f in accelerator.instruction("gemm").fields}
    assert places["uop_end"] == (21, 35)
    assert places["iter_in"] == (49, 63)
    assert places["dst_factor_out"] == (64, 75)
    assert places["wgt_factor_in"] == (118, 128)
    alu = {f.name: (f.lsb, f.lsb + f.bits, f.type) for f in accelerator.instruction("alu").fields}
    assert alu["alu_opcode"] == (108, 111, "unsigned")
    assert alu["imm"] == (112, 128, "signed")


def test_fields_fill_the_first_word_where_they_fit() -> None:
    """As a C compiler lays out the original's bit fields: 7 bits of acc fit behind 57 of the loops."""
    accelerator = parse_accelerator(TEN | {"LOG_UOP_BUFF_SIZE": 12, "LOG_ACC_BUFF_SIZE": 13})
    places = {f.name: (f.lsb, f.bits) for f in accelerator.instruction("gemm").fields}
    assert (places["iter_in"], places["dst_factor_out"], places["dst_factor_in"]) == ((43, 14), (57, 7), (64, 7))


REFUSED = {
    "a weight buffer below a tile": ({"LOG_WGT_BUFF_SIZE": 7}, "LOG_WGT_BUFF_SIZE", "16 x 16 of int8.*256: at least 8"),
    "an input buffer below a tile": ({"LOG_INP_BUFF_SIZE": 3}, "LOG_INP_BUFF_SIZE", "which has 16: at least 4"),
    "a result buffer below a tile": ({"LOG_ACC_BUFF_SIZE": 5}, "LOG_ACC_BUFF_SIZE", "which has 64: at least 6"),
    "no micro-op": ({"LOG_UOP_BUFF_SIZE": 1}, "LOG_UOP_BUFF_SIZE", "at least 2"),
    "a negative size": ({"LOG_INP_BUFF_SIZE": -2}, "LOG_INP_BUFF_SIZE", r"2\^-2 bytes"),
    "2^30 bytes": ({"LOG_ACC_BUFF_SIZE": 30}, "LOG_ACC_BUFF_SIZE", r"2\^30 bytes"),
    "too deep for a LOAD": ({"LOG_INP_BUFF_SIZE": 21}, "LOG_INP_BUFF_SIZE", "131072 elements; LOAD and"),
    "weights too deep": ({"LOG_BLOCK": 0, "LOG_WGT_BUFF_SIZE": 18}, "LOG_WGT_BUFF_SIZE", "262144 elements"),
    "results too many to index": ({"LOG_ACC_BUFF_SIZE": 18}, "LOG_ACC_BUFF_SIZE", "it fits with LOG_ACC_BUFF_SIZE 17"),
    "inputs too many to index": ({"LOG_INP_BUFF_SIZE": 17}, "LOG_INP_BUFF_SIZE", "it fits with LOG_INP_BUFF_SIZE 15"),
    "weights too many to index": ({"LOG_WGT_BUFF_SIZE": 19}, "LOG_WGT_BUFF_SIZE", "it fits with LOG_WGT_BUFF_SIZE 18"),
    "micro-ops too many to index": ({"LOG_UOP_BUFF_SIZE": 16}, "LOG_UOP_BUFF_SIZE", "fits with LOG_UOP_BUFF_SIZE 15"),
    "tiles too small": ({"LOG_BLOCK": 3}, "LOG_BLOCK", "it fits with LOG_BLOCK 4"),
    "a micro-op of 33 bits": (
        {"LOG_UOP_BUFF_SIZE": 8, "LOG_ACC_BUFF_SIZE": 15, "LOG_INP_BUFF_SIZE": 17, "LOG_WGT_BUFF_SIZE": 19},
        "LOG_INP_BUFF_SIZE",
        r"9 \(acc\) \+ 13 \(inp or acc\) \+ 11 \(wgt\) = 33 bits; it has 32",
    ),
    "a narrow accumulator": ({"LOG_ACC_WIDTH": 3}, "LOG_ACC_WIDTH", "8 bits is narrower than the product.* 16"),
    "an accumulator of one product": ({"LOG_ACC_WIDTH": 4}, "LOG_ACC_WIDTH", r"only 5 \(32 bits\) is"),
    "a wide accumulator": ({"LOG_ACC_WIDTH": 6}, "LOG_ACC_WIDTH", r"6 \(64 bits\) is not supported"),
    "wide operands": ({"LOG_INP_WIDTH": 5}, "LOG_INP_WIDTH", r"5 \(32 bits\) is not supported; only 3 \(8 bits\)"),
    "wide weights": ({"LOG_WGT_WIDTH": 4, "LOG_ACC_WIDTH": 4}, "LOG_ACC_WIDTH", "8 and 16 bits, which has 24"),
    "an absurd tile": ({"LOG_BLOCK": 9}, "LOG_BLOCK", "outside 0 to 7"),
    "an absurd batch": ({"LOG_BATCH": 5}, "LOG_BATCH", "outside 0 to 4"),
    "a negative batch": ({"LOG_BATCH": -1}, "LOG_BATCH", "outside 0 to 4"),
    "too much together": (
        {"LOG_BLOCK": 7, "LOG_BATCH": 4} | dict.fromkeys(("LOG_INP_BUFF_SIZE", "LOG_ACC_BUFF_SIZE"), 24)
        | {"LOG_WGT_BUFF_SIZE": 24, "LOG_UOP_BUFF_SIZE": 2},
        "LOG_WGT_BUFF_SIZE",
        "32 MiB",
    ),
    "out of all proportion": ({"LOG_ACC_BUFF_SIZE": 10**200}, "LOG_ACC_BUFF_SIZE", "out of all proportion"),
    "true": ({"LOG_BATCH": True}, "LOG_BATCH", "a whole number is expected; found a truth value, True"),
    "text": ({"LOG_BLOCK": "4"}, "LOG_BLOCK", "a whole number is expected; found text, '4'"),
    "4.0": ({"LOG_BLOCK": 4.0}, "LOG_BLOCK", "a whole number is expected; found a number, 4.0"),
    "null": ({"LOG_BLOCK": None}, "LOG_BLOCK", "found null"),
    "a target that is no text": ({"TARGET": 7}, "TARGET", "text of 1 to 64 characters is expected; found a number, 7"),
    "an unknown key": ({"LOG_ACC_BUF_SIZE": 17}, "LOG_ACC_BUF_SIZE", "the nearest known is LOG_ACC_BUFF_SIZE"),
    "small letters": ({"target": "sim"}, "target", "the nearest known is TARGET"),
    "two sizes of block": ({"LOG_BLOCK_IN": 5}, "LOG_BLOCK_IN", "5; the other keys make it 4"),
    "a bus of 3 bits": ({"LOG_BUS_WIDTH": 2}, "LOG_BUS_WIDTH", "outside 5 to 10"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_impossible_ones_are_refused_with_the_key_and_the_reason(name: str) -> None:
    change, key, reason = REFUSED[name]
    with pytest.raises(InvalidAccelerator, match=reason) as caught:
        parse_accelerator(TEN | change)
    assert caught.value.field == key
    assert caught.value.detail.startswith(f"{key}: ")


@pytest.mark.parametrize("key", [key for key in TEN if key != "HW_VER"])
def test_a_missing_key_is_named(key: str) -> None:
    with pytest.raises(InvalidAccelerator, match="the key is missing") as caught:
        parse_accelerator({name: value for name, value in TEN.items() if name != key})
    assert caught.value.field == key


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({"vta_config": TEN, "variant": {"bus_bytes": 12}}, "variant.bus_bytes"),
        ({"vta_config": TEN, "variant": {"bus": 8}}, "variant.bus"),
        ({"vta_config": TEN, "variant": {"microop_depth": 8193}}, "variant.microop_depth"),
        ({"vta_config": TEN, "variant": {"multiply": 1}}, "variant.multiply"),
        ({"vta_config": TEN, "variant": {"queue_depths": {"load": 0}}}, "variant.queue_depths.load"),
        ({"vta_config": TEN, "variant": {"clock_mhz": float("nan")}}, "variant.clock_mhz"),
        ({"vta_config": TEN, "variant": []}, "variant"),
        ({"vta_config": 4}, "vta_config"),
        ({"vta_config": TEN, "varient": {}}, "varient"),
        ({"vta_config": TEN, "name": "no spaces here"}, "name"),
        ({"vta_config": TEN | {"LOG_BLOCK": 9}}, "LOG_BLOCK"),
    ],
)
def test_bad_variants_are_refused(document: object, field: str) -> None:
    with pytest.raises(InvalidAccelerator) as caught:
        parse_accelerator(document)
    assert caught.value.field == field


KEYS = {
    "LOG_BATCH": st.integers(0, 4),
    "LOG_BLOCK": st.integers(0, 7),
    "LOG_UOP_BUFF_SIZE": st.integers(1, 17),
    "LOG_INP_BUFF_SIZE": st.integers(0, 20),
    "LOG_WGT_BUFF_SIZE": st.integers(0, 22),
    "LOG_ACC_BUFF_SIZE": st.integers(2, 20),
}


def accelerator_of(keys: dict[str, int]) -> Accelerator | None:
    try:
        return parse_accelerator(TEN | keys)
    except InvalidAccelerator as error:
        refused = error
    assert refused.field in TEN
    assert refused.detail.startswith(refused.field)
    return None


@pytest.mark.slow
@settings(max_examples=share(300), deadline=None)
@given(keys=st.fixed_dictionaries({key: st.integers(-3, 40) for key in USUAL}))
def test_any_ten_keys_are_an_accelerator_or_name_a_key(keys: dict[str, int]) -> None:
    accelerator_of(keys)


@pytest.mark.slow
@settings(
    max_examples=share(8),
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much],
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # each example compiles a kernel: shrinking takes minutes
)
@given(keys=st.fixed_dictionaries(KEYS), seed=st.integers(0, 2**32 - 1))
def test_a_small_program_on_any_ten_keys_does_what_numpy_does(keys: dict[str, int], seed: int) -> None:
    accelerator = accelerator_of(keys)
    assume(accelerator is not None)
    assert accelerator is not None
    program = random_program(seed, accelerator, 12, DRAM_BYTES)
    words = encode(stream(accelerator, program))
    decoded = decode(accelerator, words)
    assert np.array_equal(encode(decoded), words)
    assert [accelerator.instructions[kind].name for kind in decoded.kind] == [name for name, _ in program]
    dram = random_dram(accelerator, seed, DRAM_BYTES)
    reference = by_reference(accelerator, program, dram.copy())
    machine = VtaMachine(accelerator)
    machine.run(decoded, dram)
    assert np.array_equal(machine.accumulators(), reference.memories["acc"])
    assert np.array_equal(dram, reference.dram)
    assert time_launch(decoded, {}).cycles > 0


def test_memories_of_one_element_have_fields_of_no_bits() -> None:
    """Found once: a shift by the whole width of a word left the field's neighbour in it."""
    accelerator = vta_accelerator(
        VtaConfig(LOG_UOP_BUFF_SIZE=2, LOG_INP_BUFF_SIZE=4, LOG_WGT_BUFF_SIZE=8, LOG_ACC_BUFF_SIZE=6)
    )
    assert {memory.depth for memory in accelerator.memories} == {1}
    fields = {"uop_end": 1, "iter_out": 3, "iter_in": 2, "push_next": 1}
    decoded = decode(accelerator, encode(stream(accelerator, [("gemm", fields)])))
    assert {name: int(column[0]) for name, column in decoded.columns.items() if column[0]} == fields | {"opcode": 2}
