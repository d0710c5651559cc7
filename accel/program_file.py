"""Program files: a Program as a zip that other tools can read (docs/program-format.md)."""

import zipfile
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

import numpy as np
import numpy.typing as npt
import pydantic
from pydantic import ConfigDict, Field

from accel.accelerator.document import Accelerator
from accel.errors import InvalidProgram
from accel.program import HostStep, Launch, Origin, Program, Segment

_MAX_BYTES = 1 << 32
_DTYPE = Literal[
    "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "float16", "float32", "float64", "bool"
]
_Count = Annotated[int, Field(ge=0, lt=_MAX_BYTES)]


class _Model(pydantic.BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Segment(_Model):
    name: str
    address: _Count
    shape: tuple[_Count, ...]
    dtype: _DTYPE
    data: Annotated[str | None, Field(description="the file with its contents, or null: not initialised")]


class _Launch(_Model):
    kind: Literal["launch"] = "launch"
    name: str
    op: str
    nodes: tuple[str, ...]
    begin: _Count
    count: _Count
    macs: Annotated[int, Field(ge=0)]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class _HostStep(_Model):
    kind: Literal["host"] = "host"
    name: str
    module: Annotated[str, Field(description="the file with TVM's JSON of the module")]
    nodes: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class _Origin(_Model):
    nodes: tuple[str, ...]
    function: str
    site: int
    pragma: str
    stage: str


class _Document(_Model):
    version: Literal[1] = 1
    accelerator: Accelerator
    dram_bytes: _Count
    segments: tuple[_Segment, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    steps: tuple[Annotated[_Launch | _HostStep, Field(discriminator="kind")], ...]
    origins: tuple[_Origin, ...]
    initial_tokens: dict[str, int]


def save_program(program: Program, file: Path | BinaryIO) -> None:
    """Write ``program`` as a Program file; the same program gives the same bytes."""
    texts: dict[str, str] = {}
    steps: list[_Launch | _HostStep] = []
    for step in program.steps:
        if isinstance(step, Launch):
            steps.append(_Launch(**vars(step)))
        else:
            name = texts.setdefault(step.module, f"host/{len(texts)}.json")
            steps.append(_HostStep(**(vars(step) | {"module": name})))
    files = {name: f"image/{index}.bin" for index, name in enumerate(program.image)}
    document = _Document(
        accelerator=program.accelerator,
        dram_bytes=program.dram_bytes,
        segments=tuple(_Segment(**vars(s), data=files.get(name)) for name, s in program.segments.items()),
        inputs=program.inputs,
        outputs=program.outputs,
        steps=tuple(steps),
        origins=tuple(_Origin(**vars(origin)) for origin in program.origins),
        initial_tokens=program.initial_tokens,
    )
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        _write(archive, "program.json", document.model_dump_json(indent=1).encode())
        _write(archive, "instructions.bin", program.words.astype("<u8").tobytes())
        _write(archive, "origin.bin", program.origin.astype("<i4").tobytes())
        for module, name in texts.items():
            _write(archive, name, module.encode())
        for name, path in files.items():
            array = np.ascontiguousarray(program.image[name])
            _write(archive, path, array.astype(array.dtype.newbyteorder("<")).tobytes())


def _write(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    archive.writestr(zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0)), data)


def load_program(file: Path | BinaryIO, *, trust_host_code: bool = False) -> Program:
    """Read a Program file.

    Args:
        file: a path, or a file open for reading and seeking.
        trust_host_code: take host steps that hold compiler code; only for files that this project wrote itself.

    Raises:
        InvalidProgram: no zip, a part that is missing or of the wrong size, or a document that contradicts itself.
    """
    del trust_host_code
    try:
        with zipfile.ZipFile(file) as archive:
            return _Reader(archive).program()
    except (zipfile.BadZipFile, KeyError, UnicodeDecodeError, EOFError, NotImplementedError) as error:
        raise InvalidProgram(f"not a program file: {error}") from error
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = ".".join(str(part) for part in first["loc"])
        raise InvalidProgram(f"program.json, {path or 'the document'}: {first['msg']}", field=path) from error


class _Reader:
    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive

    def program(self) -> Program:
        document = _Document.model_validate_json(self._bytes("program.json"))
        flat = self._array("instructions.bin", "<u8")
        per = document.accelerator.word_bits // 64
        if per < 1 or len(flat) % per:
            raise InvalidProgram("instructions.bin does not hold whole instructions", field="instructions.bin")
        words = flat.astype(np.uint64).reshape(-1, per)
        origin = self._array("origin.bin", "<i4").astype(np.int32)
        program = Program(
            accelerator=document.accelerator,
            segments={s.name: Segment(s.name, s.address, s.shape, s.dtype) for s in document.segments},
            image={s.name: self._image(s) for s in document.segments if s.data is not None},
            inputs=document.inputs,
            outputs=document.outputs,
            steps=tuple(self._step(step) for step in document.steps),
            words=words,
            origin=origin,
            origins=tuple(Origin(**dict(o)) for o in document.origins),
            dram_bytes=document.dram_bytes,
            initial_tokens=document.initial_tokens,
        )
        _check(program, len(document.segments))
        return program

    def _bytes(self, name: str) -> bytes:
        info = self._archive.getinfo(name)
        if info.compress_type != zipfile.ZIP_STORED or info.file_size > _MAX_BYTES:
            raise InvalidProgram(f"{name} must be stored, not compressed, and under 4 GiB", field=name)
        return self._archive.read(info)

    def _array(self, name: str, dtype: str) -> npt.NDArray[Any]:
        data = self._bytes(name)
        if len(data) % np.dtype(dtype).itemsize:
            raise InvalidProgram(f"{name} has {len(data)} bytes, not a whole number of {dtype}", field=name)
        return np.frombuffer(data, dtype)

    def _image(self, segment: _Segment) -> npt.NDArray[Any]:
        dtype = np.dtype(segment.dtype)
        array = self._array(str(segment.data), dtype.newbyteorder("<").str)
        if array.size != int(np.prod(segment.shape, dtype=object)):
            raise InvalidProgram(
                f"{segment.data} holds {array.size} elements; segment {segment.name} is {list(segment.shape)}",
                field=f"segments.{segment.name}",
            )
        return array.astype(dtype).reshape(segment.shape)

    def _step(self, step: _Launch | _HostStep) -> Launch | HostStep:
        fields = {name: value for name, value in dict(step).items() if name != "kind"}
        if isinstance(step, _Launch):
            return Launch(**fields)
        return HostStep(**(fields | {"module": self._bytes(step.module).decode()}))


def _check(program: Program, count: int) -> None:
    """What the parts must agree on; a segment's place is checked with Python integers, which do not overflow."""
    if len(program.segments) != count:
        raise InvalidProgram("two segments have the same name", field="segments")
    for segment in program.segments.values():
        nbytes = int(np.prod(segment.shape, dtype=object)) * np.dtype(segment.dtype).itemsize
        if segment.address + nbytes > program.dram_bytes or segment.address % np.dtype(segment.dtype).itemsize:
            raise InvalidProgram(
                f"segment {segment.name} lies at bytes {segment.address} to {segment.address + nbytes}; the DRAM has "
                f"{program.dram_bytes}, and elements must be aligned",
                field=f"segments.{segment.name}",
            )
    names = [*program.inputs, *program.outputs]
    for step in program.steps:
        names += [*step.inputs, *step.outputs]
        if isinstance(step, Launch) and step.begin + step.count > len(program.words):
            raise InvalidProgram(
                f"launch {step.name} ends at instruction {step.begin + step.count} of {len(program.words)}",
                field=f"steps.{step.name}",
            )
    unknown = [name for name in names if name not in program.segments]
    if unknown:
        raise InvalidProgram(f"no segment is called {unknown[0]}", field=f"segments.{unknown[0]}")
    if len(program.origin) != len(program.words):
        raise InvalidProgram(
            f"origin.bin has {len(program.origin)} entries for {len(program.words)} instructions", field="origin.bin"
        )
    if len(program.origin) and not -1 <= program.origin.min() <= program.origin.max() < len(program.origins):
        raise InvalidProgram(
            f"origin.bin names an origin beyond the {len(program.origins)} there are", field="origin.bin"
        )
