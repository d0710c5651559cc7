"""Programs of earlier jobs, with all that a job makes but times: a document that differs in time alone needs no more.

Kept under what they depend on: the model and how it is quantised, the options, the inputs, the document without times,
and the regions that were chosen. Which these are may depend on times: what was chosen is kept for each that a job
planned for, and for a new choice what it reads of the model's integer graph.
"""

import hashlib
import io
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter

from accel.accelerator.document import Accelerator
from accel.accelerator.target import Target
from accel.driver.run_options import Options, QuantisationOptions
from accel.driver.stage_chain import Phase
from accel.errors import CyclopsError
from accel.frontend.integer_recovery.rounding_bias import LeftBias
from accel.host.operator_work import OperatorWork
from accel.isa.family_registry import family_of
from accel.joining.resident_tensors import can_keep
from accel.lowering.analysis.float_units import runs_programs
from accel.lowering.analysis.kept_answers import KeptAnswers
from accel.lowering.ir.function_attributes import ScratchpadBuffer
from accel.lowering.partition.composite_graph import CompositeGraph, dump_graph, load_graph
from accel.lowering.partition.graph_partition import RegionChoice
from accel.program.program_model import Program
from accel.program_files.program_container import load_program
from accel.report.documents.report_documents import AttentionPlacement, FloatResult, HostOp, Provenance, TensorQuality
from accel.util.content_cache import CacheStore, SealedCache, cache_key
from accel.util.whole_files import write_whole
from accel.verify.input_tensors import Tensors
from accel.verify.output_quality import Qualities

PROGRAM_FILE = "program.zip"
_TIMELESS = ("graph.json", "instructions.bin", "model.qdq.onnx")  # artifacts that no time is in, beside the texts
_TEXTS = "tir"
_PACKED = (".json", ".txt")  # of parts that shrink
_FAST = 1  # zlib's level
_MOST_KEPT = 32 << 20  # bytes of a job's artifacts
_TIMELESS_OPTIONS = {
    "seed", "host_nodes", "dims", "shapes", "launches", "on_chip", "depth_first", "attention",
    *QuantisationOptions.model_fields,
}  # fmt: skip


@dataclass(frozen=True)
class ProgramFacts:
    """What a report says of a program beside its times.

    Attributes:
        functions: names of the accelerator's functions.
        host_ops: the nodes that the host runs.
        operations: of the arithmetic that its launches do.
        biases: the mean errors of rounding, by node.
        buffers: of the functions on the chip, by function.
        quality: how near the outputs are to the original model's.
        tensors: how near the quantised tensors are to the float network's.
        tensors_missing: why that is not known.
        floats: how results of vector programs lie within their bounds.
        attention: how attention that may go over blocks of keys was placed.
        host_works: what the operators of each host step have to do.
    """

    functions: tuple[str, ...]
    host_ops: tuple[HostOp, ...]
    operations: int
    biases: dict[str, LeftBias]
    buffers: dict[str, tuple[ScratchpadBuffer, ...]]
    quality: Qualities
    tensors: list[TensorQuality]
    tensors_missing: str
    floats: tuple[FloatResult, ...] = ()
    attention: tuple[AttentionPlacement, ...] = ()
    host_works: tuple[tuple[OperatorWork, ...], ...] = ()


@dataclass(frozen=True)
class KeptArtifacts(Phase):
    """Artifacts of an earlier job that are those of this one: packed files by name."""

    files: Mapping[str, bytes]

    def save(self, out: Path) -> None:
        """Write them."""
        for name, data in self.files.items():
            path = out / name
            path.parent.mkdir(exist_ok=True)
            write_whole(path, _unpacked(name, data))


@dataclass(frozen=True)
class KeptProgram:
    """A program with its inputs, and what is expected of it: its outputs, as it computed them and its reference did.

    What else there is of it does not depend on time either. ``verified``: it was verified on this accelerator, but for
    times that no instruction's result depends on, and no race; else it runs again.
    """

    program: Program
    facts: ProgramFacts
    artifacts: KeptArtifacts
    verified: bool


