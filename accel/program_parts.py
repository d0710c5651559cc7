"""Program parts: raw files that another tool wrote, and a document that says what they are (docs/program-format.md)."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path, PurePosixPath

import numpy as np

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Instruction
from accel.catalog import load_accelerator, parse_accelerator, preset_names
from accel.errors import InvalidAccelerator, InvalidProgram
from accel.program import Launch, Program, Segment, Words
from accel.program_checks import check_program, read_words
from accel.program_document import (
    MOST_DRAM_BYTES,
    MOST_LAUNCHES,
    FileEntry,
    PartsDocument,
    parse_document,
    read_document,
)

_LEAST_DRAM_BYTES = 1 << 24
_PAGE = 4096
_MOST_BYTES = 1 << 32

Bytes = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]


def load_parts(directory: Path) -> Program:
    """Read a directory with ``program.json`` and the files that it names.

    Raises:
        InvalidProgram: a part is missing, or not what the document says.
        InvalidAccelerator: the accelerator is unknown, or cannot work.
    """
    root = directory.resolve()
    left = _MOST_BYTES

    def part(name: str) -> bytes:
        nonlocal left
        path = (root / name).resolve()
        if not path.is_relative_to(root):
            raise InvalidProgram(f"{name} is a link that leads out of the directory", field=name)
        if not path.is_file():
            raise KeyError(name)
        left -= path.stat().st_size
        if left < 0:
            raise InvalidProgram(f"the parts have more than {_MOST_BYTES} bytes", field=name)
        return path.read_bytes()

    try:
        document = part("program.json")
    except (KeyError, OSError) as error:
        hint = "; its program.zip is a program" if (root / "program.zip").is_file() else ""
        raise InvalidProgram(f"{directory} has no program.json that can be read{hint}", field="program.json") from error
    return assemble(document, part)


def assemble(document: bytes, part: Callable[[str], bytes]) -> Program:
    """The program of a ``program.json`` and of parts that are read by name, as from a zip or a form.

    Args:
        document: the bytes of ``program.json``.
        part: gives the bytes of the part of that name; KeyError if there is none.

    Raises:
        InvalidProgram: a part is missing, or not what the document says.
        InvalidAccelerator: the accelerator is unknown, or cannot work.
    """
    said = read_document(parse_document(document), PartsDocument)
    accelerator = _accelerator(said.accelerator, part)
    words = read_words(_read("instructions.bin", part), accelerator)
    if not len(words):
        raise InvalidProgram("instructions.bin holds no instruction", field="instructions.bin")
    segments: dict[str, Segment] = {}
    image = _segments(said.dram, "dram", part, segments)
    _check_overlap(said.dram, [segments[name] for name in image])
    expected = _segments(said.expected, "expected", part, segments)
    dram_bytes = _dram_bytes(said, segments)
    program = Program(
        accelerator=accelerator,
        segments=segments,
        image=dict(image),
        inputs=(),
        outputs=tuple(expected),
        steps=_launches(words, accelerator),
        words=words,
        origin=np.full(len(words), -1, np.int32),
        origins=(),
        dram_bytes=dram_bytes,
        initial_tokens=said.initial_tokens,
        expected=dict(expected),
        # parts are often pages, and leave out those of zeros; where nothing is expected, results go anywhere
        granularity=_PAGE if said.expected else dram_bytes,
    )
    check_program(program)
    return program


def _read(name: str, part: Callable[[str], bytes]) -> bytes:
    plain = PurePosixPath(name)
    if plain.is_absolute() or ".." in plain.parts or "\\" in name or "\0" in name or not plain.parts:
        raise InvalidProgram(f"{name!r} is no name of a part: no path out of the program is taken", field=name)
    try:
        return part(name)
    except (KeyError, OSError) as error:
        raise InvalidProgram(f"the part {name} is missing", field=name) from error


def _accelerator(said: object, part: Callable[[str], bytes]) -> Accelerator:
    if not isinstance(said, str):
        return parse_accelerator(said)
    if said in preset_names():
        return load_accelerator(said)
    try:
        document = _read(said, part)
    except InvalidProgram as error:
        raise InvalidAccelerator(
            f"there is no accelerator {said!r}: it is neither a preset ({', '.join(preset_names())}) nor a part of the "
            "program",
            field="accelerator",
        ) from error
    return parse_accelerator(document)


def _segments(
    entries: tuple[FileEntry, ...], key: str, part: Callable[[str], bytes], segments: dict[str, Segment]
) -> dict[str, Bytes]:
    """The contents of the entries by the names of their segments, which are added to ``segments``."""
    contents: dict[str, Bytes] = {}
    for index, entry in enumerate(entries):
        data = np.frombuffer(_read(entry.file, part), np.uint8)
        if entry.address + len(data) > MOST_DRAM_BYTES:
            raise InvalidProgram(
                f"program.json, {key}.{index}: {entry.file} ends at byte {entry.address + len(data)}; DRAM has at most "
                f"{MOST_DRAM_BYTES}",
                field=f"{key}.{index}.address",
            )
        name, count = entry.file, 0
        while name in segments:
            count += 1
            name = f"{entry.file}.{count}"
        segments[name] = Segment(name, entry.address, data.shape, "uint8")
        contents[name] = data
    return contents


def _check_overlap(entries: tuple[FileEntry, ...], segments: list[Segment]) -> None:
    order = sorted((s.address, s.nbytes, index) for index, s in enumerate(segments) if s.nbytes)
    for (begin, size, first), (following, _, second) in pairwise(order):
        if begin + size > following:
            raise InvalidProgram(
                f"program.json, dram.{second}: {entries[second].file} begins at byte {following}, within "
                f"{entries[first].file} (dram.{first}), which ends at {begin + size}",
                field=f"dram.{second}.address",
            )


def _dram_bytes(said: PartsDocument, segments: dict[str, Segment]) -> int:
    """Bytes of DRAM: as stated, else a power of two that holds every entry."""
    end = max((s.address + s.nbytes for s in segments.values()), default=0)
    if said.dram_bytes is None:
        return max(_LEAST_DRAM_BYTES, 1 << (end - 1).bit_length() if end else 0)
    if said.dram_bytes < end:
        raise InvalidProgram(
            f"program.json, dram_bytes: {said.dram_bytes} bytes do not hold the parts, which end at byte {end}",
            field="dram_bytes",
        )
    return said.dram_bytes


def _launches(words: Words, accelerator: Accelerator) -> tuple[Launch, ...]:
    """The stream cut after each FINISH; a rest without one, or a stream that has none, is a launch too."""
    finish = accelerator.finish
    at = np.flatnonzero(_matches(words, finish)) if finish is not None else np.zeros(0, np.int64)
    ends = [int(index) + 1 for index in at[:MOST_LAUNCHES]]
    if not ends or ends[-1] < len(words):
        ends.append(len(words))
    if len(ends) > MOST_LAUNCHES:
        raise InvalidProgram(f"instructions.bin has more than {MOST_LAUNCHES} launches", field="instructions.bin")
    return tuple(
        Launch(f"launch{index}", "program", (), begin, end - begin, 0, (), ())
        for index, (begin, end) in enumerate(pairwise([0, *ends]))
    )


def _matches(words: Words, instruction: Instruction) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Whether the constant fields of ``instruction`` hold, for each of ``words`` (n, words)."""
    result = np.ones(len(words), np.bool_)
    for field in instruction.fields:
        if field.value is not None:
            word, lsb = divmod(field.lsb, 64)
            mask = np.uint64((1 << field.bits) - 1)
            result &= (words[:, word] >> np.uint64(lsb)) & mask == np.uint64(field.value)
    return result
