"""What a VTA's document says beside the common schema: depths and times that differ between builds of one design."""

from typing import Annotated, ClassVar

from pydantic import Field

from accel.accelerator.base import Count, DocumentPart, Name
from accel.accelerator.document import Accelerator


class VtaParameters(DocumentPart):
    """The defaults are those of tvm-vta's Chisel design; what no build changes is in ``accel/isa/vta``."""

    TIMES: ClassVar[frozenset[str]] = frozenset({"fetch_burst_instructions", "queue_depths", "reads_in_flight"})

    fetch_burst_instructions: Annotated[
        Count, Field(le=4096, description="instructions that one fetch brings; it waits until all are dispatched")
    ] = 128
    queue_depths: Annotated[
        dict[Name, Annotated[Count, Field(le=1 << 20)]],
        Field(
            description="instructions that wait for each unit; the fetch stalls at a full queue",
            examples=[{"load": 512, "compute": 512, "store": 512}],
        ),
    ]
    reads_in_flight: Annotated[Count, Field(le=256, description="read commands on their way at once")] = 16
    immediate_pass_cycles: Annotated[
        Count, Field(le=1024, description="cycles of the ALU for each micro-op, with an immediate")
    ] = 1
    two_operand_pass_cycles: Annotated[
        Count, Field(le=1024, description="cycles of the ALU for each micro-op, with two operands")
    ] = 2
    out_memory: Annotated[
        bool,
        Field(
            strict=True,
            description="a store reads a memory of its own, which products and the ALU write beside the "
            "accumulator, and loads and resets do not",
        ),
    ] = False
    alu_stale_cycles: Annotated[
        int,
        Field(
            strict=True,
            ge=0,
            le=64,
            description="cycles after a pass of the ALU in which a pass of the same instruction may still read what "
            "was there before; 0: it has a bypass",
        ),
    ] = 0


def parameters_of(accelerator: Accelerator) -> VtaParameters:
    """The parameters of a document that the catalog has taken."""
    return VtaParameters.model_validate(accelerator.parameters)
