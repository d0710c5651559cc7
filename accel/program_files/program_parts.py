"""Program parts: raw files that another tool wrote, and a document that says what they are (docs/program-format.md)."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path, PurePosixPath

import numpy as np

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import load_accelerator, parse_accelerator, preset_names
from accel.errors import InvalidAccelerator, InvalidProgram
from accel.isa.dram_windows import windows_around, windows_bytes
from accel.isa.family_registry import family_of
from accel.program.instruction_words import launches, read_text_words, read_words
from accel.program.program_document import (
    MOST_DRAM_BYTES,
    FileEntry,
    PartsDocument,
    WrittenEntry,
    parse_document,
    read_document,
)
from accel.program.program_model import DramWindow, Program, Segment
from accel.program_files.program_validation import check_program, check_windows
from accel.util.arrays import Words

_LEAST_DRAM_BYTES = 1 << 24
_PAGE = 4096
_MOST_BYTES = 1 << 32

Bytes = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]


def load_parts(directory: Path) -> Program:
    """Reads a directory with ``program.json`` and the files that it names.

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
    """Returns the program of a ``program.json`` and of parts that ``part`` reads by name, as from a zip or a form.

    Args:
        document: the bytes of ``program.json``.
        part: returns the bytes of the part of that name; raises KeyError if there is none.

    Raises:
        InvalidProgram: a part is missing, or not what the document says.
        InvalidAccelerator: the accelerator is unknown, or cannot work.
    """
    parts_document = read_document(parse_document(document), PartsDocument)
    accelerator = _accelerator(parts_document.accelerator, part)
    words = _words(accelerator, part)
    segments: dict[str, Segment] = {}
    image = _segments(parts_document.dram, part, segments)
    _check_overlap(parts_document.dram, [segments[name] for name in image])
    expected = _segments(parts_document.expected, part, segments)
    windows = _windows(parts_document, accelerator, segments)
    dram_bytes = windows_bytes(windows) if windows else _dram_bytes(parts_document, segments)
    written = dict(zip(image, (entry.before for entry in parts_document.dram), strict=True))
    program = Program(
        accelerator=accelerator,
        segments=segments,
        image=dict(image),
        inputs=(),
        outputs=tuple(expected),
        steps=launches(words, accelerator, written),
        words=words,
        origin=np.full(len(words), -1, np.int32),
        origins=(),
        dram_bytes=dram_bytes,
        initial_tokens=parts_document.initial_tokens,
        expected=dict(expected),
        # parts are often pages, and leave out those of zeros; where nothing is expected, results go anywhere
        granularity=_PAGE if parts_document.expected else dram_bytes,
        windows=windows,
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


def _accelerator(stated: object, part: Callable[[str], bytes]) -> Accelerator:
    if not isinstance(stated, str):
        return parse_accelerator(stated)
    if stated in preset_names():
        return load_accelerator(stated)
    try:
        document = _read(stated, part)
    except InvalidProgram as error:
        raise InvalidAccelerator(
            f"there is no accelerator {stated!r}: it is neither a preset ({', '.join(preset_names())}) nor a part "
            "of the program",
            field="accelerator",
        ) from error
    return parse_accelerator(document)


def _words(accelerator: Accelerator, part: Callable[[str], bytes]) -> Words:
    """The instructions, of ``instructions.bin`` or else of ``instructions.txt``."""
    name, reading = "instructions.bin", read_words
    try:
        data = part(name)
    except (KeyError, OSError) as error:
        name, reading = "instructions.txt", read_text_words
        try:
            data = part(name)
        except (KeyError, OSError):
            raise InvalidProgram("the part instructions.bin is missing", field="instructions.bin") from error
    words = reading(data, accelerator)
    if not len(words):
        raise InvalidProgram(f"{name} holds no instruction", field=name)
    return words


def _segments(
    entries: Sequence[FileEntry], part: Callable[[str], bytes], segments: dict[str, Segment]
) -> dict[str, Bytes]:
    """The contents of the entries by the names of their segments, which are added to ``segments``."""
    contents: dict[str, Bytes] = {}
    for entry in entries:
        data = np.frombuffer(_read(entry.file, part), np.uint8)
        name, count = entry.file, 0
        while name in segments:
            count += 1
            name = f"{entry.file}.{count}"
        segments[name] = Segment(name, entry.address, data.shape, "uint8")
        contents[name] = data
    return contents


def _windows(
    parts_document: PartsDocument, accelerator: Accelerator, segments: dict[str, Segment]
) -> tuple[DramWindow, ...]:
    """The document's windows; without any, windows around all entries if an entry lies beyond the most DRAM."""
    windows = tuple(DramWindow(**dict(window)) for window in parts_document.windows)
    far = [(index, s) for index, s in enumerate(segments.values()) if s.address + s.nbytes > MOST_DRAM_BYTES]
    if not windows and not far:
        return ()
    if not windows and not family_of(accelerator).takes_windows:
        index, segment = far[0]
        entry = (*parts_document.dram, *parts_document.expected)[index]
        key = f"dram.{index}" if index < len(parts_document.dram) else f"expected.{index - len(parts_document.dram)}"
        raise InvalidProgram(
            f"program.json, {key}: {entry.file} ends at byte {segment.address + segment.nbytes}; DRAM has at most "
            f"{MOST_DRAM_BYTES}",
            field=f"{key}.address",
        )
    if parts_document.dram_bytes is not None:
        raise InvalidProgram(
            "program.json, dram_bytes: DRAM lies in windows, which say how large they are", field="dram_bytes"
        )
    windows = windows or tuple(windows_around((s.address, s.address + s.nbytes) for s in segments.values()))
    check_windows(windows, accelerator)
    return windows


def _check_overlap(entries: tuple[WrittenEntry, ...], segments: list[Segment]) -> None:
    """What is written at one time may not overlap."""
    order = sorted(
        (entry.before, s.address, s.nbytes, index)
        for index, (entry, s) in enumerate(zip(entries, segments, strict=True))
        if s.nbytes
    )
    for (when, begin, size, first), (then, following, _, second) in pairwise(order):
        if when == then and begin + size > following:
            raise InvalidProgram(
                f"program.json, dram.{second}: {entries[second].file} begins at byte {following}, within "
                f"{entries[first].file} (dram.{first}), which ends at {begin + size}",
                field=f"dram.{second}.address",
            )


def _dram_bytes(parts_document: PartsDocument, segments: dict[str, Segment]) -> int:
    """Bytes of DRAM: as stated, else a power of two that holds every entry."""
    end = max((s.address + s.nbytes for s in segments.values()), default=0)
    if parts_document.dram_bytes is None:
        return max(_LEAST_DRAM_BYTES, 1 << (end - 1).bit_length() if end else 0)
    if parts_document.dram_bytes < end:
        raise InvalidProgram(
            f"program.json, dram_bytes: {parts_document.dram_bytes} bytes do not hold the parts, "
            f"which end at byte {end}",
            field="dram_bytes",
        )
    return parts_document.dram_bytes
