"""The options of a run; importing them loads no compiler."""

import pydantic
from pydantic import ConfigDict, Field


class RunOptions(pydantic.BaseModel):
    """Options of any run."""

    model_config = ConfigDict(extra="forbid")

    seed: int = Field(0, ge=0, le=2**32 - 1, strict=True, description="seed of the random inputs and calibration data")
    trace: bool = Field(True, strict=True, description="whether to keep the trace of every instruction")


class Options(RunOptions):
    """Options of a run that compiles a model."""

    host_nodes: tuple[str, ...] = Field(
        (),
        max_length=1000,
        description="nodes of the model that the host shall run, though the accelerator could; what is fused with one "
        "of them goes with it",
    )
    verify_seconds: float = Field(
        300,
        ge=0,
        allow_inf_nan=False,
        description="how long a model's outputs may be computed on the host, to be compared with the accelerator's; "
        "what takes longer ends unverified, with a warning. 0: they are not compared",
    )
