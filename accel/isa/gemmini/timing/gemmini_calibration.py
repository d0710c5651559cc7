"""How far Gemmini's cycle counts can be trusted: four streams whose cycles were read on an FPGA.

FireSim, the lean configuration, as published by OpenASDx;
``tests/integration/accel/isa/gemmini/test_gemmini_timing.py`` compares. The FPGA's counts include the processor that
sends the instructions, its caches and its translation of addresses.
"""

from collections.abc import Iterable

import numpy as np

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import AnyInstruction
from accel.accelerator.timing_model import TimingModel
from accel.isa.decode import Decoded
from accel.isa.gemmini.document import rocc_encoding as rocc
from accel.isa.gemmini.document.gemmini_document import parameters_of
from accel.isa.gemmini.document.gemmini_parameters import GemminiParameters

STREAMS = 4
WORST_PERCENT = 21.9  # conv_perf, too few; tiled_matmul_ws -0.2, tiled_matmul_ws_perf -9.4, conv_dw_perf +4.3
_STATEMENT = (
    "within 10% of an FPGA on two products of matrices and a depthwise convolution, 22% too few on a convolution of "
    "large images; its latencies were fitted to these four"
)
# what the four streams send; the loop instructions are what else is made of in the accelerator itself
MEASURED = frozenset(
    {rocc.CONFIG, rocc.FLUSH, *range(rocc.LOOP_WS, rocc.MVIN3), *range(rocc.LOOP_CONV, rocc.CONV_6 + 1), rocc.COUNTER}
)


def timing_model(accelerator: Accelerator, launches: Iterable[Decoded] = ()) -> TimingModel:
    """Returns what is known of the cycles of an accelerator, for a program of these launches."""
    parameters, measured = parameters_of(accelerator), GemminiParameters(requests_in_flight=64)
    outside = [
        f"{name} {value}, calibrated {getattr(measured, name)}"
        for name, value in parameters.model_dump().items()
        if value != getattr(measured, name)
    ]
    sent = _unmeasured(launches)
    elsewhere = f"not compared with any hardware: {'; '.join(outside)}. The configuration that was is {_STATEMENT}"
    if sent:
        alone = f"the program sends {', '.join(sent)} by themselves, and the streams that were measured do not"
        elsewhere = f"{elsewhere}. Also, {alone}" if outside else f"modelled: {alone}. Those are {_STATEMENT}"
        outside.append(alone)
    known = not outside
    return TimingModel(
        statement=_STATEMENT if known else elsewhere,
        calibrated=known,
        exact=0,
        of=STREAMS if known else 0,
        worst_percent=WORST_PERCENT if known else None,
        outside=outside,
    )


def _unmeasured(launches: Iterable[Decoded]) -> list[str]:
    """The instructions of a program that no measured stream sends, in the order of the document."""
    used: dict[str, None] = {}
    for decoded in launches:
        functs = [_funct(instruction) for instruction in decoded.accelerator.instructions]
        for kind in np.unique(decoded.kind).tolist():
            if functs[kind] not in MEASURED:
                used[decoded.accelerator.instructions[kind].name] = None
    return list(used)


def _funct(instruction: AnyInstruction) -> int | None:
    return next((field.value for field in instruction.fields if field.name == "funct"), None)
