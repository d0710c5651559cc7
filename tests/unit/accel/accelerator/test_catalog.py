"""Presets, the doors for documents, and documents that were tampered with."""

import contextlib
import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import (
    accelerator_id,
    canonical,
    check_accelerator,
    load_accelerator,
    parse_accelerator,
    preset_names,
)
from accel.errors import InvalidAccelerator, SimulationError
from accel.isa.decode import decode
from accel.isa.vta.document.instruction_view import instructions_of
from accel.isa.vta.document.vta_configuration import VtaConfig
from accel.isa.vta.document.vta_document import vta_accelerator
from accel.isa.vta.function.launch_table import check_bounds
from accel.isa.vta.function.vta_machine import VtaMachine
from accel.isa.vta.timing.vta_timing import time_launch
from accel.isa.vta.timing.vta_work import work_of
from accel.util.arrays import aligned_zeros
from tests.helpers.documents.vta_presets import PRESETS
from tests.reference.encode import encode

DOCUMENTS = {name: load_accelerator(name).model_dump(mode="json") for name in ("vta", "vta-chisel", "vta-8")}
DRAM_BYTES = 1 << 20
Place = tuple[str | int, ...]


def at(document: Any, path: Place) -> Any:
    for part in path:
        document = document[part]
    return document


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_passes_the_checks_that_loading_it_leaves_out(name: str) -> None:
    check_accelerator(load_accelerator(name))


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_what_its_configuration_derives(name: str) -> None:
    title, config, variant = PRESETS[name]
    derived = vta_accelerator(config, variant, name=name, title=title)
    assert load_accelerator(name) == derived.model_copy(update={"host": load_accelerator(name).host})


def test_every_derived_preset_has_its_file() -> None:
    assert set(PRESETS) == {name for name in preset_names() if load_accelerator(name).family == "vta"}


def test_the_presets_of_boards() -> None:
    chisel, pynq, ultra96 = (load_accelerator(f"vta-{name}") for name in ("chisel", "pynq", "ultra96"))
    assert chisel.memory("uop").depth == 2048
    assert instructions_of(chisel).alu.immediate_with == "src"
    assert (pynq.clock_mhz, pynq.dram.bus_bytes) == (100.0, 8)
    assert (ultra96.clock_mhz, ultra96.dram.bus_bytes) == (333.0, 16)
    for hardware in (chisel, pynq, ultra96):
        assert [i.name for i in hardware.instructions if i.name == "load_acc_8bit"] == []
        assert instructions_of(hardware).alu.codes == {0: "min", 1: "max", 2: "add", 3: "shift_right"}
    for hls in (pynq, ultra96):
        assert instructions_of(hls).alu.immediate_with == "dst"
        assert hls.parameters["immediate_pass_cycles"] == hls.parameters["two_operand_pass_cycles"] == 2
        assert (hls.synchronisation.limit, hls.memory("uop").depth) == (1024, 8192)


def test_each_form_gives_the_same_accelerator(tmp_path: Path) -> None:
    keys = VtaConfig(TARGET="tsim").model_dump()
    variant = {"immediate_with": "src", "acc_8bit": False, "multiply": False, "microop_depth": 2048}
    variant |= {"out_memory": True, "alu_stale_cycles": 2}
    forms = [{"vta_config": keys, "variant": variant, "name": "vta-chisel"}, DOCUMENTS["vta-chisel"]]
    parsed = [parse_accelerator(form) for form in forms]
    parsed += [parse_accelerator(json.dumps(form).encode()) for form in forms]
    for index, form in enumerate(forms):
        (tmp_path / f"{index}.json").write_text(json.dumps(form))
        parsed.append(load_accelerator(tmp_path / f"{index}.json"))
    unnamed = {"title": "T", "host": None}  # of a host the ten keys say nothing
    ids = {accelerator_id(accelerator.model_copy(update=unnamed)) for accelerator in parsed}
    assert len(ids) == 1
    assert parse_accelerator({"vta_config": keys}) == parse_accelerator(keys)


