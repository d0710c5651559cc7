"""A job's stages behind the program, from top to bottom: what each takes, makes, and leaves to the next.

``JOB``, at the end, is the whole list; the stages as far as the program are in ``accel/driver/compile_stages.py``.
"""

import logging
import traceback
from dataclasses import replace

from accel.driver.compilation import (
    Assessed,
    Compilation,
    Emitted,
    Modules,
    Referenced,
    Reported,
    Simulated,
    Verified,
)
from accel.driver.compile_stages import TO_PROGRAM, rounds_floats
from accel.driver.fault_localization import locate_fault
from accel.driver.kept_programs import KeptProgram
from accel.driver.stage_chain import Observer, StageChain
from accel.errors import InternalError, SimulationError, VerificationError
from accel.frontend.quantize.quantize_model import is_quantised
from accel.isa.family_registry import family_of
from accel.isa.hazard_findings import Hazards
from accel.joining.input_stream import stream_program
from accel.report.documents.report_documents import CompiledFunction
from accel.report.input_stream import StreamRun, stream_document, stream_run
from accel.report.job_memory import memory_plan
from accel.report.job_report import half_range_warnings, make_report, model_warnings, rounding_warnings, run_warnings
from accel.report.program_limits import begin_limits
from accel.report.simulation_report import race_record, stale_record
from accel.simulate.engine import Simulation, simulate
from accel.util.deadline import OutOfTimeError
from accel.verify.model_quality import ModelQuality
from accel.verify.output_comparison import check_equal
from accel.verify.tensor_quality import TensorQualities, where_most_is_lost
from accel.verify.vector_results import vector_results

_log = logging.getLogger(__name__)
_ON_THE_HOST = "every launch agrees: the host steps differ"
_ON_THE_CHIP = "they are others where every result is stored in DRAM: one that stays on the chip is wrong"


def simulate_program(done: Emitted) -> Simulated:
    """Returns the program as it ran.

    Raises:
        InternalError: it cannot run to its end.
        SimulationError: it asks too much of the simulator, or an expression of the document fails.
        InvalidTensors: an index on the host is out of range.
    """
    program = done.program
    try:
        simulation = _simulation(done)
    except SimulationError as error:
        if error.kind in {"work-limit", "cost"}:  # the model asks for it, or the document's expression fails
            raise
        raise InternalError(
            f"the compiled program cannot run to its end: {error.detail}",
            field=error.field,
            kind=error.kind,
            instruction=error.instruction,
        ) from error
    names = zip(done.job.info.outputs, program.outputs, strict=True)
    outputs = {tensor.name: simulation.outputs[name] for tensor, name in names}
    limits = begin_limits(program, simulation, every=done.job.options.limits == "all")
    return Simulated(done.job, done, simulation, outputs, limits, _streamed(done, simulation))


def _simulation(done: Emitted) -> Simulation:
    """The program as it ran; of an earlier job's what that job computed and verified, with the cycles of this one.

    No time changes what instructions compute, and no race could.
    """
    program, origin = done.program, done.origin
    if not isinstance(origin, KeptProgram) or not origin.verified:
        return simulate(program, {})
    timed, expected = simulate(program, {}, function=False), origin.program.expected
    outputs = {name: expected[name].copy() for name in program.outputs}
    return replace(timed, outputs=outputs, hazards=Hazards((), ()), host_works=origin.facts.host_works)


def _streamed(done: Emitted, alone: Simulation) -> StreamRun | None:
    """How a stream of inputs ran, if the options want one.

    Raises:
        CompiledTooLarge: it has more instructions than a stream may have.
        VerificationError: its outputs are not those of the program ``alone``, or are so by luck.
    """
    inputs, program = done.job.options.repeat, done.again
    if program is None:
        return None
    join = done.job.options.launches == "joined"
    streamed = stream_program(program, inputs, family_of(program.accelerator), join=join)
    simulation = simulate(streamed, {})
    try:
        check_equal(simulation.outputs, alone.outputs)
    except VerificationError as error:
        raise VerificationError(
            f"after {inputs} inputs in a row, not after one: {error.detail}", field=error.field
        ) from error
    check_hazards(simulation, "as a stream of inputs ran")
    return stream_run(simulation, inputs)


