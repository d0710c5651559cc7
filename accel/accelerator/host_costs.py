"""What a document says of the processor beside the accelerator: how long its operators, launches and caches take.

All times are in cycles of the host's own clock, so that the section holds beside any accelerator.
"""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from accel.accelerator.base import Count, DocumentPart, Energy, says_nothing

OperatorClass = Literal["elementwise", "reduction", "exponential", "contraction", "movement"]
HostBasis = Literal["measured", "cited", "assumed"]
_Text = r"^[^\x00-\x1f\x7f]+$"
_LEAST = 1e-6  # of a clock, 1 Hz, and of rates: below, times are too long for what counts them
_Rate = Annotated[float, Field(strict=True, ge=_LEAST, le=1e6, allow_inf_nan=False)]
_Cycles = Annotated[float, Field(strict=True, ge=0, le=1e9, allow_inf_nan=False)]


class ElementRates(DocumentPart):
    """Elements that the host computes a cycle, by class of operator, where memory does not hold it up."""

    elementwise: Annotated[_Rate, Field(description="additions, products, comparisons, casts: results", examples=[1.0])]
    reduction: Annotated[_Rate, Field(description="sums and maxima along axes or windows: operands", examples=[1.0])]
    exponential: Annotated[_Rate, Field(description="functions such as exp, tanh, erf, log: results", examples=[0.025])]
    contraction: Annotated[_Rate, Field(description="sums of products: multiply-accumulates", examples=[0.9])]
    movement: Annotated[_Rate, Field(description="transpositions, slices, gathers: results", examples=[0.5])]

    def of(self, kind: OperatorClass) -> float:
        """Returns the elements a cycle of a class."""
        rate: float = getattr(self, kind)
        return rate


class CacheMaintenance(DocumentPart):
    """What it takes to clean or invalidate the host's cache over a tensor that crosses to or from the accelerator."""

    call_cycles: Annotated[_Cycles, Field(description="of each tensor, however small", examples=[650.0])] = 0.0
    line_bytes: Annotated[Count, Field(le=4096, description="bytes of a cache line", examples=[32])] = 64
    line_cycles: Annotated[_Cycles, Field(description="of each line of it", examples=[10.0])] = 0.0


class HostCosts(DocumentPart):
    """The processor that runs what the accelerator does not, and what it costs it to launch the accelerator."""

    name: Annotated[
        str, Field(min_length=1, max_length=200, pattern=_Text, description="what it is", examples=["Cortex-A9"])
    ]
    basis: Annotated[
        HostBasis, Field(description="where the numbers are from; `assumed` if any is", examples=["cited"])
    ]
    source: Annotated[
        str,
        Field(
            min_length=1,
            max_length=2000,
            pattern=_Text,
            description="which numbers are from where, which are assumed and why",
            examples=["UG585, chapter 22; the rates are assumed"],
        ),
    ]
    clock_mhz: Annotated[
        float,
        Field(
            strict=True,
            ge=_LEAST,
            le=100_000,
            allow_inf_nan=False,
            description="the host's clock, MHz",
            examples=[650.0],
        ),
    ]
    bytes_per_cycle: Annotated[
        _Rate, Field(description="bytes that an operator reads and writes a cycle, together", examples=[2.4])
    ]
    elements_per_cycle: Annotated[ElementRates, Field(description="elements a cycle by class of operator")]
    operator_cycles: Annotated[
        _Cycles, Field(description="to begin an operator, whatever its size", examples=[200.0])
    ] = 0.0
    launch_cycles: Annotated[_Cycles, Field(description="to start a launch of the accelerator", examples=[1100.0])]
    completion_cycles: Annotated[
        _Cycles,
        Field(description="from the end of a launch until the host goes on: an interrupt, or a poll", examples=[500.0]),
    ]
    cache: Annotated[
        CacheMaintenance | None,
        Field(description="null where the accelerator sees the host's caches: then there is nothing to maintain"),
    ] = None
    energy: Annotated[
        Energy | None,
        Field(
            description="picojoules of a cycle in which it works, with what it reads and writes; waiting costs none",
            examples=[450.0],
            exclude_if=says_nothing,
        ),
    ] = None


def _read_host(value: Any) -> Any:
    return None if value == "none" else value


AnyHost = Annotated[
    HostCosts | None, BeforeValidator(_read_host, json_schema_input_type=HostCosts | Literal["none"] | None)
]
"""A host, or None for one that costs nothing, which documents call ``none``."""
