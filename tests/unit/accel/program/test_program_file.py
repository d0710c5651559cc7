import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from accel.errors import InvalidAccelerator, InvalidProgram
from accel.host.host_graph_reader import read_host_graph
from accel.program.program_model import HostStep, Launch, Program, Resident, StripedChain
from accel.program_files.program_container import load_program, save_program
from accel.simulate.engine import simulate
from tests.helpers.programs.streams import small_program

X = np.arange(64, dtype=np.int8).reshape(4, 16)


def program() -> Program:
    """One with everything that a file can hold."""
    return replace(
        small_program(),
        image={"microops": np.zeros(1, np.uint32), "x": X},
        expected={"y": (X.astype(np.float32) + 2), "sum": X + 2},
        initial_tokens={"store_to_compute": 3},
        granularity=64,
    )


def saved() -> io.BytesIO:
    file = io.BytesIO()
    save_program(program(), file)
    return file


def changed(change: Callable[[dict[str, bytes]], None]) -> io.BytesIO:
    with zipfile.ZipFile(saved()) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    change(parts)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return file


def document(edit: Callable[[dict], None]) -> io.BytesIO:
    def change(parts: dict[str, bytes]) -> None:
        value = json.loads(parts["program.json"])
        edit(value)
        parts["program.json"] = json.dumps(value).encode()

    return changed(change)


def _launch(value: dict) -> dict:
    return next(step for step in value["steps"] if step["kind"] == "launch")


def part(name: str, data: bytes) -> io.BytesIO:
    return changed(lambda parts: parts.update({name: data}))


def within_document(old: bytes, new: bytes) -> io.BytesIO:
    return changed(lambda parts: parts.update({"program.json": parts["program.json"].replace(old, new, 1)}))


def segment(index: int = 0, **changes: object) -> io.BytesIO:
    return document(lambda d: d["segments"][index].update(changes))


def tokens(**counts: int) -> io.BytesIO:
    return document(lambda d: d.update(initial_tokens=counts))


def older(graph: bytes) -> io.BytesIO:
    """A file of version 1, whose first host step is ``graph``."""

    def change(parts: dict[str, bytes]) -> None:
        document = json.loads(parts["program.json"]) | {"version": 1}
        parts |= {"program.json": json.dumps(document).encode(), "host/0.json": graph}
        parts["host/1.json"] = FLOAT

    return changed(change)


X_OF_VERSION_1 = b'{"name":"x","dtype":"int8","shape":[4,16]}'
WIDE, FLOAT = (
    b'{"parameters":[' + X_OF_VERSION_1 + b'],"bindings":[{"name":"y","op":"relax.astype","args":[{"var":"x"}],'
    b'"attrs":{"dtype":"' + dtype + b'"}}],"results":["y"]}'
    for dtype in (b"int32", b"float32")
)


def test_a_file_of_version_1_is_read_as_one_of_today() -> None:
    now, then = load_program(saved()), load_program(older(WIDE))
    for one, other in zip(now.steps, then.steps, strict=True):
        if isinstance(one, HostStep):
            assert [node.op for node in read_host_graph(other.module).graph.nodes] == ["Cast"]
            assert read_host_graph(one.module).signature() == read_host_graph(other.module).signature()
    again = io.BytesIO()
    save_program(then, again)
    with zipfile.ZipFile(again) as archive:
        assert json.loads(archive.read("program.json"))["version"] == 2


def test_joined_launches_come_back():
    """Catches a file that says of two launches that run as one that they do not."""
    one = program()
    first = next(step for step in one.steps if isinstance(step, Launch))
    second = replace(first, name="second", begin=first.begin + first.count, count=0, joined=True)
    at = one.steps.index(first) + 1
    file = io.BytesIO()
    save_program(replace(one, steps=(*one.steps[:at], second, *one.steps[at:])), file)
    assert [getattr(step, "joined", None) for step in load_program(file).steps][at - 1 : at + 1] == [False, True]
    with zipfile.ZipFile(file) as archive:
        assert json.loads(archive.read("program.json"))["version"] == 3


def resident(one: Program, **changes: object) -> Program:
    """A program that says that a result stays; whether it does is nothing that a file can be asked."""
    launch = next(step for step in one.steps if isinstance(step, Launch))
    values = {"segment": launch.outputs[0], "launches": (launch.name,), "readers": (launch.name,), "memory": "acc"}
    numbers = {"address": 1, "elements": 2, "stored": True, "bytes_not_read": 3, "bytes_not_written": 0}
    return replace(one, residents=(Resident(**(values | numbers | changes)),))


