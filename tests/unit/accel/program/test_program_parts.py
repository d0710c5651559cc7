"""Programs as parts: what is read, and what is refused with which words."""

import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import load_accelerator
from accel.errors import CyclopsError, InvalidAccelerator, InvalidProgram, ProgramTooLarge
from accel.program import instruction_words
from accel.program.program_model import Launch, Program
from accel.program_files import bounded_zip
from accel.program_files.open_program import open_program
from accel.program_files.program_container import save_program
from accel.program_files.program_parts import assemble, load_parts
from accel.simulate.engine import simulate
from tests.helpers.marking import share
from tests.helpers.programs.streams import small_program, stream
from tests.reference.encode import encode

VTA = load_accelerator("vta")
Parts = dict[str, bytes]


def words(*names: str, accelerator: Accelerator = VTA) -> bytes:
    return encode(stream(accelerator, [(name, {}) for name in names])).astype("<u8").tobytes()


def parts(**changes: object) -> Parts:
    """Two launches that do nothing, two tensors, and what one of them holds at the end."""
    document: dict[str, object] = {
        "accelerator": "vta",
        "dram": [{"address": 0, "file": "a.bin"}, {"address": 4096, "file": "b.bin"}],
        "expected": [{"address": 0, "file": "after.bin"}],
        "initial_tokens": {"store_to_compute": 1},
    }
    return {
        "program.json": json.dumps(document | changes).encode(),
        "instructions.bin": words("finish", "load_inp", "finish"),
        "a.bin": bytes(range(16)),
        "b.bin": bytes(100),
        "after.bin": bytes(range(16)),
    }


def read(given: Parts) -> Program:
    return assemble(given["program.json"], given.__getitem__)


@pytest.mark.slow
def test_parts_become_a_program() -> None:
    program = read(parts())
    assert program.accelerator == VTA
    assert {s.name: (s.address, s.shape, s.dtype) for s in program.segments.values()} == {
        "a.bin": (0, (16,), "uint8"),
        "b.bin": (4096, (100,), "uint8"),
        "after.bin": (0, (16,), "uint8"),
    }
    assert [program.image[name].tobytes() for name in ("a.bin", "b.bin")] == [bytes(range(16)), bytes(100)]
    assert {name: array.tobytes() for name, array in program.expected.items()} == {"after.bin": bytes(range(16))}
    assert program.initial_tokens == {"store_to_compute": 1}
    assert (program.dram_bytes, program.granularity) == (16 << 20, 4096)
    assert program.inputs == ()
    assert program.outputs == ("after.bin",)
    np.testing.assert_array_equal(program.origin, [-1, -1, -1])
    assert simulate(program, {}).outputs["after.bin"].tobytes() == bytes(range(16))


def launches(*names: str, data: bytes | None = None) -> list[tuple[str, int, int]]:
    given = parts() | {"instructions.bin": words(*names) if data is None else data}
    steps = [step for step in read(given).steps if isinstance(step, Launch)]
    return [(step.name, step.begin, step.count) for step in steps]


def test_the_stream_is_cut_after_each_finish() -> None:
    assert launches("finish") == [("launch0", 0, 1)]
    assert launches("load_inp", "finish", "finish") == [("launch0", 0, 2), ("launch1", 2, 1)]
    assert launches("load_inp", "finish", "load_inp") == [("launch0", 0, 2), ("launch1", 2, 1)]
    assert launches("load_inp") == [("launch0", 0, 1)]


def test_undefined_instructions_are_left_to_the_simulator() -> None:
    undefined = b"\xff" * 16
    data = undefined + words("finish") + undefined
    assert launches(data=data) == [("launch0", 0, 2), ("launch1", 2, 1)]


@pytest.mark.slow
@settings(max_examples=share(40))
@given(st.lists(st.sampled_from(["finish", "load_inp", "gemm", "alu", "store_out"]), min_size=1, max_size=12))
def test_launches_cover_the_stream(names: list[str]) -> None:
    found = launches(*names)
    assert [begin for _, begin, _ in found] == [0, *(begin + count for _, begin, count in found[:-1])]
    assert sum(count for _, _, count in found) == len(names)
    assert len(found) == names.count("finish") + (names[-1] != "finish")


def test_dram_is_as_large_as_its_parts_need() -> None:
    at = [{"address": (20 << 20) - 50, "file": "b.bin"}]
    assert read(parts(dram=at)).dram_bytes == 32 << 20
    assert read(parts(dram=[], expected=at)).dram_bytes == 32 << 20
    assert read(parts(dram=[], expected=[])).dram_bytes == 16 << 20
    assert read(parts(dram_bytes=5000)).dram_bytes == 5000
    last = [{"address": (1 << 32) - 100, "file": "b.bin"}]
    assert read(parts(dram=last)).dram_bytes == 1 << 32


