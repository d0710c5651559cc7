"""The report of a job: what ran where, how long it took, and how far to trust it."""

from collections.abc import Sequence

from accel.layer_report import layer_of, total_energy
from accel.program import Program
from accel.report_documents import HostOp, Macs, ProgramWarning, Provenance, Quality, Report, WarningKind
from accel.simulate.engine import Simulation
from accel.simulation_report import program_size, timing_model_of, unit_times, warnings_of


def make_report(
    program: Program,
    simulation: Simulation,
    *,
    total_macs: int,
    host_ops: Sequence[HostOp],
    quantisation: Sequence[Quality],
    provenance: Provenance,
    unverified: str = "",
    unmeasured: str = "",
) -> Report:
    """Everything but the stages' times, which the caller appends when it is done.

    ``verified`` is true or null here: outputs that differ, and races, have raised before. ``unverified`` says why they
    were not compared, if so, and ``unmeasured`` why figures of ``quantisation`` are missing.
    """
    layers = [layer_of(result, program.accelerator) for result in simulation.launches]
    macs = sum(layer.macs for layer in layers)
    return Report(
        accelerator=program.accelerator.name,
        provenance=provenance,
        verified=True if layers and not unverified else None,
        cycles=simulation.cycles,
        energy_pj=total_energy(layers),
        macs=Macs(total=total_macs, accelerator=macs, share=macs / total_macs if total_macs else 0.0),
        units=unit_times(simulation, program.accelerator),
        warnings=[
            *_of_run("not-verified", unverified),
            *_of_run("no-quality", unmeasured),
            *warnings_of(program, simulation),
        ],
        layers=layers,
        host_ops=list(host_ops),
        quantisation=list(quantisation),
        program=program_size(program),
        timing_model=timing_model_of(program, simulation),
        stages=[],
    )


def _of_run(kind: WarningKind, why: str) -> list[ProgramWarning]:
    return [ProgramWarning(kind=kind, launch=None, instruction=None, detail=why)] if why else []
