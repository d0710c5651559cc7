"""A stream of inputs as a document: what the first one takes, and what each further one adds."""

import pydantic
from pydantic import Field


class InputStream(pydantic.BaseModel):
    """Inputs of a network one after the other: how long the first takes, and how far apart results then come.

    All are the sample that the job verifies, in the same buffers of DRAM; the outputs after the last one are compared
    with those of a run by itself. Different inputs need those that cross to the host in DRAM twice.
    """

    inputs: int = Field(description="how many were run, as `options.repeat` says", examples=[8])
    joined: bool = Field(
        description="whether the launches of one input run on into those of the next, as layers do within it"
    )
    accelerator_cycles: int = Field(description="of the accelerator for all of them, as `timing_model` says")
    accelerator_latency: int = Field(
        description="cycles of the accelerator until its last store of the first input has ended; where inputs run on "
        "into one another, a Gemmini's writes may arrive some tens of cycles later"
    )
    accelerator_interval: int = Field(
        description="cycles of the accelerator from the results of one input to those of the next, the mean of all "
        "behind the first, rounded up"
    )
    latency_cycles: int = Field(
        description="of the first input: the accelerator's, and modelled host and movement as in `end_to_end`"
    )
    latency_seconds: float
    interval_cycles: int = Field(
        description="from input to input where the host works for others while the accelerator runs: the accelerator's "
        "interval, or host and movement of one input, whichever takes longer"
    )
    interval_seconds: float
    inputs_per_second: float | None = Field(description="one in an interval; null where that takes no time")
