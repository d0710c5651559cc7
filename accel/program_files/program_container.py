"""Program files: a Program as a zip that other tools can read (docs/program-format.md)."""

import json
import math
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import parse_once
from accel.errors import InvalidProgram
from accel.host.host_graph_reader import read_host_graph
from accel.host.json_fields import Tensor
from accel.program.instruction_words import read_words
from accel.program.program_document import (
    MOST_DOCUMENT_BYTES,
    HostEntry,
    LaunchEntry,
    OriginEntry,
    ProgramDocument,
    ResidentEntry,
    SegmentEntry,
    StripedEntry,
    WindowEntry,
    parse_document,
    read_document,
)
from accel.program.program_model import (
    DramWindow,
    HostStep,
    InstructionOrigin,
    Launch,
    Program,
    Resident,
    Segment,
    StripedChain,
)
from accel.program_files.bounded_zip import ZipParts, open_zip
from accel.program_files.program_validation import check_program
from accel.util.whole_files import whole_file


def save_program(program: Program, file: Path | BinaryIO) -> None:
    """Writes ``program`` as a Program file; equal programs have equal bytes."""
    if isinstance(file, Path):
        with whole_file(file) as unfinished, unfinished.open("wb") as opened:
            save_program(program, opened)
        return
    texts: dict[str, str] = {}
    steps: list[LaunchEntry | HostEntry] = []
    for step in program.steps:
        if isinstance(step, Launch):
            steps.append(LaunchEntry(**vars(step)))
        else:
            name = texts.setdefault(step.module, f"host/{len(texts)}.json")
            steps.append(HostEntry(**(vars(step) | {"module": name})))
    files, expected = (
        {
            name: f"{folder}/{index}.bin"
            for index, name in enumerate(name for name in program.segments if name in arrays)
        }
        for folder, arrays in (("image", program.image), ("expected", program.expected))
    )
    joined = any(isinstance(step, LaunchEntry) and step.joined for step in steps)
    document = ProgramDocument(
        version=4 if program.residents else 3 if joined else 2,
        accelerator=program.accelerator.model_dump(mode="json"),
        dram_bytes=program.dram_bytes,
        granularity=program.granularity,
        windows=tuple(WindowEntry(**vars(window)) for window in program.windows),
        segments=tuple(SegmentEntry(**vars(s), data=files.get(name)) for name, s in program.segments.items()),
        inputs=program.inputs,
        outputs=program.outputs,
        steps=tuple(steps),
        origins=tuple(OriginEntry(**vars(origin)) for origin in program.origins),
        initial_tokens=dict(sorted(program.initial_tokens.items())),
        expected=expected,
        residents=tuple(ResidentEntry(**vars(resident)) for resident in program.residents),
        striped=tuple(StripedEntry(**vars(chain)) for chain in program.striped),
    )
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        _write(archive, "program.json", document.model_dump_json(indent=1).encode())
        _write(archive, "instructions.bin", little_endian(program.words).data)
        _write(archive, "origin.bin", little_endian(program.origin).data)
        for module, name in texts.items():
            _write(archive, name, module.encode())
        for arrays, paths in ((program.image, files), (program.expected, expected)):
            for name, path in paths.items():
                _write(archive, path, little_endian(arrays[name]).data)


