"""The report of a job: what ran where, how long it took, and how far to trust it."""

from collections.abc import Collection, Mapping, Sequence

import onnx

from accel.frontend.integer_recovery.rounding_bias import ACCEPTED_BIAS, LeftBias
from accel.frontend.onnx_model.external_data import array_of
from accel.frontend.onnx_model.onnx_nodes import attribute_of, constants_of
from accel.frontend.quantize.scale_constraints import padded_tensors
from accel.frontend.read.model_info import ModelInfo
from accel.host.operator_work import operations as operations_of
from accel.program.program_model import Program
from accel.report.documents.report_documents import (
    Arithmetic,
    HostOp,
    Macs,
    ProgramWarning,
    Provenance,
    Quality,
    Report,
    WarningKind,
)
from accel.report.end_to_end import HostWorks, program_end_to_end, with_overheads
from accel.report.layer_report import (
    layers_of,
    machine_of,
    network_bound,
    program_traffic,
    total_account,
    total_energy,
)
from accel.report.run_traffic import energy_of_run
from accel.report.simulation_report import (
    alone_cycles,
    program_size,
    seconds_of,
    timing_model_of,
    unit_times,
    warnings_of,
)
from accel.simulate.engine import Simulation

_NAMED = 5  # nodes or tensors that a warning names


def make_report(  # noqa: PLR0913  a report has many parts
    program: Program,
    simulation: Simulation,
    *,
    total_macs: int,
    operations: int,
    host_ops: Sequence[HostOp],
    quantisation: Sequence[Quality],
    provenance: Provenance,
    unverified: str = "",
    warnings: Sequence[ProgramWarning] = (),
) -> Report:
    """Returns the report without its limits and the stages' times, which the caller appends at the end.

    ``verified`` is true or null here: outputs that differ, and races, have raised before. ``unverified`` is the reason
    why outputs were not compared, if any; ``operations`` are those of all launches; ``warnings`` are further warnings
    of the whole run.
    """
    layers = layers_of(simulation, program.accelerator)
    macs = sum(layer.macs for layer in layers)
    end_to_end = program_end_to_end(program, layers, simulation.host_works)
    instructions, dram = total_energy(layers), program_traffic(program, simulation, layers)
    return Report(
        accelerator=program.accelerator.name,
        provenance=provenance,
        verified=True if layers and not unverified else None,
        cycles=simulation.cycles,
        accelerator_cycles=alone_cycles(program, simulation),
        seconds=seconds_of(simulation, program.accelerator),
        end_to_end=end_to_end,
        energy_pj=instructions,
        energy=energy_of_run(program.accelerator, instructions, dram, end_to_end),
        dram=dram,
        macs=Macs(total=total_macs, accelerator=macs, share=macs / total_macs if total_macs else 0.0),
        arithmetic=_arithmetic(operations, simulation.host_works),
        units=unit_times(simulation, program.accelerator),
        bound=network_bound(layers),
        account=total_account(simulation),
        machine=machine_of(layers, simulation, program.accelerator),
        warnings=[
            *run_warnings("not-verified", unverified),
            *warnings,
            *warnings_of(program, simulation),
        ],
        layers=with_overheads(layers, end_to_end),
        host_ops=list(host_ops),
        quantisation=list(quantisation),
        program=program_size(program),
        timing_model=timing_model_of(program, simulation),
        stages=[],
    )


def _arithmetic(operations: int, works: HostWorks | None) -> Arithmetic | None:
    """The operations of launches and of host steps; None where what these do is not known, or nobody does any."""
    if works is None:
        return None
    host = sum(operations_of(step) for step in works)
    total = operations + host
    return Arithmetic(total=total, accelerator=operations, host=host, share=operations / total) if total else None


def run_warnings(kind: WarningKind, *details: str) -> list[ProgramWarning]:
    """Returns a warning of the whole run for each detail that is not empty."""
    return [ProgramWarning(kind=kind, launch=None, instruction=None, detail=detail) for detail in details if detail]


def model_warnings(info: ModelInfo) -> list[ProgramWarning]:
    """Returns what is to be known of how a model was read.

    That is a warning for each axis that is 1 because no option sets it, and one if its floats became float32.
    """
    detail = "is dynamic, and 1 as nothing sets it: give options.dims or options.shapes (--dim, --shape)"
    found = run_warnings("unset-axis", *(f"{axis} {detail}" for axis in info.unset))
    if info.converted:
        found += run_warnings(
            "converted-floats",
            f"the model's {' and '.join(info.converted)} are computed as float32: constants, inputs and outputs are "
            "converted, and casts between types of floats do nothing; quality is measured against the file as it is",
        )
    return found


def rounding_warnings(biases: Mapping[str, LeftBias], title: str) -> list[ProgramWarning]:
    """Returns a warning for each reason for which nodes round with a mean error that is not near zero.

    Args:
        biases: the mean errors, by node.
        title: of the accelerator that is to round so.
    """
    reasons = {
        True: "their channels are too few for a constant of each to balance that",
        False: f"{title} adds no tensor to these sums, so that halves are all rounded up",
    }
    return run_warnings(
        "biased-rounding", *(_biased(biases, balanced=of, reason=reason) for of, reason in reasons.items())
    )


def half_range_warnings(tensors: Collection[str], model: onnx.ModelProto, title: str) -> list[ProgramWarning]:
    """Returns a warning of the activations of which half of the integers are never used, if there are any.

    Args:
        tensors: those that were quantised without a zero point.
        model: the float model as uploaded.
        title: of the accelerator, whose loads pad with the integer 0.
    """
    constants = constants_of(model.graph)
    padded = padded_tensors(model)
    found = [
        str(node.output[0])
        for node in model.graph.node
        if node.output and node.output[0] in padded.intersection(tensors) and _is_positive(node, constants)
    ]
    if not found:
        return []
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return run_warnings(
        "half-range",
        f"of {'1 tensor' if len(found) == 1 else f'{len(found)} tensors'} behind a relu, int8 has 128 levels and not "
        f"256, up to 6 dB less: {', '.join(found[:_NAMED])}{more}; convolutions or poolings pad them, and loads of "
        f"{title} pad with the integer 0 alone, which so has to stand for 0; with options.zero_points all "
        "(--zero-points all) they have all levels, and lie in DRAM within a border of their zero point, or the host "
        "pads them",
    )


def _is_positive(node: onnx.NodeProto, constants: Mapping[str, onnx.TensorProto]) -> bool:
    """Whether a node's result is never below 0, as that of a relu."""
    if node.op_type != "Clip":
        return bool(node.op_type == "Relu")
    low = constants.get(node.input[1]) if len(node.input) > 1 else None
    least = attribute_of(node, "min", None) if low is None else float(array_of(low).reshape(()))
    return least is not None and least >= 0


def _biased(biases: Mapping[str, LeftBias], *, balanced: bool, reason: str) -> str:
    """Which nodes round with a mean error, and how large it is; empty for none."""
    found = sorted(((bias.error, node) for node, bias in biases.items() if bias.balanced == balanced), reverse=True)
    if not found:
        return ""
    named = [f"{node} by {error:.2g}" for error, node in found[:_NAMED]]
    more = [f"{len(found) - _NAMED} more by less"] if len(found) > _NAMED else []
    count = "1 tensor is" if len(found) == 1 else f"{len(found)} tensors are"
    limit = f"a mean error of over {ACCEPTED_BIAS:g} units of the last place"
    return f"{count} rounded with {limit}: {', '.join([*named, *more])}; {reason}"