def test_the_id_is_that_of_the_canonical_document() -> None:
    document = DOCUMENTS["vta"]
    shuffled = dict(reversed(document.items()))
    assert accelerator_id(parse_accelerator(shuffled)) == accelerator_id(parse_accelerator(document))
    assert canonical(parse_accelerator(canonical(parse_accelerator(document)))) == canonical(load_accelerator("vta"))


@pytest.mark.parametrize("value", ["NaN", "-Infinity", '"\\ud800"', '{"a": 1, "a": 2}'])
def test_a_source_that_is_no_json_is_refused(value: str) -> None:
    text = json.dumps(DOCUMENTS["vta"] | {"source": {"note": 0}})
    with pytest.raises(InvalidAccelerator):
        parse_accelerator(text.replace('"note": 0', f'"note": {value}').encode())


def test_a_source_that_is_nested_too_deeply_is_refused() -> None:
    text = json.dumps(DOCUMENTS["vta"] | {"source": {"note": 0}})
    with pytest.raises(InvalidAccelerator):
        parse_accelerator(text.replace('"note": 0', '"note": ' + "[" * 900 + "]" * 900).encode())


def changed(path: Place, value: object, name: str = "vta") -> Any:
    document = copy.deepcopy(DOCUMENTS[name])
    at(document, path[:-1])[path[-1]] = value
    return document


def place(kind: str) -> int:
    return next(i for i, instruction in enumerate(DOCUMENTS["vta"]["instructions"]) if instruction["name"] == kind)


