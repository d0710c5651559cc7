"""Errors that a user can act on, and those that are ours; each carries what an RFC 9457 problem document needs."""

from typing import Literal, NamedTuple

Diagnosis = Literal[
    "undefined-opcode",
    "field-range",
    "cost",
    "padding",
    "memory-range",
    "microop-range",
    "dram-range",
    "deadlock",
    "work-limit",
    "host-step",
    "malformed",
]


class InternalError(Exception):
    """Base of every error that is ours, whatever the input: what Cyclops made of it is wrong.

    Attributes:
        detail: what was found and what was expected.
        field: where, such as ``instruction:7`` or the name of an output; may be None.
        kind: what is wrong with a compiled program that cannot run to its end; else None.
        instruction: the instruction of the compiled program that is at fault, or None.
    """

    def __init__(
        self,
        detail: str,
        *,
        field: str | None = None,
        kind: Diagnosis | None = None,
        instruction: int | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.field = field
        self.kind = kind
        self.instruction = instruction


class VerificationError(InternalError):
    """A compiled program's outputs differ from the host reference, or depend on how fast the units are."""


class CyclopsError(Exception):
    """Base of every error that is the input's fault, never ours.

    Attributes:
        type: stable slug, the last part of the problem's ``type`` URI.
        title: one short sentence, the same for every error of this type.
        detail: what was found and what was expected.
        field: the offending input, as a path such as ``options.seed`` or ``node:conv1``; may be None.
    """

    type = "invalid-input"
    title = "The input cannot be used."

    def __init__(self, detail: str, *, field: str | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.field = field


class InvalidModel(CyclopsError):
    """The file is not a model that Cyclops reads: not ONNX, truncated, malformed."""

    type = "invalid-model"
    title = "The model file cannot be read."


class ModelTooLarge(InvalidModel):
    """A model of more bytes, nodes or parts of nodes than are accepted."""

    type = "model-too-large"
    title = "The model is larger than the limits."


class ExternalData(InvalidModel):
    """The model keeps tensors in other files, such as ``f.onnx.data``: send them too, in one zip or one form.

    ``cyclops run`` and ``cyclops plan`` read them from the model's own folder, through no link.
    """

    type = "external-data"
    title = "Data that the model keeps in other files are missing or do not fit."


class UnsupportedShape(InvalidModel):
    """A dimension is unknown, negative, or beyond the stated limits."""

    type = "unsupported-shape"
    title = "A tensor shape is unknown or beyond the limits."


class InvalidAxes(CyclopsError):
    """Extents for axes that the model does not have, or that contradict it or each other."""

    type = "invalid-axes"
    title = "The extents do not fit the model's axes."


class UnsupportedType(InvalidModel):
    """An element type that Cyclops does not handle."""

    type = "unsupported-type"
    title = "A tensor element type is not supported."


class UnsupportedOperator(InvalidModel):
    """An operator that neither the accelerator nor the host can run."""

    type = "unsupported-operator"
    title = "Neither the accelerator nor the host can run an operator."


class InvalidReport(CyclopsError):
    """A report that cannot be compared: malformed, or of a version whose reports had another form."""

    type = "invalid-report"
    title = "The report cannot be used."


class InvalidTensors(CyclopsError):
    """An npz file, or one of its arrays, does not fit the model's inputs."""

    type = "invalid-tensors"
    title = "The tensors do not fit the model."


class TensorsTooLarge(InvalidTensors):
    """An npz file that unpacks to more bytes or arrays than are accepted."""

    type = "tensors-too-large"
    title = "The tensors are larger than the limits."


class TextPlace(NamedTuple):
    """A part of a text, from its first character to before ``end_column``; lines and columns are counted from 1."""

    line: int
    column: int
    end_line: int
    end_column: int


class InvalidAccelerator(CyclopsError):
    """An accelerator document that cannot work, or an unknown accelerator.

    Attributes:
        place: where the error stands in the document's text; None where that is not known.
        others: further errors of the same document that were found with this one.
    """

    type = "invalid-accelerator"
    title = "The accelerator cannot be used."
    place: TextPlace | None = None
    others: "tuple[InvalidAccelerator, ...]" = ()


class AcceleratorDocumentTooLarge(InvalidAccelerator):
    """An accelerator document that is longer, has more values, or is nested more deeply, than is accepted."""

    type = "accelerator-too-large"
    title = "The accelerator document is larger than the limits."


class InvalidProgram(CyclopsError):
    """A Program file that is truncated, malformed, or contradicts itself."""

    type = "invalid-program"
    title = "The program file cannot be used."


class ProgramTooLarge(InvalidProgram):
    """A program that unpacks to more bytes, or has more instructions, than are accepted."""

    type = "program-too-large"
    title = "The program is larger than the limits."


class CompileError(CyclopsError):
    """A stage of the compiler could not go on; ``field`` names the model node."""

    type = "compile-failed"
    title = "The model could not be compiled for this accelerator."


class CompiledTooLarge(CompileError):
    """The model would need more instructions, or more DRAM, of this accelerator than a program may have."""

    type = "compiled-too-large"
    title = "The compiled program would be larger than the limits."


class SimulationError(CyclopsError):
    """The program cannot run to its end: deadlock, out-of-range access, undefined opcode.

    Attributes:
        kind: what is wrong with it, a stable slug.
        instruction: the instruction that is at fault, or None. It counts from the launch's first where a launch is
            all that the raiser knows, and from the program's first in what :func:`simulate` raises.
        reason: what is wrong with that instruction, as ``detail`` says it after the instruction; empty in an error
            that is not made by :meth:`at_instruction`.
    """

    type = "simulation-failed"
    title = "The program could not be simulated."
    reason = ""

    def __init__(
        self,
        detail: str,
        *,
        field: str | None = None,
        kind: Diagnosis = "malformed",
        instruction: int | None = None,
    ) -> None:
        super().__init__(detail, field=field)
        self.kind: Diagnosis = kind
        self.instruction = instruction

    @classmethod
    def at_instruction(cls, number: int, kind: Diagnosis, reason: str, name: str = "") -> "SimulationError":
        """Returns the error of instruction ``number``, which may have a name; ``reason`` says what is wrong with it."""
        subject = f"instruction {number} ({name})" if name else f"instruction {number}"
        error = cls(f"{subject}: {reason}", field=f"instruction:{number}", kind=kind, instruction=number)
        error.reason = reason
        return error
