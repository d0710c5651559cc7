"""Every stage of a job in one list, in the order in which they run.

``accel/driver/run_model.py`` runs them, dumps what each leaves behind, and times them. The stages from ``partition`` to
``allocate`` go from one IRModule to the next and are listed in ``accel/lowering/pipeline.py``.
"""

from collections.abc import Collection
from functools import partial

from accel.accelerator.document import Accelerator
from accel.frontend.integer_recovery.recover_integers import import_integer_model
from accel.frontend.integer_recovery.requantization import Requantize
from accel.frontend.quantize.quantize_model import ensure_quantised
from accel.frontend.quantize.scale_grid import Scales
from accel.isa.family_registry import family_of
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.codegen.program_linking import emit
from accel.lowering.partition.autotune import Measure
from accel.lowering.pipeline import Stage, lowering_stages
from accel.report.job_report import make_report
from accel.simulate.engine import simulate
from accel.verify.output_comparison import check_equal


def job_stages(
    accelerator: Accelerator, measure: Measure | None = None, host_nodes: Collection[str] = ()
) -> tuple[Stage, ...]:
    """The stages, from the ONNX file to the report.

    ``measure`` and ``host_nodes`` are for :func:`accel.lowering.partition.graph_partition.partition`.
    """
    requantize, scales = requantisation(accelerator)
    return (
        Stage(
            "quantize",
            "bring a float model into QDQ form; a QDQ model stays as it is",
            partial(ensure_quantised, scales=scales),
        ),
        Stage(
            "import",
            "turn dequantize, float operator, quantize into integer operations",
            partial(import_integer_model, requantize=requantize),
        ),
        *lowering_stages(family_of(accelerator).tiling_cost, measure, host_nodes),
        Stage("emit", "place tensors in DRAM and make the instruction words of every launch", emit),
        Stage("simulate", "run the program: what it computes, and in how many cycles", simulate),
        Stage("verify", "compare the outputs with the integer graph on the host, bit by bit", check_equal),
        Stage("report", "say what ran where, how long it took and what bounds it", make_report),
    )


def requantisation(accelerator: Accelerator) -> tuple[Requantize, Scales]:
    """How int32 becomes int8 again on it, and the scales that a float model gets for that."""
    able = Capabilities.of(accelerator)
    if able.scales:
        return "scale", "free"
    return able.multiplies or "shift", "power of two"