GEMM, ALU, STORE, INP = (("instructions", place(name)) for name in ("gemm", "alu", "store_out", "load_inp"))
AT_GEMM, AT_ALU = "instructions.5", "instructions.6"
TAMPERED = {
    "two memories of one name": (("memories", 1, "name"), "uop", "memories.1"),
    "two instructions of one name": ((*ALU, "name"), "gemm", f"{AT_ALU}"),
    "a memory that is none": ((*INP, "memory"), "nowhere", "instructions.0.memory"),
    "a unit that is none": ((*INP, "unit"), "elsewhere", "instructions.0.unit"),
    "a field that is none": ((*GEMM, "operations", 0, "when"), {"nothing": 0}, f"{AT_GEMM}.operations.0.when.nothing"),
    "a field of two roles": ((*GEMM, "microops", "begin"), "pop_prev", f"{AT_GEMM}.microops.begin"),
    "a role that also chooses": ((*GEMM, "loops", 0, "extent"), "reset_reg", f"{AT_GEMM}.operations.0.when.reset_reg"),
    "a constant in a role": ((*GEMM, "microops", "begin"), "opcode", f"{AT_GEMM}.microops.begin"),
    "a field beyond the word": ((*INP, "fields", 8, "lsb"), 120, "instructions.0.fields.8"),
    "a field across words": ((*INP, "fields", 7, "lsb"), 60, "instructions.0.fields.7"),
    "overlapping fields": ((*INP, "fields", 8, "lsb"), 70, "instructions.0.fields.9"),
    "a constant too large": ((*INP, "fields", 5, "value"), 8, "instructions.0.fields.5"),
    "two loads alike": ((*INP, "fields", 5, "value"), 1, "instructions.1.fields"),
    "a memory too deep": (("memories", 2, "depth"), 1 << 17, f"{AT_GEMM}.microops.fields"),
    "a memory too large": (("memories", 1, "depth"), 1 << 17, "memories.1.depth"),
    "micro-ops too many": (("memories", 0, "depth"), 8193, f"{AT_GEMM}.microops.begin"),
    "an empty memory": (("memories", 0, "depth"), 0, "memories.0.depth"),
    "a negative size": (("memories", 0, "depth"), -4, "memories.0.depth"),
    "text for a number": (("memories", 0, "depth"), "8192", "memories.0.depth"),
    "a truth value": (("memories", 0, "depth"), True, "memories.0.depth"),
    "tiles that do not match": (("memories", 2, "shape"), [1, 8], f"{AT_GEMM}.operations.0.does"),
    "a tile of three": (("memories", 1, "shape"), [3, 16], f"{AT_GEMM}.operations.0.does"),
    "a tile of no rows": (("memories", 3, "shape"), [], "memories.3.shape"),
    "four units": (("units",), ["load", "compute", "store", "more"], "units"),
    "one loop": ((*GEMM, "loops"), at(DOCUMENTS["vta"], (*GEMM, "loops"))[:1], f"{AT_GEMM}.loops"),
    "a code too large": (
        (*ALU, "operations", 0, "when"), {"alu_opcode": 9, "use_imm": 1}, f"{AT_ALU}.operations.0.when.alu_opcode"
    ),
    "an operation twice": ((*ALU, "operations", 0, "name"), "max_imm", f"{AT_ALU}.operations.1"),
    "a choice twice": (
        (*ALU, "operations", 1, "when"), {"alu_opcode": 0, "use_imm": 1}, f"{AT_ALU}.operations.1.when"
    ),
    "no expression": ((*ALU, "operations", 1, "does"), "dst[b, o] = max(dst[b, o]", f"{AT_ALU}.operations.1.does"),
    "no operation of VTA's": (
        (*ALU, "operations", 1, "does"), "dst[b, o] = abs(dst[b, o])", f"{AT_ALU}.operations.1.does"
    ),
    "an unknown operand": (
        (*ALU, "operations", 1, "does"), "dst[b, o] = max(dst[b, o], x[b, o])", f"{AT_ALU}.operations.1.does"
    ),
    "an unknown scalar": (
        (*ALU, "operations", 1, "does"), "dst[b, o] = max(dst[b, o], immediate)", f"{AT_ALU}.operations.1.does"
    ),
    "an operand of another shape": ((*GEMM, "operands", "data", "shape"), [4, 16], f"{AT_GEMM}.operands.data.shape"),
    "an operand in two places": (
        (*GEMM, "operands", "data", "address"), "reset_reg", f"{AT_GEMM}.operations.0.when.reset_reg"
    ),
    "a store that multiplies": (
        (*STORE, "operations", 0, "does"), "dram[b, o] = i8(sram[b, o] * 2)", "instructions.7.operations.0.does"
    ),
    "a store to itself": (
        (*STORE, "operations", 0, "does"), "sram[b, o] = i32(dram[b, o])", "instructions.7.operations.0.does"
    ),
    "a cost of nothing known": ((*GEMM, "energy"), "iter_out * rows", f"{AT_GEMM}.energy"),
    "bytes of no copy": ((*GEMM, "energy"), "bytes", f"{AT_GEMM}.energy"),
    "a cost that is none": ((*GEMM, "cycles"), "iter_out *", f"{AT_GEMM}.cycles"),
    "a sequence of instructions": ((*GEMM, "sequence"), ["alu"], f"{AT_GEMM}.fields"),
    "no such unit to wait for": ((*GEMM, "tokens", "pop"), {"loader": "pop_prev"}, f"{AT_GEMM}.tokens.pop"),
    "another synchronisation": (("synchronisation",), {"kind": "in_order"}, "instructions.0.tokens.pop"),
    "an unknown synchronisation": (("synchronisation",), {"kind": "hope"}, "synchronisation"),
    "another schema": (("schema_version",), 1, "schema_version"),
    "no such family": (("family",), "vtb", "family"),
    "a limit beyond the field": ((*GEMM, "loops", 0, "limit"), 1 << 20, f"{AT_GEMM}.loops.0.limit"),
    "an unknown parameter": (("parameters", "speed"), 4, "parameters.speed"),
    "a composite that begins with a clip": (
        ("composites",), [{"name": "c", "operators": ["clip"]}], "composites.0.operators.0"
    ),
    "a store of words": ((*STORE, "dram_dtype"), "int32", "instructions.7.operations.0.does"),
    "data in words": (("memories", 2, "dtype"), "int32", "memories.2.dtype"),
    "an infinite clock": (("clock_mhz",), float("inf"), "clock_mhz"),
    "no latency": (("dram", "read_latency"), -1, "dram.read_latency"),
    "an odd bus": (("dram", "bus_bytes"), 12, "dram.bus_bytes"),
    "a boundary of no power": (("dram", "burst_boundary_bytes"), 1000, "dram.burst_boundary_bytes"),
    "a queue that is missing": (("parameters", "queue_depths"), {"load": 1}, "parameters.queue_depths"),
    "an unknown key": (("calibration",), "exact everywhere", "calibration"),
    "a name with a space": (("memories", 0, "name"), "u op", "memories.0.name"),
    "another scope": (("memories", 0, "scope"), "global", "memories.0.scope"),
    "wider words": (("word_bits",), 192, "word_bits"),
    "a signed address": ((*INP, "fields", 6, "type"), "signed", "instructions.0.copy_fields.sram"),
    "no tokens": ((*INP, "tokens", "pop"), {}, "instructions.0.tokens.pop"),
    "one pragma for all": ((*ALU, "pragma"), "pragma_gemm", "instructions"),
}  # fmt: skip


