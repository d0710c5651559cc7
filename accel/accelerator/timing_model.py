"""The document that says how far cycle counts can be trusted."""

import pydantic
from pydantic import Field


class TimingModel(pydantic.BaseModel):
    """What is known of the cycle counts' error."""

    statement: str = Field(description="the rest in words")
    calibrated: bool = Field(
        description="the accelerator is timed as the one that was compared with hardware, and the program uses nothing "
        "that was not compared"
    )
    exact: int = Field(description="programs with the cycles of the RTL, of those compared")
    of: int = Field(description="programs compared; 0 where `calibrated` is false")
    worst_percent: float | None = Field(description="largest error of those programs; null where there are none")
    outside: list[str] = Field(
        description="what was not compared: where the accelerator differs (found, then calibrated), and what the "
        "program uses beyond it"
    )
