"""What a job is asked to do."""

from collections.abc import Collection, Mapping
from typing import Literal

import pydantic
from pydantic import ConfigDict, Field
from pydantic_core import PydanticCustomError

from accel.driver.run_options import Options, QuantisationOptions

_OF_A_MODEL: Mapping[str, Collection[str]] = {
    "a program is compiled already: nothing is calibrated": ["calibration"],
    "a program is compiled already: its shapes are fixed": ["dims", "shapes"],
    "a program is compiled already: it runs where it runs": ["host_nodes", "placement"],
    "a program is compiled already: nothing is quantised": [*QuantisationOptions.model_fields, "intermediates"],
    "a program is run for its own input": ["repeat"],
    "a program is compiled already: its tilings are chosen": ["schedule"],
    "a program is compiled already: its launches are what they are": ["launches"],
}
"""What options of a model say of a program: that they do not apply."""
DIGEST = "^[0-9a-f]{64}$"


class JobOptions(Options):
    """Options of a job: of its run, and the tensors to feed it."""

    engine: Literal["function", "timing", "both"] = Field(
        "both", description="what to simulate of a program; a model's job always does both"
    )
    inputs: str | None = Field(
        None,
        pattern=DIGEST,
        description="id of uploaded tensors, one for each input; else the program's own data, else seeded random",
    )
    calibration: str | None = Field(
        None, pattern=DIGEST, description="id of uploaded calibration tensors for a model; else seeded random"
    )


class JobRequest(pydantic.BaseModel):
    """What a job is asked to do: compile and simulate a model, or simulate a program."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"oneOf": [{"required": ["model", "accelerator"]}, {"required": ["program"]}]},
    )

    model: str | None = Field(None, pattern=DIGEST, description="id of an uploaded model")
    program: str | None = Field(
        None, pattern=DIGEST, validate_default=True, description="id of an uploaded program, in place of a model"
    )
    accelerator: str | None = Field(
        None,
        max_length=100,
        validate_default=True,
        description="id of an accelerator; a program brings its own, and runs on this one if it is given",
        examples=["vta"],
    )
    options: JobOptions = JobOptions()

    @pydantic.field_validator("program")
    @classmethod
    def _one_of_two(cls, program: str | None, info: pydantic.ValidationInfo) -> str | None:
        if "model" in info.data and (program is None) == (info.data["model"] is None):
            raise contradiction("give either a model or a program", "model", "program")
        return program

    @pydantic.field_validator("accelerator")
    @classmethod
    def _target_of_a_model(cls, accelerator: str | None, info: pydantic.ValidationInfo) -> str | None:
        require_target(accelerator, info)
        return accelerator

    @pydantic.field_validator("options")
    @classmethod
    def _options_that_apply(cls, options: JobOptions, info: pydantic.ValidationInfo) -> JobOptions:
        if info.data.get("model") is not None and options.engine != "both":
            raise contradiction("a model is verified and timed: leave it at both", "options.engine")
        if info.data.get("program") is not None:
            usual = JobOptions()
            for said, names in _OF_A_MODEL.items():
                changed = [f"options.{name}" for name in names if getattr(options, name) != getattr(usual, name)]
                if changed:
                    raise contradiction(said, *changed)
        return options


def require_target(accelerator: str | None, info: pydantic.ValidationInfo) -> None:
    """Refuses a model without an accelerator.

    Raises:
        PydanticCustomError: there is none.
    """
    refused = "model" not in info.data  # it was given, and is no id
    if accelerator is None and info.data.get("program") is None and (refused or info.data["model"] is not None):
        raise contradiction("a model needs an accelerator", "accelerator")


def contradiction(message: str, *fields: str) -> PydanticCustomError:
    """Returns an error of several fields together; ``ctx.fields`` has their paths."""
    return PydanticCustomError("contradiction", "{message}", {"message": message, "fields": list(fields)})