def test_residents_come_back():
    """Catches a file that does not say what stays on the chip, or says so as an older version."""
    one, file = resident(program()), io.BytesIO()
    names = tuple(step.name for step in one.steps if isinstance(step, Launch))
    one = replace(one, striped=(StripedChain(names, 2, 10, 12, 100, 140),))
    save_program(one, file)
    assert load_program(file).residents == one.residents
    assert load_program(file).striped == one.striped
    with zipfile.ZipFile(file) as archive:
        assert json.loads(archive.read("program.json"))["version"] == 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"memory": "nowhere"}, "no memory is called nowhere"),
        ({"elements": 1 << 20}, "it ends at element"),
        ({"readers": ("nobody",)}, "no launch is called nobody"),
        ({"segment": "z"}, "no segment is called z"),
    ],
)
def test_a_resident_of_nothing_is_refused(changes, message):
    """Catches residents that a report would show, of what is not in the program."""
    file = io.BytesIO()
    save_program(resident(program(), **changes), file)
    with pytest.raises(InvalidProgram, match=message):
        load_program(file)


def test_stripes_of_nothing_are_refused():
    """Catches figures that a report would show of launches that are not in the program."""
    file = io.BytesIO()
    save_program(replace(program(), striped=(StripedChain(("nobody",), 2, 10, 12, 100, 140),)), file)
    with pytest.raises(InvalidProgram, match="no launch is called nobody"):
        load_program(file)


@pytest.mark.slow
def test_a_program_comes_back_and_runs_the_same(tmp_path):
    before = program()
    save_program(before, tmp_path / "p.zip")
    after = load_program(tmp_path / "p.zip")
    for field in fields(Program):
        one, other = getattr(before, field.name), getattr(after, field.name)
        if field.name in ("image", "expected"):
            assert set(one) == set(other)
            for name, array in one.items():
                np.testing.assert_array_equal(array, other[name])
                assert array.dtype == other[name].dtype
        else:
            assert np.array_equal(one, other), field.name
    first, second = simulate(before, {"x": X}), simulate(after, {"x": X})
    assert np.array_equal(first.outputs["y"], second.outputs["y"])
    assert first.cycles == second.cycles


def test_a_file_without_the_later_keys_is_read(tmp_path):
    def shorter(value):
        for key in ("expected", "granularity"):
            value.pop(key)

    loaded = load_program(document(shorter))
    assert loaded.expected == {}
    assert loaded.granularity == 1


def test_the_same_program_gives_the_same_bytes():
    again = io.BytesIO()
    save_program(load_program(saved()), again)
    assert again.getvalue() == saved().getvalue()


def test_the_parts_are_plain_little_endian_files():
    with zipfile.ZipFile(saved()) as archive:
        assert archive.read("instructions.bin") == program().words.astype("<u8").tobytes()
        assert archive.read("image/0.bin") == X.tobytes()
        assert archive.read("image/1.bin") == bytes(4)
        assert all(info.compress_type == zipfile.ZIP_STORED for info in archive.infolist())


def drop(name: str) -> Callable[[dict[str, bytes]], None]:
    return lambda parts: parts.pop(name) and None