def test_one_file_may_lie_at_several_places() -> None:
    twice = [{"address": 0, "file": "a.bin"}, {"address": 64, "file": "a.bin"}]
    program = read(parts(dram=twice, expected=twice))
    assert {name: s.address for name, s in program.segments.items()} == {
        "a.bin": 0,
        "a.bin.1": 64,
        "a.bin.2": 0,
        "a.bin.3": 64,
    }
    assert set(program.expected) == {"a.bin.2", "a.bin.3"}


def test_an_accelerator_may_be_a_name_an_object_or_a_part() -> None:
    document = VTA.model_dump(mode="json")
    keys = {"TARGET": "sim", "HW_VER": "0.0.2", "LOG_BATCH": 0, "LOG_BLOCK": 4} | {
        f"LOG_{name}": size
        for name, size in [
            ("INP_WIDTH", 3),
            ("WGT_WIDTH", 3),
            ("ACC_WIDTH", 5),
            ("UOP_BUFF_SIZE", 15),
            ("INP_BUFF_SIZE", 15),
            ("WGT_BUFF_SIZE", 18),
            ("ACC_BUFF_SIZE", 17),
        ]
    }
    assert read(parts(accelerator=document)).accelerator == VTA
    config = read(parts(accelerator=keys)).accelerator
    assert config.memories == VTA.memories
    for name, value in (("vta_config.json", keys), ("mine", document)):
        given = parts(accelerator=name) | {name: json.dumps(value).encode()}
        assert read(given).accelerator == (config if value is keys else VTA)


def entry(address: object, file: object = "a.bin") -> list[dict[str, object]]:
    return [{"address": address, "file": file}]


