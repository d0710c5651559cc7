"""The options of a run; importing them loads no compiler."""

import pydantic
from pydantic import ConfigDict, Field


class Options(pydantic.BaseModel):
    """Options of a run."""

    model_config = ConfigDict(extra="forbid")

    seed: int = Field(0, ge=0, le=2**32 - 1, strict=True, description="seed of the random inputs and calibration data")
    trace: bool = Field(True, strict=True, description="whether to keep the trace of every instruction")