def little_endian(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Returns the array in little-endian bytes and C order, as files have it; itself where it is so already."""
    return np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)


def _write(archive: zipfile.ZipFile, name: str, data: bytes | memoryview) -> None:
    info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    info.file_size = memoryview(data).nbytes
    with archive.open(info, "w") as entry:
        entry.write(data)


def load_program(file: Path | BinaryIO, accelerator: Accelerator | None = None) -> Program:
    """Reads a Program file.

    Args:
        file: a path, or a file open for reading and seeking.
        accelerator: takes the place of the file's own, which is not read then; nor are its host graphs, as this
            package has written the file.

    Raises:
        InvalidProgram: no zip, a part that is missing or of the wrong size, or a document that contradicts itself.
        InvalidAccelerator: the accelerator cannot work.
        OSError: the file cannot be opened.
    """
    with open_zip(file) as parts:
        return read_program(parts, parse_document(parts.read("program.json", MOST_DOCUMENT_BYTES)), accelerator)


def read_program(parts: ZipParts, parsed: dict[str, Any], accelerator: Accelerator | None = None) -> Program:
    """Reads a Program file that is open, whose ``program.json`` is ``parsed``; else as :func:`load_program`.

    Raises:
        InvalidProgram, InvalidAccelerator: as :func:`load_program`.
    """
    document = read_document(parsed, ProgramDocument)
    program = _Reader(parts, document.version).program(document, accelerator)
    check_program(program)
    return program


class _Reader:
    def __init__(self, parts: ZipParts, version: int) -> None:
        self._parts = parts
        self._version = version
        self._read: set[str] = set()
        self._graphs: dict[str, tuple[str, list[Tensor], list[Tensor]]] = {}
        self._own = False
        self._texts: dict[str, str] = {}

    def program(self, document: ProgramDocument, accelerator: Accelerator | None) -> Program:
        self._own = accelerator is not None
        accelerator = accelerator or parse_once(json.dumps(document.accelerator))
        segments = {s.name: Segment(s.name, s.address, s.shape, s.dtype) for s in document.segments}
        if len(segments) != len(document.segments):
            raise InvalidProgram("two segments have the same name", field="segments")
        unknown = [name for name in document.expected if name not in segments]
        if unknown:
            raise InvalidProgram(f"no segment is called {unknown[0]}", field=f"expected.{unknown[0]}")
        return Program(
            accelerator=accelerator,
            segments=segments,
            image={s.name: self._contents(segments[s.name], s.data) for s in document.segments if s.data is not None},
            inputs=document.inputs,
            outputs=document.outputs,
            steps=tuple(self._step(step, segments) for step in document.steps),
            words=read_words(self._bytes("instructions.bin"), accelerator),
            origin=self._array("origin.bin", "<i4").astype(np.int32),
            origins=tuple(InstructionOrigin(**dict(origin)) for origin in document.origins),
            dram_bytes=document.dram_bytes,
            initial_tokens=document.initial_tokens,
            expected={name: self._contents(segments[name], part) for name, part in document.expected.items()},
            granularity=document.granularity,
            windows=tuple(DramWindow(**dict(window)) for window in document.windows),
            residents=tuple(Resident(**dict(resident)) for resident in document.residents),
            striped=tuple(StripedChain(**dict(chain)) for chain in document.striped),
        )

    def _bytes(self, name: str) -> bytes:
        if name in self._read:
            raise InvalidProgram(f"{name} is named twice", field=name)
        if not self._parts.is_stored(name):
            raise InvalidProgram(f"{name} must be stored, not compressed", field=name)
        self._read.add(name)
        return self._parts.read(name)

    def _array(self, name: str, dtype: str) -> npt.NDArray[Any]:
        data = self._bytes(name)
        if len(data) % np.dtype(dtype).itemsize:
            raise InvalidProgram(f"{name} has {len(data)} bytes, not a whole number of {dtype}", field=name)
        return np.frombuffer(data, dtype)

    def _contents(self, segment: Segment, part: str) -> npt.NDArray[Any]:
        dtype = np.dtype(segment.dtype)
        array: npt.NDArray[Any]
        if dtype.kind == "b":  # whose bytes may be 0 and 1 only
            array = self._array(part, "u1") != 0
        else:
            array = self._array(part, dtype.newbyteorder("<").str).astype(dtype)
        if array.size != math.prod(segment.shape):
            raise InvalidProgram(
                f"{part} holds {array.size} elements; segment {segment.name} is {list(segment.shape)}",
                field=f"segments.{segment.name}",
            )
        return array.reshape(segment.shape)

    def _step(self, step: LaunchEntry | HostEntry, segments: dict[str, Segment]) -> Launch | HostStep:
        fields = {name: value for name, value in dict(step).items() if name != "kind"}
        if isinstance(step, LaunchEntry):
            return Launch(**fields)
        if self._own:
            return HostStep(**(fields | {"module": self._own_text(step.module)}))
        try:
            text, takes, gives = self._host_graph(step.module)
            _check_tensors("inputs", step.inputs, takes, segments)
            _check_tensors("outputs", step.outputs, gives, segments)
        except InvalidProgram as error:
            where = f"host step {step.name} ({step.module})"
            raise InvalidProgram(f"{where}: {error.detail}", field=f"steps.{step.name}") from error
        return HostStep(**(fields | {"module": text}))

    def _own_text(self, part: str) -> str:
        """The text of a host graph that is read where it is run."""
        if part not in self._texts:
            self._texts[part] = self._bytes(part).decode()
        return self._texts[part]

    def _host_graph(self, part: str) -> tuple[str, list[Tensor], list[Tensor]]:
        """The text of a host graph, its inputs and its outputs; it is checked once for all its steps."""
        if part not in self._graphs:
            try:
                text = self._bytes(part).decode()
            except UnicodeDecodeError as error:
                raise InvalidProgram("it is not UTF-8") from error
            if self._version == 1:
                from accel.host.relax_graph_reader import converted  # noqa: PLC0415 # which loads the compiler

                text = converted(text)
            self._graphs[part] = text, *read_host_graph(text).signature()
        return self._graphs[part]


def _check_tensors(key: str, names: tuple[str, ...], tensors: list[Tensor], segments: dict[str, Segment]) -> None:
    """Refuse segments that do not fit the graph's tensors; missing segments are reported by a later check."""
    if len(names) != len(tensors):
        raise InvalidProgram(f"{key} names {len(names)} segments, and its graph has {len(tensors)}")
    for name, (shape, dtype) in zip(names, tensors, strict=True):
        segment = segments.get(name)
        if segment is not None and (segment.shape, segment.dtype) != (shape, dtype):
            raise InvalidProgram(
                f"{key}: segment {name} is {segment.dtype}{list(segment.shape)}, and its graph has {dtype}{list(shape)}"
            )