@dataclass(frozen=True)
class _Header:
    """An entry begins with this: names and bytes of its parts, which follow.

    ``verified`` says what was verified, as :func:`verified_digest` does.
    """

    facts: ProgramFacts
    parts: dict[str, int]
    verified: str


_HEADER = TypeAdapter(_Header)
_LENGTH = 8  # bytes of the header's length


class KeptPrograms:
    """The entries of a job in a cache; without one there are none.

    Attributes:
        choice: the regions of this job, once they have been chosen.
    """

    def __init__(self, cache: CacheStore | None = None, key: str = "", times: str = "") -> None:
        self.choice: RegionChoice | None = None
        self._kept = SealedCache(cache)
        self._key, self._times = key, times
        self._active = cache is not None

    @classmethod
    def of(
        cls,
        cache: CacheStore | None,
        planned: Accelerator,
        options: Options,
        provenance: Provenance,
        calibration: Tensors | None,
        feeds: Tensors,
    ) -> "KeptPrograms":
        """Returns the kept programs of a job that is ``planned`` for an accelerator.

        None without verified outputs and a named model, or with intermediates.
        Nor of a job whose nodes are placed by cycles: other cycles may give it other regions.
        """
        if cache is None or provenance.model is None or not options.verify_seconds or options.intermediates:
            return cls()
        if options.placement == "fastest":
            return cls()
        timed = planned.model_copy(update={"name": ""}).model_dump_json()
        parts = (
            provenance.model,
            provenance.versions.model_dump_json(),
            str(provenance.cpu),  # a processor may round floats as another does not
            options.model_dump_json(include=_TIMELESS_OPTIONS),
            tensors_digest(calibration or {}),
            tensors_digest(feeds),
            # where results may stay on the chip, times decide which do
            timed if _decides_by_time(planned, options) else planned.untimed().model_dump_json(),
            planned.title,  # which is in texts
        )
        times = cache_key("times", options.schedule, timed)
        return cls(cache, cache_key("program", *parts), times)

    def find_graph(self) -> CompositeGraph | None:
        """Returns what the choice of regions reads of the model; None if it is not kept."""
        data = self._kept.get(self._part("graph"))
        try:
            return None if data is None else load_graph(data)
        except ValueError:
            return None

    def keep_graph(self, graph: CompositeGraph) -> None:
        """Keeps what the choice of regions reads of the model."""
        if self._active:
            self._kept.put(self._part("graph"), dump_graph(graph))

    def find_answers(self) -> bytes | None:
        """Returns what an earlier job asked while it chose regions; None if it is not kept."""
        return self._kept.get(self._part("answers"))

    def keep_answers(self, answers: KeptAnswers) -> None:
        """Keeps what was asked while regions were chosen, if that is not what is kept."""
        data = answers.dump() if self._active and answers.asked_anew else None
        if data is not None:
            self._kept.put(self._part("answers"), data)

    def find_chosen(self, accelerator: Accelerator) -> KeptProgram | None:
        """Returns the program of what a job chose for the same times; None if that or the program is not kept."""
        chosen = self._kept.get(self._part(self._times))
        return None if chosen is None else self._found(chosen.decode(), accelerator)

    def find(self, accelerator: Accelerator) -> KeptProgram | None:
        """Returns the program of the choice for an accelerator that differs in time alone; None if it is not kept."""
        found = self._found(self._chosen(), accelerator)
        if found is not None:
            self._keep_choice()
        return found

    def _keep_choice(self) -> None:
        self._kept.put(self._part(self._times), self._chosen().encode())

    def _found(self, chosen: str, accelerator: Accelerator) -> KeptProgram | None:
        data = self._kept.get(chosen)
        try:
            return None if data is None else _load(data, accelerator)
        except (ValueError, KeyError, zlib.error, CyclopsError):
            return None

    def keep(self, out: Path, facts: ProgramFacts, accelerator: Accelerator) -> None:
        """Keeps the artifacts in ``out``, of which all are written that hold no times, and the program."""
        if not self._active:
            return
        paths = [out / PROGRAM_FILE, *(out / name for name in _TIMELESS), *sorted((out / _TEXTS).rglob("*.*"))]
        if sum(path.stat().st_size for path in paths) > _MOST_KEPT:
            return
        files = {path.relative_to(out).as_posix(): path.read_bytes() for path in paths}
        self._kept.put(self._chosen(), _dump(facts, files, accelerator), packed=True)
        self._keep_choice()

    def _chosen(self) -> str:
        assert self.choice is not None
        return self._part(self.choice.dump())

    def _part(self, what: str) -> str:
        return cache_key("kept", self._key, what)


