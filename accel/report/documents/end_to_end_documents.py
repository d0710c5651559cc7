"""The end-to-end time of a program as a document: the accelerator, the host beside it, and what moves between them."""

from typing import Literal

import pydantic
from pydantic import Field

from accel.accelerator.host_costs import HostBasis, OperatorClass

TimePart = Literal["accelerator", "host", "movement"]
PARTS: tuple[TimePart, ...] = ("accelerator", "host", "movement")
TimeDetail = Literal["launches", "operators", "layout", "cache"]


class ModelledHost(pydantic.BaseModel):
    """The host by which times are modelled: of the accelerator's document."""

    name: str = Field(examples=["Cortex-A9"])
    basis: HostBasis = Field(description="where its numbers are from; `assumed` if any is")
    source: str = Field(description="which numbers are from where")
    clock_mhz: float


class PartTime(pydantic.BaseModel):
    """A part of the end-to-end time."""

    cycles: int = Field(description="of the accelerator's clock")
    seconds: float
    share: float = Field(description="of the whole; the shares of all parts add up to 1")


class EndToEndStep(pydantic.BaseModel):
    """A step of the program; times in cycles of the accelerator's clock, rounded up."""

    name: str
    kind: Literal["launch", "host"]
    nodes: list[str] = Field(description="model nodes that it computes, or is for")
    begin: int = Field(description="when it begins, from the beginning of the program")
    accelerator: int = Field(description="the accelerator's cycles, as in its row of `layers`; 0 of a host step")
    host: int = Field(description="modelled: operators that compute; of a launch its start and its end")
    movement: int = Field(description="modelled: operators that only move elements, and cache maintenance")
    elements: dict[OperatorClass, int] = Field(description="of a host step, by class of operator")
    nbytes: int = Field(description="that the operators of a host step read and write")
    crossing: int = Field(description="bytes of tensors for which the cache is cleaned or invalidated")


class EndToEndTime(pydantic.BaseModel):
    """End-to-end time of one run of the program, step after step; `cycles` of the report are a part of it.

    All but the accelerator's part is modelled, and nothing of it is in `cycles`.
    """

    modelled: bool = Field(description="whether the host costs anything; false where the document has none")
    statement: str = Field(description="what it is worth, in words")
    host: ModelledHost | None = Field(description="null where the document's `host` is `none`: the host costs nothing")
    cycles: int = Field(description="of the accelerator's clock: the parts together")
    seconds: float
    parts: dict[TimePart, PartTime] = Field(
        description="`accelerator`: its launches, as `timing_model` says; `host`: operators that compute, and starts "
        "and ends of launches; `movement`: operators that only move elements, and cache maintenance"
    )
    details: dict[TimeDetail, int] = Field(
        description="cycles: `launches` and `operators` make up the host, `layout` and `cache` the movement"
    )
    bound_cycles: int | None = Field(
        description="what the best accelerator of these instructions would leave: host and movement, and the lower "
        "bounds of all launches; null in a plan"
    )
    bound_seconds: float | None
    interval_cycles: int = Field(
        description="of a stream of inputs, from one to the next at best, where enough of them are under way at once: "
        "the accelerator's part, or host and movement, whichever takes longer; one input by itself takes `cycles`"
    )
    interval_seconds: float


class EndToEnd(EndToEndTime):
    """The time with its steps."""

    steps: list[EndToEndStep] = Field(description="in the program's order; none where the document's `host` is `none`")
