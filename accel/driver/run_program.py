"""One program from end to end, with no compiler: function, timing, hazards, trace, report."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from accel.catalog.load_accelerator import canonical
from accel.driver.run_options import SimulateOptions, StageProgress
from accel.program.program_model import Program
from accel.report.documents.report_documents import SimulationReport, SimulationSummary
from accel.report.provenance import NO_SOURCES, Sources, provenance
from accel.report.simulation_report import make_simulation_report, make_simulation_summary
from accel.simulate.engine import Simulation, simulate
from accel.trace.trace_builder import make_trace
from accel.util.whole_files import write_whole
from accel.verify.input_tensors import Tensors, draw_inputs, save_tensors

_STAGES = ("simulate", "report")


def run_program(
    program: Program,
    options: SimulateOptions,
    out: Path | None,
    *,
    inputs: Tensors | None = None,
    sources: Sources = NO_SOURCES,
    progress: Callable[[StageProgress], None] | None = None,
    report_only: bool = False,
) -> SimulationReport:
    """Simulate ``program``, compare DRAM with what it expects, and write the artifacts into ``out``.

    Args:
        program: what to run.
        options: the engine, the seed, and whether to keep the trace.
        out: an existing directory, or None. It receives ``report.json``, ``outputs.npz``, ``instructions.bin``,
            ``trace.npz`` and ``accelerator.json``.
        inputs: arrays for inputs of the program; the others are as the program has them, else seeded random. What the
            program expects is of its own data: with other arrays in their place nothing is expected.
        sources: the files that these were read from, for the report.
        progress: called when a stage begins.
        report_only: of the artifacts, write the report alone.

    Raises:
        InvalidTensors: ``inputs`` do not fit the program.
        SimulationError: the program cannot run to its end.
    """

    def begin(stage: str) -> None:
        if progress is not None:
            progress(StageProgress(stage, _STAGES.index(stage) + 1, len(_STAGES)))

    begin("simulate")
    program, simulation = _simulated(program, options, inputs)
    begin("report")
    report = make_simulation_report(
        program,
        simulation,
        options.engine,
        provenance(sources, program.accelerator, options.model_dump(mode="json")),
        every_change=options.limits == "all",
    )
    if out is not None and not report_only:
        save_tensors(out / "outputs.npz", simulation.outputs)
        write_whole(out / "instructions.bin", program.words.astype("<u8").tobytes())
        write_whole(out / "accelerator.json", canonical(program.accelerator))
        if options.trace:
            make_trace(program, simulation).save(out)
    if out is not None:
        write_whole(out / "report.json", report.model_dump_json(indent=2) + "\n")
    return report


def summarise_program(
    program: Program, options: SimulateOptions, *, inputs: Tensors | None = None
) -> SimulationSummary:
    """Simulate ``program`` and return the verdict and the cycles alone; the rest is as for :func:`run_program`.

    Raises:
        InvalidTensors, SimulationError: as :func:`run_program`.
    """
    program, simulation = _simulated(program, options, inputs)
    return make_simulation_summary(program, simulation, options.engine)


def _simulated(program: Program, options: SimulateOptions, inputs: Tensors | None) -> tuple[Program, Simulation]:
    """The program as it ran, which expects nothing of other inputs than its own."""
    given = dict(inputs or {})
    if any(name in program.image and not np.array_equal(program.image[name], given[name]) for name in given):
        program = replace(program, expected={})
    missing = [program.segments[name] for name in program.inputs if name not in program.image and name not in given]
    simulation = simulate(
        program,
        draw_inputs(missing, options.seed) | given,
        function=options.engine != "timing",
        timing=options.engine != "function",
    )
    return program, simulation