@pytest.mark.parametrize("name", TAMPERED)
def test_a_document_that_contradicts_itself_names_the_place(name: str) -> None:
    path, value, where = TAMPERED[name]
    with pytest.raises(InvalidAccelerator) as caught:
        parse_accelerator(changed(path, value))
    assert caught.value.field == f"accelerator.{where}"


@pytest.mark.parametrize("name", ["load_inp", "load_acc", "gemm", "alu", "store_out", "finish"])
def test_an_instruction_that_is_missing_or_there_twice_is_refused(name: str) -> None:
    document = copy.deepcopy(DOCUMENTS["vta"])
    removed = document["instructions"].pop(place(name))
    with pytest.raises(InvalidAccelerator):
        parse_accelerator(document)
    document["instructions"] += [removed, removed | {"name": "again"}]
    with pytest.raises(InvalidAccelerator):
        parse_accelerator(document)


def test_what_was_found_is_told() -> None:
    with pytest.raises(InvalidAccelerator, match=r"valid integer; found '8192'$"):
        parse_accelerator(changed(("memories", 0, "depth"), "8192"))


def as_yaml(accelerator: Accelerator) -> bytes:
    return yaml.safe_dump(accelerator.model_dump(mode="json"), sort_keys=False).encode()


@pytest.mark.parametrize("ending", ["yaml", "yml"])
def test_yaml_says_the_same(tmp_path: Path, ending: str) -> None:
    (tmp_path / f"mine.{ending}").write_bytes(as_yaml(load_accelerator("vta")))
    assert load_accelerator(tmp_path / f"mine.{ending}") == load_accelerator("vta")
    assert parse_accelerator(yaml.safe_dump(VtaConfig().model_dump()).encode()).name == VtaConfig().label


def test_a_number_beyond_any_is_no_parameter() -> None:
    text = json.dumps(DOCUMENTS["vta"]).replace('"immediate_pass_cycles": 1', '"immediate_pass_cycles": 1e999')
    with pytest.raises(InvalidAccelerator):
        parse_accelerator(text.encode())


def paths(node: Any, path: Place = ()) -> list[Place]:
    found = [path] if path else []
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else []
    for key, value in items:
        found += paths(value, (*path, key))
    return found


PATHS = {name: [path for path in paths(document) if path[0] != "source"] for name, document in DOCUMENTS.items()}
FREE = {  # places where another value is often one more accelerator
    name: [
        path
        for path in found
        if path[0] in ("dram", "parameters", "synchronisation", "clock_mhz")
        or path[-1] in ("depth", "ports", "alu_opcode")
    ]
    for name, found in PATHS.items()
}
NUMBERS = (-2, -1, 0, 1, 2, 3, 4, 8, 16, 31, 32, 63, 64, 128, 129, 256, 1000, 1024, 2047, 2048, 4096, 8192, 65536)
HUGE = (1 << 20, 1 << 31, (1 << 63) - 1, 1 << 64, -(1 << 63), 10**30)
WORDS = ("", "dst", "src", "acc", "inp", "int8", "int32", "load", "store", "opcode", None, 7, 0.5, [])


