"""``program.json`` of a Program file and of Program parts: its keys and limits."""

from typing import Annotated, Any, Literal, TypeVar

import pydantic
import pydantic_core
from pydantic import ConfigDict, Field

from accel.errors import InvalidProgram
from accel.util.safe_names import name_fault, shown
from accel.util.strict_json import parse_json

MOST_DRAM_BYTES = 1 << 32
MOST_WINDOWS = 1 << 12
MOST_LAUNCHES = 1 << 16
MOST_DOCUMENT_BYTES = 1 << 26
_MOST_DOCUMENT_VALUES = 1 << 22
_MOST_ITEMS = 1 << 16

Count = Annotated[int, Field(strict=True, ge=0, le=MOST_DRAM_BYTES)]
Address = Annotated[int, Field(strict=True, ge=0, lt=1 << 62)]


def _plain(name: str) -> str:
    if fault := name_fault(name):
        raise pydantic_core.PydanticCustomError("name", "{fault}", {"fault": fault})
    return name


Name = Annotated[str, Field(min_length=1, max_length=4096), pydantic.AfterValidator(_plain)]
DType = Literal["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "float16", "float32", "float64", "bool"]
Names = Annotated[tuple[Name, ...], Field(max_length=_MOST_ITEMS)]
Tokens = Annotated[dict[Name, Count], Field(description="tokens in the queues at first, by the queue's name")]
M = TypeVar("M", bound="DocumentModel")


class DocumentModel(pydantic.BaseModel):
    """Base: immutable, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class WindowEntry(DocumentModel):
    """A part of the address space that DRAM fills."""

    address: Annotated[Address, Field(multiple_of=4096)]
    bytes: Annotated[Count, Field(ge=4096, multiple_of=4096)]


Windows = Annotated[
    tuple[WindowEntry, ...],
    Field(max_length=MOST_WINDOWS, description="where DRAM lies in the address space; none: from address 0 on"),
]


class SegmentEntry(DocumentModel):
    """A tensor in DRAM."""

    name: Name
    address: Address
    shape: Annotated[tuple[Count, ...], Field(max_length=16)]
    dtype: DType
    data: Annotated[Name | None, Field(description="the part with its contents, or null: not initialised")]


class LaunchEntry(DocumentModel):
    """Instructions that the accelerator runs until FINISH."""

    kind: Literal["launch"] = "launch"
    name: Name
    op: str
    nodes: Names
    begin: Count
    count: Count
    macs: Annotated[int, Field(strict=True, ge=0, lt=1 << 63)]
    inputs: Names
    outputs: Names
    writes: Annotated[Names, Field(description="segments whose `data` the host writes right before it")] = ()
    joined: Annotated[bool, Field(strict=True, description="whether it runs in one with the launch before it")] = False
    moved: Annotated[
        dict[Name, Annotated[int, Field(strict=True, gt=-(1 << 31), lt=1 << 31)]],
        Field(max_length=64, description="memory -> elements by which its buffers lie further than allocated"),
    ] = Field(default_factory=dict)


class HostEntry(DocumentModel):
    """A function that the host runs."""

    kind: Literal["host"] = "host"
    name: Name
    module: Annotated[Name, Field(description="the part with its host graph")]
    nodes: Names
    inputs: Names
    outputs: Names


class ResidentEntry(DocumentModel):
    """A result that stays on the chip until launches that run in one with its own have read it there."""

    segment: Name
    launches: Annotated[Names, Field(description="that make it")]
    readers: Annotated[Names, Field(description="the launches that read it there")]
    memory: Name
    address: Annotated[Count, Field(description="its first element in the memory")]
    elements: Count
    stored: Annotated[bool, Field(strict=True, description="whether it is stored into its segment too")]
    bytes_not_read: Annotated[Count, Field(description="of DRAM, less what is loaded of its border")]
    bytes_not_written: Count


class StripedEntry(DocumentModel):
    """Launches that run stripe by stripe; each is there as launches `name#1`, `name#2` and on."""

    launches: Names
    stripes: Annotated[int, Field(strict=True, ge=2, lt=1 << 32)]
    cycles: Annotated[Count, Field(description="of all launches that run as one with them")]
    layered_cycles: Annotated[Count, Field(description="of these, layer by layer")]
    dram_bytes: Annotated[Count, Field(description="that all of these move")]
    layered_dram_bytes: Annotated[Count, Field(description="that all of these move, layer by layer")]


class OriginEntry(DocumentModel):
    """Where instructions came from."""

    nodes: Names
    function: str
    site: Annotated[int, Field(strict=True, ge=-(1 << 31), lt=1 << 31)]
    pragma: str
    stage: str


class ProgramDocument(DocumentModel):
    """``program.json`` of a Program file."""

    version: Annotated[
        Literal[1, 2, 3, 4],
        Field(
            description="1: host graphs are calls of TVM's Relax operators. 3: launches may be joined. 4: results may "
            "stay on the chip"
        ),
    ] = 2
    accelerator: Any
    dram_bytes: Count
    granularity: Annotated[int, Field(strict=True, ge=1, le=MOST_DRAM_BYTES)] = 1
    windows: Windows = ()
    segments: Annotated[tuple[SegmentEntry, ...], Field(max_length=_MOST_ITEMS)]
    inputs: Names
    outputs: Names
    steps: Annotated[
        tuple[Annotated[LaunchEntry | HostEntry, Field(discriminator="kind")], ...], Field(max_length=MOST_LAUNCHES)
    ]
    origins: Annotated[tuple[OriginEntry, ...], Field(max_length=1 << 20)]
    initial_tokens: Tokens
    expected: Annotated[dict[Name, Name], Field(description="segment -> the part with what it must hold")] = {}
    residents: Annotated[
        tuple[ResidentEntry, ...],
        Field(
            max_length=_MOST_ITEMS,
            description="results that stay on the chip; of the segment of one that is not stored too nothing is to be "
            "expected",
            exclude_if=lambda value: not value,
        ),
    ] = ()
    striped: Annotated[
        tuple[StripedEntry, ...],
        Field(
            max_length=_MOST_ITEMS,
            description="chains of launches that run depth first, for results to stay on the chip",
            exclude_if=lambda value: not value,
        ),
    ] = ()


class FileEntry(DocumentModel):
    """A file and the address of its first byte."""

    address: Address
    file: Name


class WrittenEntry(FileEntry):
    """A file that the host puts into DRAM right before instruction ``before`` of the stream."""

    before: Annotated[int, Field(strict=True, ge=0, lt=1 << 32)] = 0


class PartsDocument(DocumentModel):
    """``program.json`` of Program parts."""

    accelerator: Any
    dram: Annotated[tuple[WrittenEntry, ...], Field(max_length=_MOST_ITEMS)] = ()
    expected: Annotated[tuple[FileEntry, ...], Field(max_length=_MOST_ITEMS)] = ()
    initial_tokens: Tokens = {}
    dram_bytes: Annotated[int | None, Field(strict=True, ge=1, le=MOST_DRAM_BYTES)] = None
    windows: Windows = ()


def parse_document(data: bytes) -> dict[str, Any]:
    """Returns the object in ``program.json``.

    Raises:
        InvalidProgram: it is not JSON, or not an object.
    """
    try:
        value = parse_json(data, most_bytes=MOST_DOCUMENT_BYTES, most_values=_MOST_DOCUMENT_VALUES)
    except ValueError as error:
        raise InvalidProgram(f"program.json: {error}", field="program.json") from error
    if not isinstance(value, dict):
        raise InvalidProgram("program.json: expected an object", field="program.json")
    return value


def read_document(value: dict[str, Any], model: type[M]) -> M:
    """Returns ``value`` as an instance of ``model``.

    Raises:
        InvalidProgram: it does not fit; the message names the first key that is wrong.
    """
    try:
        return model.model_validate(value)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        path = ".".join(shown(str(part)) for part in first["loc"])
        reason = _REASONS.get(first["type"], first["msg"].replace("Input should", "it should"))
        if first["type"] == "extra_forbidden" and len(first["loc"]) == 1:
            reason += f"; the keys are {', '.join(model.model_fields)}"
        raise InvalidProgram(f"program.json, {path}: {reason}", field=path) from error


_REASONS = {
    "missing": "the key is missing",
    "extra_forbidden": "there is no such key",
    "tuple_type": "it should be a list",
    "dict_type": "it should be an object",
    "model_type": "it should be an object",
}