def run_reference(done: Simulated) -> Referenced:
    """Returns what the integer graph has on the host, if the options give it the time: it runs since it was imported.

    Where vector programs round floats it begins when they have run.

    Of an earlier job's program it is what that job found for the same model, inputs and words, and compared.
    """
    seconds, program, origin = done.job.options.verify_seconds, done.emitted.program, done.emitted.origin
    if isinstance(origin, KeptProgram):
        expected = origin.program
        outputs = [expected.expected[name] for name in expected.outputs]
        return Referenced(done.job, done, outputs, {}, expected, floats=origin.facts.floats)
    task = done.job.reference
    assert task is not None
    try:
        if rounds_floats(done.job.target):
            layered = program if origin.in_dram is None else origin.in_dram
            measured = vector_results(origin.packed.module, layered, done.simulation.dram)
            inputs = [program.image[name] for name in program.inputs]
            task.start(origin.packed.imported, inputs, measured, done.job.quality_inputs)
        found = task.found()
    except OutOfTimeError:
        why = (
            f"the integer graph takes the host longer than verify_seconds, {seconds:g}; the outputs were not "
            "compared with its: give it more"
        )
        return Referenced(done.job, done, None, {}, program, why)
    if found is None:
        why = "the outputs were not compared with the integer graph, as verify_seconds is 0"
        return Referenced(done.job, done, None, {}, program, why)
    expected = replace(program, expected=dict(zip(program.outputs, found.outputs, strict=True)))
    return Referenced(done.job, done, found.outputs, found.tensors, expected, floats=tuple(found.floats))


def compare_outputs(done: Referenced) -> Verified:
    """Returns the run, which is right for any speed of the units.

    Raises:
        VerificationError: the outputs differ from the reference, and where that began; or they are right by luck.
    """
    simulated, emitted, origin = done.simulated, done.simulated.emitted, done.simulated.emitted.origin
    if done.reference is not None:
        try:
            check_equal(simulated.outputs, dict(zip(simulated.outputs, done.reference, strict=True)))
        except VerificationError as error:
            _log.error("the outputs of the compiled program differ from the reference; looking for the launch")
            fault = _located(error, simulated)
            raise VerificationError(f"{error.detail}; {fault}", field=error.field) from error
    check_hazards(simulated.simulation, done.unverified)
    return Verified(
        done.job,
        emitted.host_ops,
        emitted.operations,
        emitted.biases,
        emitted.functions,
        emitted.program,
        emitted.buffers,
        simulated.simulation,
        simulated.outputs,
        simulated.limits,
        simulated.stream,
        done.unverified,
        origin.regions if isinstance(origin, Modules) else None,
        origin.facts if isinstance(origin, KeptProgram) else None,
        isinstance(origin, KeptProgram) and origin.verified,
        origin.packed.imported.activations if isinstance(origin, Modules) else (),
        done.tensors,
        done.floats,
        emitted.attention,
    )


def measure_quality(done: Verified) -> Assessed:
    """Returns how near the outputs are to those of the model as uploaded, and quantised tensors to the float network's.

    Of outputs that equal the reference it is the reference's, which is measured beside the job.

    Raises:
        InvalidModel: the model has no tensor of a name in ``options.intermediates``, or they are too large.
    """
    job = done.job
    if done.known is not None:
        known = done.known
        tensors = TensorQualities(known.tensors, {}, known.tensors_missing)
        return Assessed(job, done, ModelQuality(known.quality, tensors))
    quality = None if done.unverified or job.reference is None else job.reference.quality()
    if quality is None:
        quality = job.quality_inputs.measure(list(done.outputs.values()), done.activations, done.tensors)
    return Assessed(job, done, quality)