BAD = {
    "empty": (lambda: io.BytesIO(b""), "it is no zip"),
    "text": (lambda: io.BytesIO(b"hello"), "it is no zip"),
    "truncated": (lambda: io.BytesIO(saved().getvalue()[:-30]), "it is no zip"),
    "no document": (lambda: changed(drop("program.json")), "the part program.json is missing"),
    "no instructions": (lambda: changed(drop("instructions.bin")), "the part instructions.bin is missing"),
    "half an instruction": (
        lambda: changed(lambda parts: parts.update({"instructions.bin": bytes(24)})),
        "24 bytes, not a whole number of 16-byte instructions",
    ),
    "odd bytes": (lambda: changed(lambda parts: parts.update({"origin.bin": bytes(7)})), "origin.bin has 7 bytes"),
    "other count": (lambda: changed(lambda parts: parts.update({"origin.bin": bytes(8)})), "2 entries for 10"),
    "short image": (lambda: changed(lambda parts: parts.update({"image/0.bin": b""})), "holds 0 elements; segment"),
    "not json": (lambda: changed(lambda parts: parts.update({"program.json": b"{"})), "program.json: it is not JSON"),
    "unknown key": (lambda: document(lambda d: d.update(extra=1)), "program.json, extra"),
    "version": (lambda: document(lambda d: d.update(version=5)), "program.json, version"),
    "negative address": (lambda: document(lambda d: d["segments"][0].update(address=-1)), "segments.0.address"),
    "joined to a host step": (
        lambda: document(lambda d: _launch(d).update(joined=True)), "joined, and the step before it is no launch",
    ),
    "joined apart": (
        lambda: document(lambda d: d["steps"][2].update(joined=True, begin=0)), "joined, and begins at instruction 0",
    ),
    "type": (lambda: document(lambda d: d["segments"][0].update(dtype="object")), "segments.0.dtype"),
    "overrun": (lambda: document(lambda d: d.update(dram_bytes=100)), "segment x lies at bytes 1024 to 1088"),
    "vast shape": (lambda: segment(4, shape=[1 << 31] * 4), "segment y is"),
    "vast place": (lambda: segment(1, shape=[1 << 31] * 4), r"segment wide is int32\[21.* has int32\[4, 16\]"),
    "unaligned": (lambda: document(lambda d: d["segments"][1].update(address=2)), "elements must be aligned"),
    "twice": (lambda: document(lambda d: d["segments"].append(d["segments"][0])), "two segments have the same name"),
    "unknown segment": (lambda: document(lambda d: d.update(inputs=["z"])), "no segment is called z"),
    "launch": (lambda: document(lambda d: d["steps"][1].update(count=11)), "ends at instruction 11 of 10"),
    "unwritten": (lambda: document(lambda d: d["steps"].pop(0)), "step first reads wide, which has no data and"),
    "no output": (lambda: document(lambda d: d["steps"].pop()), "no step writes the output y"),
    "no origins": (lambda: document(lambda d: d.update(origins=[])), "names an origin beyond the 0"),
    "huge integer": (lambda: segment(address=10**30), "segments.0.address"),
    "no integer": (lambda: segment(address=1.0), "segments.0.address"),
    "a truth value": (lambda: segment(address=True), "segments.0.address"),
    "a list of names": (lambda: document(lambda d: d.update(inputs="x")), "program.json, inputs"),
    "not an object": (lambda: part("program.json", b"[]"), "program.json: expected an object"),
    "deep": (lambda: part("program.json", b"[" * 10**6), "program.json: it is nested too deeply"),
    "many values": (lambda: part("program.json", b"[" + b"0," * 2**22), "program.json: it has about"),
    "a key twice": (lambda: within_document(b"{", b'{"version": 1,'), "the key 'version' comes twice"),
    "half a pair": (lambda: within_document(b'"add1"', b'"\\ud800"'), "half of a surrogate pair"),
    "not a number": (lambda: document(lambda d: d.update(dram_bytes=float("nan"))), "NaN is no number"),
    "a missing key": (lambda: document(drop("steps")), "program.json, steps: the key is missing"),
    "expected of nothing": (lambda: document(lambda d: d.update(expected={"z": "a"})), "no segment is called z"),
    "expected absent": (lambda: changed(drop("expected/0.bin")), "the part expected/0.bin is missing"),
    "expected short": (lambda: part("expected/0.bin", bytes(12)), "expected/0.bin holds 12 elements"),
    "a part twice": (lambda: segment(1, data="image/0.bin"), "image/0.bin is named twice"),
    "a queue": (lambda: tokens(a_to_b=1), "initial_tokens.a_to_b: there is no such"),
    "tokens": (lambda: tokens(store_to_compute=10**6), "initial_tokens.store_to_compute: 1000000 tokens"),
    "negative tokens": (lambda: tokens(store_to_compute=-1), "initial_tokens.store_to_compute"),
    "no host graph": (lambda: part("host/0.json", b"{}"), r"host step widen \(host/0.json\): the host graph"),
    "host code": (lambda: part("host/0.json", b'{"tvm": "[]"}'), "host step widen .* the key 'opset' is missing"),
    "old host code": (lambda: older(b'{"tvm": "[]"}'), "host step widen .* code of a compiler; run it again from"),
    "host tensors": (
        lambda: document(lambda d: d["steps"][0].update(inputs=["x", "x"])), "inputs names 2 segments, and its graph",
    ),
    "host text": (lambda: part("host/0.json", b"\xff"), "host step widen .* not UTF-8"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_refused(name):
    make, message = BAD[name]
    with pytest.raises(InvalidProgram, match=message):
        load_program(make())


@pytest.mark.parametrize("name", ["../../y", "//y", "a\\y", "y\0"])
def test_outputs_that_could_be_paths_are_refused(name: str) -> None:
    with pytest.raises(InvalidProgram, match=r"called|program\.json") as caught:
        load_program(within_document(b'"y"', json.dumps(name).encode()))
    assert caught.value.detail.isprintable()


def test_compressed_parts_are_refused():
    file = io.BytesIO()
    with zipfile.ZipFile(saved()) as source, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in source.namelist():
            archive.writestr(name, source.read(name))
    with pytest.raises(InvalidProgram, match="must be stored"):
        load_program(file)


def test_a_part_that_is_damaged_is_named():
    data = bytearray(saved().getvalue())
    data[data.index(program().words.astype("<u8").tobytes())] ^= 1
    with pytest.raises(InvalidProgram, match=r"instructions\.bin cannot be read from the zip: Bad CRC"):
        load_program(io.BytesIO(bytes(data)))


def test_an_accelerator_that_cannot_work_is_the_accelerators_error():
    with pytest.raises(InvalidAccelerator):
        load_program(document(lambda d: d["accelerator"]["memories"][0].update(depth=-1)))


@pytest.mark.parametrize("seed", range(20))
def test_a_file_with_wrong_bytes_is_read_or_refused(seed):
    """No other error may come out, whatever is wrong."""
    random = np.random.default_rng(seed)
    whole = np.frombuffer(saved().getvalue(), np.uint8)
    for _ in range(20):
        data = whole.copy()
        data[random.integers(0, len(data), 3)] = random.integers(0, 256, 3)
        try:
            load_program(io.BytesIO(data.tobytes()))
        except (InvalidProgram, InvalidAccelerator) as error:
            assert error.detail  # noqa: PT017 # either outcome is right


def test_a_file_that_is_absent_is_the_callers_error(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        load_program(tmp_path / "none.zip")
