import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from accel.errors import InvalidProgram
from accel.program_file import load_program, save_program
from accel.simulate.engine import simulate
from tests.accel.streams import small_program

X = np.arange(64, dtype=np.int8).reshape(4, 16)


def saved() -> io.BytesIO:
    file = io.BytesIO()
    save_program(small_program(), file)
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


def test_a_program_comes_back_and_runs_the_same(tmp_path):
    program = small_program()
    save_program(program, tmp_path / "p.zip")
    loaded = load_program(tmp_path / "p.zip")
    assert np.array_equal(loaded.words, program.words)
    assert np.array_equal(loaded.origin, program.origin)
    for name in ("accelerator", "segments", "inputs", "outputs", "steps", "origins", "dram_bytes", "initial_tokens"):
        assert getattr(loaded, name) == getattr(program, name), name
    before, after = simulate(program, {"x": X}), simulate(loaded, {"x": X})
    assert np.array_equal(before.outputs["y"], after.outputs["y"])
    assert before.cycles == after.cycles


def test_the_same_program_gives_the_same_bytes():
    again = io.BytesIO()
    save_program(load_program(saved()), again)
    assert again.getvalue() == saved().getvalue()


def test_the_parts_are_plain_little_endian_files():
    with zipfile.ZipFile(saved()) as archive:
        assert archive.read("instructions.bin") == small_program().words.astype("<u8").tobytes()
        assert archive.read("image/0.bin") == bytes(4)
        assert all(info.compress_type == zipfile.ZIP_STORED for info in archive.infolist())


def drop(name: str) -> Callable[[dict[str, bytes]], None]:
    return lambda parts: parts.pop(name) and None


BAD = {
    "empty": (lambda: io.BytesIO(b""), "not a program file"),
    "text": (lambda: io.BytesIO(b"hello"), "not a program file"),
    "truncated": (lambda: io.BytesIO(saved().getvalue()[:-30]), "not a program file"),
    "no document": (lambda: changed(drop("program.json")), "no item named 'program.json'"),
    "no instructions": (lambda: changed(drop("instructions.bin")), "no item named 'instructions.bin'"),
    "half an instruction": (
        lambda: changed(lambda parts: parts.update({"instructions.bin": bytes(24)})),
        "does not hold whole instructions",
    ),
    "odd bytes": (lambda: changed(lambda parts: parts.update({"origin.bin": bytes(7)})), "origin.bin has 7 bytes"),
    "other count": (lambda: changed(lambda parts: parts.update({"origin.bin": bytes(8)})), "2 entries for 10"),
    "short image": (lambda: changed(lambda parts: parts.update({"image/0.bin": b""})), "holds 0 elements; segment"),
    "not json": (lambda: changed(lambda parts: parts.update({"program.json": b"{"})), "program.json, the document"),
    "unknown key": (lambda: document(lambda d: d.update(extra=1)), "program.json, extra"),
    "version": (lambda: document(lambda d: d.update(version=2)), "program.json, version"),
    "negative address": (lambda: document(lambda d: d["segments"][0].update(address=-1)), "segments.0.address"),
    "type": (lambda: document(lambda d: d["segments"][0].update(dtype="object")), "segments.0.dtype"),
    "overrun": (lambda: document(lambda d: d.update(dram_bytes=100)), "segment x lies at bytes 1024 to 1088"),
    "vast shape": (lambda: document(lambda d: d["segments"][0].update(shape=[1 << 31] * 4)), "segment x lies at"),
    "unaligned": (lambda: document(lambda d: d["segments"][1].update(address=2)), "elements must be aligned"),
    "twice": (lambda: document(lambda d: d["segments"].append(d["segments"][0])), "two segments have the same name"),
    "unknown segment": (lambda: document(lambda d: d.update(inputs=["z"])), "no segment is called z"),
    "launch": (lambda: document(lambda d: d["steps"][1].update(count=11)), "ends at instruction 11 of 10"),
    "no origins": (lambda: document(lambda d: d.update(origins=[])), "names an origin beyond the 0"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_refused(name):
    make, message = BAD[name]
    with pytest.raises(InvalidProgram, match=message):
        load_program(make())


def test_compressed_parts_are_refused():
    file = io.BytesIO()
    with zipfile.ZipFile(saved()) as source, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in source.namelist():
            archive.writestr(name, source.read(name))
    with pytest.raises(InvalidProgram, match="must be stored"):
        load_program(file)


def test_a_file_that_is_absent_is_the_callers_error(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        load_program(tmp_path / "none.zip")