def report_job(done: Assessed) -> Reported:
    """Returns the report, without the stages' times."""
    job, run, quality = done.job, done.verified, done.quality
    ours = not is_quantised(job.original)
    centred = [figure.tensor for figure in quality.tensors.figures if ours and figure.zero_point == 0]
    report = make_report(
        run.program,
        run.simulation,
        total_macs=job.info.macs,
        host_ops=run.host_ops,
        operations=run.operations,
        quantisation=quality.outputs.figures,
        provenance=job.provenance,
        unverified=run.unverified,
        warnings=[
            *run_warnings("no-quality", quality.outputs.missing),
            *run_warnings("no-quality", quality.tensors.missing),
            *model_warnings(job.info),
            *rounding_warnings(run.biases, job.accelerator.title),
            *half_range_warnings(centred, job.original, job.accelerator.title),
        ],
    )
    if run.stream is not None:
        stream = stream_document(run.stream, job.options.repeat, report.end_to_end, job.accelerator.clock_mhz)
        report = report.model_copy(update={"stream": stream})
    figures = quality.tensors.figures
    found = {
        "floats": list(run.floats),
        "attention": run.attention,
        "tensors": figures,
        "most_lost": where_most_is_lost(figures),
    }
    planned, own = (each.dram.read_latency for each in (job.target.accelerator, job.accelerator))
    known = {
        "functions": run.functions,
        "verification_kept": run.verification_kept,
        "planned_read_latency": None if planned == own else planned,
    }
    report = report.model_copy(update={**known, "limits": run.limits(), **found})
    if run.regions is not None:
        run.regions.keep()  # not before: their texts are printed beside all this
    return Reported(job, run.program, run.simulation, report, memory_plan(run.program, run.simulation, run.buffers))


def _located(error: VerificationError, simulated: Simulated) -> str:
    """Where a difference began, in words; what fails on the way is noted on ``error``, which counts for more."""
    program, origin, simulation = simulated.emitted.program, simulated.emitted.origin, simulated.simulation
    if isinstance(origin, KeptProgram):
        return "the program is an earlier job's"
    fed = {name: program.image[name] for name in program.inputs}
    try:
        if origin.in_dram is not None:  # results that stay on the chip are not there to be compared
            program, stayed = origin.in_dram, simulation
            simulation = simulate(program, {}, timing=False)
            if any((simulation.outputs[name] != stayed.outputs[name]).any() for name in program.outputs):
                return _ON_THE_CHIP
        fault = locate_fault(origin.packed.module, program, simulation, fed)
    except Exception as other:  # noqa: BLE001 - whatever it is, the difference is what is told
        error.add_note("".join(traceback.format_exception(other)))
        return f"where it began could not be located: {type(other).__name__}: {other}"
    return str(fault or _ON_THE_HOST)


def check_hazards(simulation: Simulation, unverified: str = "") -> None:
    """Check that the result is right for any speed of the units, and without a bypass where the document has none.

    Args:
        simulation: the program as it ran.
        unverified: why its outputs were not compared; empty where they equal the reference.

    Raises:
        VerificationError: two instructions, and the elements that they touch in no fixed order; or one that may read
            what was there before.
    """
    hazards = simulation.hazards or Hazards((), ())
    found = "the outputs were not compared, and" if unverified else "the outputs are right by luck: they"
    for race in hazards.races[:1]:
        detail = race_record(race, simulation).detail
        raise VerificationError(
            f"{found} depend on how fast the units are: {detail}", field=f"instruction:{race.second}"
        )
    for read in hazards.stale[:1]:
        detail = stale_record(read, simulation).detail
        raise VerificationError(
            f"{found} depend on what was there before: {detail}", field=f"instruction:{read.instruction}"
        )


def _to_report(chain: StageChain[Compilation, Emitted]) -> StageChain[Compilation, Reported]:
    return (
        chain.then("simulate", "run the program: what it computes, and in how many cycles", simulate_program)
        .then("verify", "compare the outputs with the integer graph on the host, bit by bit", run_reference)
        .within(compare_outputs)
        .within(measure_quality)
        .then("report", "say what ran where, how long it took and what bounds it", report_job)
    )


JOB: StageChain[Compilation, Reported] = _to_report(TO_PROGRAM)


def with_program(kept: KeptProgram) -> StageChain[Compilation, Reported]:
    """Returns the job whose stages as far as the program have nothing to do, as an earlier job compiled it."""

    def recall(start_of_job: Compilation, observer: Observer) -> Emitted:
        for number, stage in enumerate(TO_PROGRAM.stages):
            observer.begin(stage, number)
        observer.made(kept.artifacts)
        facts = kept.facts
        functions = [CompiledFunction(name=name, cached=True) for name in facts.functions]
        program, left, done = replace(kept.program, expected={}), list(facts.host_ops), facts.operations
        known = facts.biases, functions, facts.buffers, kept
        return Emitted(start_of_job.job, program, left, done, *known, attention=facts.attention)

    return _to_report(StageChain(TO_PROGRAM.stages, recall))