BAD: dict[str, tuple[Parts, str]] = {
    "no instructions": ({**parts(), "instructions.bin": b""}, "instructions.bin holds no instruction"),
    "half an instruction": ({**parts(), "instructions.bin": bytes(24)}, "24 bytes, not a whole number of 16-byte"),
    "missing part": (parts(dram=entry(0, "c.bin")), "the part c.bin is missing"),
    "missing key": ({**parts(), "program.json": b'{"dram": []}'}, "program.json, accelerator: the key is missing"),
    "unknown key": (parts(colour=1), "program.json, colour: there is no such key; the keys are accelerator, dram, exp"),
    "unknown key of an entry": (parts(dram=[{**entry(0)[0], "size": 3}]), "program.json, dram.0.size: there is no"),
    "missing key of an entry": (parts(dram=[{"address": 0}]), "program.json, dram.0.file: the key is missing"),
    "negative": (parts(dram=entry(-1)), "program.json, dram.0.address: it should be greater than or equal to 0"),
    "a fraction": (parts(dram=entry(0.5)), "program.json, dram.0.address: it should be a valid integer"),
    "a text": (parts(dram=entry("0")), "program.json, dram.0.address: it should be a valid integer"),
    "hexadecimal": (parts(dram=entry("0x10")), "program.json, dram.0.address"),
    "far": (parts(dram=entry(2**32)), "program.json, dram.0: a.bin ends at byte 4294967312"),
    "farther": (parts(dram=entry(10**40)), "program.json, dram.0.address"),
    "far expected": (parts(expected=entry(2**32 - 15)), "program.json, expected.0: a.bin ends at byte 4294967297"),
    "no list": (parts(dram={}), "program.json, dram: it should be a list"),
    "overlap": (
        parts(dram=[*entry(90), {"address": 0, "file": "b.bin"}]),
        r"dram.0: a.bin begins at byte 90, within b.bin \(dram.1\), which ends at 100",
    ),
    "a small DRAM": (parts(dram_bytes=4100), "dram_bytes: 4100 bytes do not hold the parts, which end at byte 4196"),
    "a vast DRAM": (parts(dram_bytes=2**33), "program.json, dram_bytes"),
    "no DRAM": (parts(dram_bytes=0), "program.json, dram_bytes"),
    "queue": (parts(initial_tokens={"load_to_store": 1}), "no such token queue; there are .*store_to_compute"),
    "too many tokens": (parts(initial_tokens={"store_to_compute": 256}), "256 tokens; .* holds 0 to 255"),
    "negative tokens": (parts(initial_tokens={"store_to_compute": -1}), "initial_tokens.store_to_compute"),
    "half a token": (parts(initial_tokens={"store_to_compute": 0.5}), "initial_tokens.store_to_compute"),
    "no JSON": ({**parts(), "program.json": b"{"}, "program.json: it is not JSON"),
    "no object": ({**parts(), "program.json": b"3"}, "program.json: expected an object"),
    "too many launches": ({**parts(), "instructions.bin": words("finish") * 65537}, "more than 65536 launches"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_parts_are_refused(name: str) -> None:
    given, message = BAD[name]
    with pytest.raises(InvalidProgram, match=message):
        read(given)


GEMMINI_ROWS = [(0, 1 << 16 | 4, 1 << 48), (2, 4096, 16 << 48 | 16 << 32), (3, 8192, 16 << 48 | 16 << 32)]
FAR = 0x7FFC_1234_5678


def gemmini(text: str | None = None, **changes: object) -> Parts:
    """Parts of a Gemmini whose stream is text."""
    document: dict[str, object] = {"accelerator": "gemmini", "dram": entry(4096)}
    lines = "".join(f"{funct} {rs1:x} {rs2:#x}\n" for funct, rs1, rs2 in GEMMINI_ROWS)
    return {
        "program.json": json.dumps(document | changes).encode(),
        "instructions.txt": (lines if text is None else text).encode(),
        "a.bin": bytes(range(16)),
    }


def test_a_stream_may_be_text() -> None:
    given = gemmini()
    program = read(given)
    np.testing.assert_array_equal(program.words, np.array(GEMMINI_ROWS, np.uint64))
    commented = given["instructions.txt"].decode().replace("\n", "  # and so on\n\n")
    np.testing.assert_array_equal(read(gemmini(commented)).words, program.words)
    binary = given | {"instructions.bin": program.words[:2].astype("<u8").tobytes()}
    assert len(read(binary).words) == 2  # which goes before the text


@pytest.mark.slow
def test_entries_far_away_lie_in_windows() -> None:
    far = [{"address": address, "file": "a.bin"} for address in (FAR, FAR + (1 << 20), 1 << 61, 4096)]
    program = read(gemmini("7 0 0\n", dram=far))
    mib = 1 << 20
    assert [(w.address, w.bytes) for w in program.windows] == [
        (0, mib),
        (FAR // mib * mib, 2 * mib),
        (1 << 61, mib),
    ]
    assert program.dram_bytes == 4 * mib + 4096
    simulation = simulate(program, {}, timing=False)
    assert simulation.dram.size == program.dram_bytes
    assert sum(int(byte) for byte in simulation.dram) == len(far) * sum(range(16))


def test_windows_may_be_stated() -> None:
    program = read(gemmini(windows=[{"address": 4096, "bytes": 8192}], dram=entry(8192)))
    assert [(w.address, w.bytes) for w in program.windows] == [(4096, 8192)]
    assert program.dram_bytes == 8192 + 4096


def test_what_the_host_writes_later_begins_a_launch() -> None:
    later = [{"address": 4096, "file": "a.bin"}, {"address": 4096, "file": "a.bin", "before": 2}]
    program = read(gemmini(dram=later))
    steps = [(step.begin, step.count, step.writes) for step in program.steps if isinstance(step, Launch)]
    assert steps == [(0, 2, ()), (2, 1, ("a.bin.1",))]
    assert program.written_later == {"a.bin.1"}
    given = parts(dram=[*entry(0), {"address": 4096, "file": "b.bin", "before": 2}])
    cut = [(step.begin, step.count, step.writes) for step in read(given).steps if isinstance(step, Launch)]
    assert cut == [(0, 1, ()), (1, 1, ()), (2, 1, ("b.bin",))]


@pytest.mark.slow
def test_an_instruction_sees_what_the_host_wrote_before_it() -> None:
    rows = [GEMMINI_ROWS[0], (0, 0x3F800000 << 32 | 16 << 16 | 1 << 8 | 1, 16), (0, 2, 0x3F800000 << 32 | 16)]
    rows += [(2, FAR, 1 << 48 | 16 << 32), (3, FAR + 4096, 1 << 48 | 16 << 32)]
    rows += [(2, FAR, 1 << 48 | 16 << 32), (3, FAR + 8192, 1 << 48 | 16 << 32)]
    text = "".join(f"{funct} {rs1:x} {rs2:x}\n" for funct, rs1, rs2 in rows)
    given = gemmini(
        text,
        dram=[*entry(FAR), {"address": FAR, "file": "b.bin", "before": 5}],
        expected=[{"address": FAR + 4096, "file": "a.bin"}, {"address": FAR + 8192, "file": "b.bin"}],
    )
    given["b.bin"] = bytes(range(100, 116))
    program = read(given)
    outputs = simulate(program, {}).outputs
    assert {name: array.tobytes() for name, array in outputs.items()} == {
        name: array.tobytes() for name, array in program.expected.items()
    }


BAD_GEMMINI: dict[str, tuple[Parts, str]] = {
    "a word too few": (gemmini("0 1 2\n\n7 0\n"), "instructions.txt, line 3: expected funct"),
    "a word that is none": (gemmini("0 1 z\n"), "instructions.txt, line 1"),
    "a word of 65 bits": (gemmini("0 1 10000000000000000\n"), "instructions.txt, line 1"),
    "a negative word": (gemmini("0 1 -2\n"), "instructions.txt, line 1"),
    "no instruction": (gemmini("# nothing\n"), "instructions.txt holds no instruction"),
    "no stream": ({k: v for k, v in gemmini().items() if k != "instructions.txt"}, "instructions.bin is missing"),
    "text for a VTA": (gemmini(accelerator="vta"), "instructions of .* do not consist of funct, rs1 and rs2"),
    "windows of a VTA": (parts(windows=[{"address": 0, "bytes": 8192}]), "windows: an address of .* has no windows"),
    "a window and a half": (gemmini(windows=[{"address": 0, "bytes": 6000}]), "windows.0.bytes"),
    "windows that overlap": (
        gemmini(windows=[{"address": 0, "bytes": 8192}, {"address": 4096, "bytes": 4096}]),
        "windows: those at 0x0 and 0x1000 overlap",
    ),
    "too much": (gemmini(windows=[{"address": 0, "bytes": 1 << 32}]), "windows: they have 4294971392 bytes"),
    "an entry out of windows": (gemmini(windows=[{"address": 1 << 40, "bytes": 4096}]), "its windows do not hold that"),
    "a size beside windows": (gemmini(dram=entry(FAR), dram_bytes=4096), "dram_bytes: DRAM lies in windows"),
    "before nothing": (gemmini(dram=[{**entry(0)[0], "before": 3}]), "before instruction 3; there are 3"),
    "before the beginning": (gemmini(dram=[{**entry(0)[0], "before": -1}]), "dram.0.before"),
    "expected before": (gemmini(expected=[{**entry(0)[0], "before": 1}]), "expected.0.before: there is no such key"),
    "overlap later": (
        gemmini(dram=[{"address": at, "file": "a.bin", "before": 1} for at in (0, 15)]),
        "dram.1: a.bin begins at byte 15",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_GEMMINI)
def test_bad_parts_of_a_gemmini_are_refused(name: str) -> None:
    given, message = BAD_GEMMINI[name]
    with pytest.raises(InvalidProgram, match=message):
        read(given)


@pytest.mark.parametrize("accelerator", ["tpu", "", "../vta.json", 3, None, [], {}, {"LOG_BLOCK": 4}])
def test_an_accelerator_that_is_none(accelerator: object) -> None:
    with pytest.raises(InvalidAccelerator) as caught:
        read(parts(accelerator=accelerator))
    assert (caught.value.field or "").startswith(("accelerator", "LOG_", "TARGET", "HW_VER"))


@pytest.mark.parametrize("name", ["/etc/passwd", "../a.bin", "x/../../a.bin", "..", ".", "", "a\0", "..\\a.bin"])
def test_a_name_that_leads_out(name: str, tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"secret")
    directory = written(parts(dram=entry(0, name)), tmp_path / "program")
    with pytest.raises(InvalidProgram):
        load_parts(directory)


def written(given: Parts, directory: Path) -> Path:
    for name, data in given.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(data)
    return directory


def test_links_may_stay_inside_and_not_lead_out(tmp_path: Path) -> None:
    directory = written(parts(), tmp_path / "program")
    (tmp_path / "secret").write_bytes(bytes(range(16)))
    (directory / "a.bin").unlink()
    (directory / "a.bin").symlink_to("after.bin")
    assert load_parts(directory).image["a.bin"].tobytes() == bytes(range(16))
    (directory / "a.bin").unlink()
    (directory / "a.bin").symlink_to("../secret")
    with pytest.raises(InvalidProgram, match="a link that leads out of the directory"):
        load_parts(directory)


def test_a_part_that_is_no_file(tmp_path: Path) -> None:
    directory = written(parts(), tmp_path / "program")
    (directory / "a.bin").unlink()
    os.mkfifo(directory / "a.bin")  # which a reader would wait for
    with pytest.raises(InvalidProgram, match=r"the part a\.bin is missing"):
        load_parts(directory)


def test_parts_may_lie_in_folders(tmp_path: Path) -> None:
    given = parts(dram=entry(0, "data/x.bin")) | {"data/x.bin": b"abc"}
    assert open_program(written(given, tmp_path / "program")).image["data/x.bin"].tobytes() == b"abc"


def zipped(given: Parts, path: Path, folder: str = "", method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in given.items():
            archive.writestr(folder + name, data)
    return path


def test_every_form_opens_to_the_same_program(tmp_path: Path) -> None:
    program = load_parts(written(parts(), tmp_path / "program"))
    save_program(program, tmp_path / "file.zip")
    forms = [
        tmp_path / "program",
        zipped(parts(), tmp_path / "plain.zip"),
        zipped(parts(), tmp_path / "stored", method=zipfile.ZIP_STORED),
        zipped(parts(), tmp_path / "folder.zip", "program/"),
        tmp_path / "file.zip",
    ]
    for index, form in enumerate(forms):
        save_program(open_program(form), tmp_path / f"{index}.out")
        assert (tmp_path / f"{index}.out").read_bytes() == (tmp_path / "file.zip").read_bytes(), form


def test_a_program_file_with_host_steps_opens(tmp_path: Path) -> None:
    save_program(small_program(), tmp_path / "program.zip")
    assert open_program(tmp_path / "program.zip").steps == small_program().steps


def bomb(path: Path) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("program.json", b"[" + b" " * (100 << 20))
    return path


def two_documents(path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for folder in ("a/", "b/"):
            archive.writestr(f"{folder}program.json", b"{}")
    return path


def encrypted(path: Path) -> Path:
    data = bytearray(zipped(parts(), path).read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(signature) + offset] |= 1
    path.write_bytes(data)
    return path


BAD_FILES = {
    "text": (lambda path: path.write_text("hello") and path, "it is no zip"),
    "empty": (lambda path: path.touch() or path, "it is no zip"),
    "nothing": (lambda path: path, "neither a file nor a directory"),
    "directory": (lambda path: path.mkdir() or path, r"has no program\.json"),
    "no document": (lambda path: zipped({"a": b""}, path), r"the part program\.json is missing"),
    "bomb": (bomb, r"program\.json has more than 67108864 bytes"),
    "two": (two_documents, r"a program\.json in a/ and one in b/"),
    "encrypted": (encrypted, r"program\.json is encrypted"),
    "leads out": (lambda path: zipped(parts(dram=entry(0, "../a.bin")), path), "would lead out of a folder"),
    "cut": (lambda path: path.write_bytes(zipped(parts(), path).read_bytes()[:-9]) and path, "it is no zip"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_file_that_is_no_program(name: str, tmp_path: Path) -> None:
    make, message = BAD_FILES[name]
    with pytest.raises(InvalidProgram, match=message):
        open_program(make(tmp_path / "program"))


def test_compressed_parts_count_to_a_limit_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_zip, "_MOST_INFLATED_BYTES", 1000)
    given = parts(expected=[]) | {"b.bin": bytes(1000)}
    open_program(zipped(given, tmp_path / "stored", method=zipfile.ZIP_STORED))
    with pytest.raises(ProgramTooLarge, match=r"b\.bin has more than \d+ bytes, which is what is left of the limit"):
        open_program(zipped(given, tmp_path / "compressed"))


def test_a_stream_has_at_most_so_many_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instruction_words, "MOST_INSTRUCTIONS", 2)
    with pytest.raises(ProgramTooLarge, match=r"instructions\.bin has 3 instructions; the limit is 2"):
        read(parts())


@pytest.mark.parametrize("seed", range(10))
def test_wrong_bytes_are_read_or_refused(seed: int, tmp_path: Path) -> None:
    """No other error may come out, whatever is wrong."""
    random = np.random.default_rng(seed)
    whole = np.frombuffer(zipped(parts(), tmp_path / "whole").read_bytes(), np.uint8)
    for _ in range(30):
        data = whole.copy()
        data[random.integers(0, len(data), 3)] = random.integers(0, 256, 3)
        (tmp_path / "changed").write_bytes(data.tobytes())
        try:
            open_program(tmp_path / "changed")
        except CyclopsError as error:
            assert error.detail  # noqa: PT017 # either outcome is right
