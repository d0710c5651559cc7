"""The options of a run, and how far one is; importing them loads no compiler."""

from dataclasses import dataclass
from typing import Annotated, Literal

import pydantic
from pydantic import ConfigDict, Field

from accel.frontend.quantize.scale_grid import CalibrationMethod
from accel.frontend.read.model_info import Axes
from accel.report.documents.report_documents import Engine

Schedule = Literal["auto", "quick", "timed"]
"""How a tiling is chosen: by the planner's estimates alone, or by timing those that it prices alike."""

WeightScales = Literal["auto", "tensor", "channel"]
"""What of weights has a scale: the tensor, or each output channel; or whichever costs the machine nothing more."""

Launches = Literal["joined", "separate"]
"""Whether layers that no host step parts run as one launch, or each as its own."""

Placement = Literal["accelerator", "fastest"]
"""Whether all that the accelerator can run is its, or what makes the whole faster, end to end."""

OnChip = Literal["auto", "off"]
"""Whether results stay on the chip from launch to launch."""

DepthFirst = Literal["auto", "always", "off"]
"""Whether layers run stripe by stripe, where results between them do not fit on the chip."""

Attention = Literal["auto", "fused", "unfused"]
"""Whether attention goes over blocks of keys, as one program."""

Tried = Literal["some", "all"]
"""Which changes a report tries."""

MOST_INPUTS = 64
"""Inputs of a stream."""

_Name = Annotated[str, Field(max_length=512)]
_Extent = Annotated[int, Field(ge=1, le=2**31 - 1, strict=True)]


class RunOptions(pydantic.BaseModel):
    """Options of any run."""

    model_config = ConfigDict(extra="forbid")

    seed: int = Field(0, ge=0, le=2**32 - 1, strict=True, description="seed of the random inputs and calibration data")
    trace: bool = Field(True, strict=True, description="whether to keep the trace of every instruction")
    limits: Tried = Field(
        "some",
        description="which changes of the accelerator the report tries, to say what limits the program: `all`, or of a "
        "large program only `some`, which take seconds",
    )


class QuantisationOptions(pydantic.BaseModel):
    """How a float model is quantised; a quantised one stays as it is."""

    calibration_method: CalibrationMethod = Field(
        "mse",
        description="how the range of each activation of a float model is chosen from the calibration data: `minmax` "
        "holds every value, `percentile` all but one in 10,000 on each side, `entropy` is the one whose 128 levels "
        "tell most of the distribution, `mse` has the least squared error, where what is clipped "
        "counts four times",
    )
    weight_scales: WeightScales = Field(
        "auto",
        description="whether the weights of a float model have a scale for the `tensor` or for each output `channel`; "
        "`auto`: for each channel where the accelerator multiplies and shifts in one instruction, else for the tensor. "
        "By channel, an accelerator that cannot requantise so leaves that to the host",
    )
    zero_points: Literal["auto", "none", "unpadded", "fused", "all"] = Field(
        "auto",
        description="which activations of a float model may have a zero point, which doubles the resolution behind a "
        "relu: `none`; `unpadded`, those that no convolution or pooling pads; `fused`, also those that are padded but "
        "for results of a relu by itself; `all`. What is padded lies in DRAM within a border of its zero point, or the "
        "host pads it. `auto` is `all` where the accelerator scales by a float, `fused` where it shifts and its "
        "results lie in DRAM as data do, else `unpadded`",
    )


