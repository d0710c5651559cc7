"""Problem details (RFC 9457), which jobs record and the service sends."""

from typing import Annotated

import pydantic
from pydantic import Field

from accel.errors import CyclopsError, Diagnosis, InternalError, InvalidAccelerator, SimulationError


def _absent(value: object) -> bool:
    return value is None


def _bounded(text: object) -> object:
    """Text that every client can read; what a stranger sent is in it."""
    if not isinstance(text, str):
        return text
    cut = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}"
    return cut.encode(errors="replace").decode()  # half of a surrogate pair has no UTF-8


LONGEST = 4096  # characters of a problem's text
_Text = Annotated[str, pydantic.BeforeValidator(_bounded)]


class FieldError(pydantic.BaseModel):
    """One offending field of a request."""

    field: _Text = Field(description="path in the request, such as `options.seed`", examples=["options.seed"])
    message: _Text = Field(description="what is wrong with it", examples=["Input should be at least 0"])
    line: int | None = Field(
        None,
        exclude_if=_absent,
        description="of an accelerator's document: the line of the text where it is, counted from 1; absent where the "
        "text has no place for it",
    )
    column: int | None = Field(None, exclude_if=_absent, description="its first character in that line, from 1")
    end_line: int | None = Field(None, exclude_if=_absent, description="the line where it ends")
    end_column: int | None = Field(
        None, exclude_if=_absent, description="the character of that line before which it ends"
    )


class Problem(pydantic.BaseModel):
    """A problem document (RFC 9457)."""

    type: str = Field(
        description="stable URI reference that names the kind of problem", examples=["/problems/not-found"]
    )
    title: str = Field(description="the same short sentence for every problem of this type")
    status: int | None = Field(
        None, exclude_if=_absent, description="HTTP status; absent where a job records the problem"
    )
    detail: _Text = Field(description="what was found and what was expected")
    field: _Text | None = Field(
        None, exclude_if=_absent, description="the offending input, a path such as `options.seed` or `node:conv1`"
    )
    errors: list[FieldError] | None = Field(
        None,
        exclude_if=_absent,
        description="every offending field, where there are several, or their places in a text are known",
    )
    diagnosis: Diagnosis | None = Field(
        None, exclude_if=_absent, description="what is wrong with a program that could not be simulated"
    )
    request_id: str | None = Field(
        None, exclude_if=_absent, description="id of the request that was answered so; absent in a job's record"
    )
    incident: str | None = Field(
        None,
        exclude_if=_absent,
        description="id of an `internal-error`, which our log names too: an error that is ours, whatever the input",
    )
    instruction: int | None = Field(
        None, exclude_if=_absent, description="the instruction at fault, counted from the program's first"
    )


def problem(slug: str, title: str, detail: str, *, field: str | None = None, status: int | None = None) -> Problem:
    """Returns a problem document of the type ``/problems/<slug>``."""
    return Problem(type=f"/problems/{slug}", title=title, status=status, detail=detail, field=field)


def problem_of(error: CyclopsError, *, status: int | None = None) -> Problem:
    """Returns the problem document of an error in the input."""
    found = problem(error.type, error.title, error.detail, field=error.field, status=status)
    if isinstance(error, SimulationError):
        return found.model_copy(update={"diagnosis": error.kind, "instruction": error.instruction})
    if isinstance(error, InvalidAccelerator) and (error.place or error.others):
        return found.model_copy(update={"errors": [_field_error(each) for each in (error, *error.others)]})
    return found


def _field_error(error: InvalidAccelerator) -> FieldError:
    place = {} if error.place is None else error.place._asdict()
    return FieldError(field=error.field or "accelerator", message=error.detail, **place)


INTERNAL = ("internal-error", "Something went wrong on our side.")  # the type, and its title


def internal_problem(error: Exception, incident: str) -> Problem:
    """Returns the problem document of a defect of Cyclops; ``incident`` is the id under which it was logged."""
    if not isinstance(error, InternalError):
        found = problem(*INTERNAL, f"{type(error).__name__}: {error}")
        return found.model_copy(update={"incident": incident})
    found = problem(*INTERNAL, error.detail, field=error.field)
    return found.model_copy(update={"incident": incident, "diagnosis": error.kind, "instruction": error.instruction})