def mutate(random: np.random.Generator) -> Any:
    """A preset's document with one to three places deleted, replaced, doubled, or exchanged for another place."""

    def one_of(choices: Any) -> Any:
        return choices[int(random.integers(0, len(choices)))]

    name = one_of(sorted(DOCUMENTS))
    document = copy.deepcopy(DOCUMENTS[name])
    for _ in range(int(random.integers(1, 4))):
        path = one_of(one_of([PATHS[name], FREE[name], FREE[name]]))
        try:
            parent, old = at(document, path[:-1]), at(document, path)
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took it away
        if isinstance(parent, str):
            continue
        act = one_of(["delete", "double", "exchange", *["replace"] * 7])
        if act == "delete":
            del parent[path[-1]]
        elif act == "double" and isinstance(parent, list):
            parent.insert(int(random.integers(0, len(parent) + 1)), copy.deepcopy(old))
        elif act == "exchange":
            parent[path[-1]] = copy.deepcopy(at(DOCUMENTS[name], one_of(PATHS[name])))
        elif isinstance(old, bool):
            parent[path[-1]] = not old
        elif isinstance(old, int | float):
            parent[path[-1]] = one_of([*NUMBERS, *NUMBERS, *HUGE, old - 1, old + 1, old * 2, old // 2])
        else:
            parent[path[-1]] = one_of(WORDS)
    return document


def random_words(accelerator: Accelerator, random: np.random.Generator, *, tame: bool) -> np.ndarray:
    """Twelve instructions with random bits; tame ones hold small values and no tokens."""
    words = random.integers(0, 1 << 64, (12, 2), np.uint64)
    for row, index in enumerate(random.integers(0, len(accelerator.instructions), 12)):
        instruction = accelerator.instructions[index]
        tokens = {*instruction.tokens.pop.values(), *instruction.tokens.push.values()}
        for field in instruction.fields:
            small = 0 if field.name in tokens else int(random.integers(0, 1 << min(field.bits, 3)))
            value = small if field.value is None else field.value
            if tame or field.value is not None or random.integers(0, 4):
                word, lsb = divmod(field.lsb, 64)
                mask = ((1 << field.bits) - 1) << lsb
                words[row, word] = np.uint64(int(words[row, word]) & ~mask | value << lsb)
    return words


def execute(accelerator: Accelerator, random: np.random.Generator) -> None:
    """Instructions of its own through decoder, encoder and engines: only a SimulationError may stop one."""
    for tame in (True, False):
        words = random_words(accelerator, random, tame=tame)
        decoded = decode(accelerator, words)
        assert np.array_equal(encode(decoded), words)
        with contextlib.suppress(SimulationError):
            check_bounds(decoded, DRAM_BYTES)
            time_launch(decoded, {})
            if work_of(decoded).compute_cycles < 1 << 20:
                VtaMachine(accelerator).run(decoded, aligned_zeros(DRAM_BYTES))


def survives(seed: int) -> str | None:
    """The id of the mutated document if it is an accelerator; then it has been executed."""
    random = np.random.default_rng(seed)
    try:
        accelerator = parse_accelerator(mutate(random))
    except InvalidAccelerator:
        return None
    execute(accelerator, random)
    return accelerator_id(accelerator)


@pytest.mark.slow
def test_what_passes_the_check_executes() -> None:
    assert len({survives(seed) for seed in range(200)}) > 20  # not all were refused


@pytest.mark.long
def test_what_passes_the_check_executes_at_length() -> None:
    assert len({survives(seed) for seed in range(1000, 9000)}) > 400