class Options(RunOptions, QuantisationOptions):
    """Options of a run that compiles a model."""

    host_nodes: tuple[str, ...] = Field(
        (),
        max_length=1000,
        description="nodes of the model that the host shall run, though the accelerator could; what is fused with one "
        "of them goes with it",
    )
    placement: Placement = Field(
        "accelerator",
        description="where operators go: to the `accelerator` wherever it can run them, or to the host where the whole "
        "is `fastest` so, with launches, host and movement as a dry run estimates them; `host_ops` say how much. "
        "For an accelerator whose document has a `host`",
    )
    dims: dict[_Name, _Extent] = Field(
        default_factory=dict,
        max_length=1000,
        description="extents of the model's dynamic axes, by their names; what nothing sets is 1, with a warning",
        examples=[{"batch": 4}],
    )
    shapes: dict[_Name, Annotated[tuple[_Extent, ...], Field(max_length=64)]] = Field(
        default_factory=dict,
        max_length=1000,
        description="shapes of the model's inputs, by their names, whose dynamic axes they set",
        examples=[{"x": [1, 3, 32, 32]}],
    )
    schedule: Schedule = Field(
        "auto",
        description="how tilings are chosen: `timed` compiles and times those that the planner prices nearly alike, "
        "`quick` takes the cheapest by its estimate, as a dry run does; `auto` times those whose estimates "
        "are not exact: of VTA those of launches that run alone and add, or make no image; all of others. Launches "
        "that run as one are timed with those around them: by `auto` of machines that order all accesses themselves, "
        "and of networks of a few layers; by `timed` of all. But for `timed` the latency of DRAM counts in "
        "steps of 2 below 20, 5 below 50, 10 below 100, and ten times as many from there on, so that near latencies "
        "have one program; its cycles are of the document's own",
    )
    launches: Launches = Field(
        "joined",
        description="whether layers that no host step parts run as one launch, so that one is loaded for while another "
        "computes, where tokens, addresses or fences can order them (`joined`), or each as a launch of its own "
        "(`separate`)",
    )
    repeat: int = Field(
        1,
        ge=1,
        le=MOST_INPUTS,
        strict=True,
        exclude_if=lambda inputs: inputs == 1,
        description="inputs of the network that are run one after the other, to report what the first one takes and "
        "what each further one adds (`stream`); all are the sample that is verified. 1: no stream",
    )
    on_chip: OnChip = Field(
        "auto",
        description="whether results stay on the chip until the layers behind have read them there, where the "
        "accelerator leaves results in a memory that it reads, and layers run as one launch: `auto`, where that takes "
        "fewer cycles, or as many and fewer bytes of DRAM; `off`, never",
    )
    depth_first: DepthFirst = Field(
        "auto",
        description="whether layers run stripe by stripe, one behind the other, where results between them are too "
        "large to stay on the chip: `auto`, where that takes fewer cycles, or as many and fewer bytes of DRAM; "
        "`always`, the order and tilings of the fewest bytes, at any cycles; `off`, never. It counts where results may "
        "stay",
    )
    attention: Attention = Field(
        "auto",
        description="whether attention of float32 goes over blocks of keys as one program, whose scores are never in "
        "DRAM, where instructions of the accelerator can: `auto`, where that is priced at fewer cycles; `fused`, "
        "wherever it fits; `unfused`, never. `attention` of the report has the cycles and bytes of both",
    )
    verify_seconds: float = Field(
        300,
        ge=0,
        allow_inf_nan=False,
        description="how long a model's outputs may be computed on the host, to be compared with the accelerator's; "
        "what takes longer ends unverified, with a warning. 0: they are not compared",
    )

    intermediates: tuple[_Name, ...] = Field(
        (),
        max_length=1000,
        description="names of the model's tensors to keep in `intermediates.npz`: `float/NAME` as the float network "
        'has it, and `ours/NAME` where the program has it; `"*"` is every tensor. At most 67,108,864 elements',
        examples=[["conv1_out"]],
    )

    @property
    def axes(self) -> Axes:
        """What it sets the model's dynamic axes to."""
        return Axes(self.dims, self.shapes)


@dataclass(frozen=True)
class StageProgress:
    """Stage ``step`` of ``total``, counted from 1, has begun."""

    stage: str
    step: int
    total: int


class SimulateOptions(RunOptions):
    """Options of a program's run."""

    engine: Engine = Field("both", description="what to simulate: `function`, `timing`, or `both`")