def _decides_by_time(accelerator: Accelerator, options: Options) -> bool:
    """Whether cycles decide more than the choice of regions: what stays on the chip, or how vector programs are cut."""
    if options.on_chip == "auto" and can_keep(accelerator, family_of(accelerator)):
        return True
    return runs_programs(Target(accelerator))


def tensors_digest(tensors: Tensors) -> str:
    """Returns the SHA-256 of names, types, shapes and elements."""
    digest = hashlib.sha256()
    for name, array in sorted(tensors.items()):
        digest.update(f"{name} {array.dtype} {array.shape} ".encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def verified_digest(program: bytes, accelerator: Accelerator) -> str:
    """Returns the SHA-256 of what a verification is of: a Program file, and what results depend on of the document.

    The file has words, constants, inputs, host steps and the outputs. Of the document only what :meth:`untimed` leaves
    and the family's ``parameters`` say what instructions do, and how long a result may be stale; those that are
    ``TIMES`` do not.
    """
    times = family_of(accelerator).parameters.TIMES
    known = {name: value for name, value in accelerator.parameters.items() if name not in times}
    document = accelerator.untimed().model_copy(update={"parameters": known})
    return hashlib.sha256(document.model_dump_json().encode() + b"\0" + program).hexdigest()


def _dump(facts: ProgramFacts, files: Mapping[str, bytes], accelerator: Accelerator) -> bytes:
    """An entry. Constants of programs and models hardly shrink, and take long to try."""
    parts = {name: _packed(name, data) for name, data in files.items()}
    verified = verified_digest(files[PROGRAM_FILE], accelerator)
    header = _HEADER.dump_json(_Header(facts, {name: len(data) for name, data in parts.items()}, verified))
    return b"".join([len(header).to_bytes(_LENGTH, "little"), header, *parts.values()])


def _load(data: bytes, accelerator: Accelerator) -> KeptProgram:
    """The inverse of :func:`_dump`; ValueError, or another, for anything else."""
    at = _LENGTH + int.from_bytes(data[:_LENGTH], "little")
    header = _HEADER.validate_json(data[_LENGTH:at])
    for name in header.parts:
        folder = name.rpartition("/")[0]
        if name not in (PROGRAM_FILE, *_TIMELESS) and (folder.partition("/")[0] != _TEXTS or ".." in name):
            raise ValueError(f"{name} is no artifact that is kept")
    parts: dict[str, bytes] = {}
    for name, size in header.parts.items():
        parts[name], at = data[at : at + size], at + size
    file = parts.pop(PROGRAM_FILE)
    program = load_program(io.BytesIO(file), accelerator)
    return KeptProgram(
        program, header.facts, KeptArtifacts(parts), header.verified == verified_digest(file, accelerator)
    )


def _packed(name: str, data: bytes) -> bytes:
    return zlib.compress(data, _FAST) if name.endswith(_PACKED) else data


def _unpacked(name: str, data: bytes) -> bytes:
    return zlib.decompress(data) if name.endswith(_PACKED) else data
