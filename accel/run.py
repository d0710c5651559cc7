"""One job from end to end: a model and an accelerator in; program, outputs, trace and report out."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import tvm
from tvm import ir

from accel.accelerator.document import Accelerator
from accel.describe import describe_model, describe_program
from accel.dump import Dumps, PassTexts
from accel.errors import VerificationError
from accel.frontend.inspect import ModelInfo, inspect_model
from accel.frontend.integers import ImportedModel
from accel.frontend.load import load_model
from accel.hosted import host_ops
from accel.inputs import Array, Tensors, checked_inputs, draw_inputs, save_tensors
from accel.locate import locate_fault
from accel.options import Options
from accel.program import Program, renamed
from accel.program_file import save_program
from accel.progress import Progress
from accel.report_documents import Quality, Report, StageTime
from accel.simulate.engine import Simulation
from accel.simulation_report import race_record
from accel.stages import job_stages
from accel.trace import make_trace
from accel.verify import cosine, outputs_by_onnxruntime, reference_outputs, sqnr_db


def run_model(
    model: bytes,
    accelerator: Accelerator,
    options: Options,
    out: Path,
    *,
    inputs: Tensors | None = None,
    calibration: Tensors | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Report:
    """Compile, simulate and verify ``model``; write the artifacts into ``out``.

    Args:
        model: an ONNX file, float32 or QDQ.
        accelerator: the target.
        options: seed and what to keep.
        out: an existing directory. It receives ``report.json``, ``outputs.npz``, ``inputs.npz``,
            ``model.qdq.onnx``, ``program.zip``, ``instructions.bin``, ``trace.npz`` and ``tir/``.
        inputs: an array for each model input; else seeded random.
        calibration: samples for each model input, for quantising a float model; else seeded random.
        progress: called when a stage begins.

    Raises:
        CyclopsError: what is wrong with the model, the tensors or the program.
    """
    return _Run(accelerator, options, out, progress).run(model, inputs, calibration)


class _Run:
    """The state of one run: where artifacts go, and how long stages took."""

    def __init__(
        self,
        accelerator: Accelerator,
        options: Options,
        out: Path,
        progress: Callable[[Progress], None] | None,
    ) -> None:
        self.accelerator = accelerator
        self.options = options
        self.out = out
        self.program_file = out / "program.zip"
        self.dumps = Dumps(out / "tir")
        self.times: list[StageTime] = []
        self.stages = job_stages(accelerator)
        self.progress = progress

    @contextmanager
    def next_stage(self, name: str) -> Iterator[Callable[..., Any]]:
        """The function of the next stage, which is called ``name``; what the block does counts as the stage's time."""
        stage = self.stages[len(self.times)]
        assert stage.name == name
        if self.progress is not None:
            self.progress(Progress(name, len(self.times) + 1, len(self.stages)))
        begin = time.perf_counter()
        yield stage.run
        self.times.append(StageTime(name=name, seconds=round(time.perf_counter() - begin, 4)))

    def run(self, model: bytes, inputs: Tensors | None, calibration: Tensors | None) -> Report:
        info = inspect_model(model)
        feeds = draw_inputs(info.inputs, self.options.seed) if inputs is None else checked_inputs(info, inputs)
        original = load_model(model)
        quantised = self._quantize(original, calibration)
        with self.next_stage("import") as import_model:
            imported: ImportedModel = import_model(quantised)
            self.dumps.stage("import", imported.module.script())
        packed, module = self._lower(imported)
        program = self._emit(module, info, feeds)
        simulation, outputs = self._simulate(info, program)
        save_tensors(self.out / "inputs.npz", feeds)
        save_tensors(self.out / "outputs.npz", outputs)
        with self.next_stage("verify") as check_equal:
            fed = {name: program.image[name] for name in program.inputs}
            reference = reference_outputs(imported.module, list(fed.values()))
            save_program(
                replace(program, expected=dict(zip(program.outputs, reference, strict=True))), self.program_file
            )
            try:
                check_equal(outputs, dict(zip(outputs, reference, strict=True)))
            except VerificationError as error:
                fault = locate_fault(packed, program, simulation, fed) or "every launch agrees: the host steps differ"
                raise VerificationError(f"{error.detail}; {fault}", field=error.field) from error
            check_races(simulation)
            quality = compare(outputs, outputs_by_onnxruntime(original, feeds, list(outputs)))
        return self._report(info, imported, module, program, simulation, quality)

    def _quantize(self, original: onnx.ModelProto, calibration: Tensors | None) -> onnx.ModelProto:
        with self.next_stage("quantize") as quantize:
            quantised: onnx.ModelProto = quantize(original, calibration, seed=self.options.seed)
            (self.out / "model.qdq.onnx").write_bytes(quantised.SerializeToString())
            self.dumps.stage("quantize", describe_model(quantised))
        return quantised

    def _lower(self, imported: ImportedModel) -> tuple[ir.IRModule, ir.IRModule]:
        """The module as ``pack`` left it, which the host can still run, and as the last stage did."""
        packed = module = imported.module
        names = [stage.name for stage in self.stages]
        for name in names[len(self.times) : names.index("emit")]:
            with self.next_stage(name) as lower:
                passes = PassTexts()
                with tvm.transform.PassContext(instruments=[passes]):
                    module = lower(module, self.accelerator)
                self.dumps.stage(name, module.script(), passes)
            if name == "pack":
                packed = module
        return packed, module

    def _emit(self, module: ir.IRModule, info: ModelInfo, feeds: Tensors) -> Program:
        """The program, which carries the inputs of this run, so that it can be run again without the model.

        Its inputs and outputs are called as the model's are.
        """
        with self.next_stage("emit") as emit:
            program: Program = emit(module, self.accelerator)
            ours, theirs = (*program.inputs, *program.outputs), (*info.inputs, *info.outputs)
            program = renamed(program, {old: tensor.name for old, tensor in zip(ours, theirs, strict=True)})
            fed = {name: feeds[tensor.name] for name, tensor in zip(program.inputs, info.inputs, strict=True)}
            program = replace(program, image=program.image | fed)
            save_program(program, self.program_file)
            (self.out / "instructions.bin").write_bytes(program.words.astype("<u8").tobytes())
            self.dumps.stage("emit", describe_program(program))
        return program

    def _simulate(self, info: ModelInfo, program: Program) -> tuple[Simulation, dict[str, Array]]:
        """The program as it ran, and the outputs by the model's own names."""
        with self.next_stage("simulate") as simulate:
            simulation: Simulation = simulate(program, {})
        names = zip(info.outputs, program.outputs, strict=True)
        return simulation, {tensor.name: simulation.outputs[name] for tensor, name in names}

    def _report(
        self,
        info: ModelInfo,
        imported: ImportedModel,
        module: ir.IRModule,
        program: Program,
        simulation: Simulation,
        quality: list[Quality],
    ) -> Report:
        with self.next_stage("report") as make_report:
            if self.options.trace:
                make_trace(program, simulation).save(self.out)
            report: Report = make_report(
                program,
                simulation,
                total_macs=info.macs,
                host_ops=host_ops(imported, module, self.accelerator),
                quantisation=quality,
            )
        report = report.model_copy(update={"stages": self.times})
        (self.out / "report.json").write_text(report.model_dump_json(indent=2) + "\n", encoding="utf-8")
        return report


def check_races(simulation: Simulation) -> None:
    """The result is right for any speed of the units.

    Raises:
        VerificationError: two instructions, and the elements that they touch in no fixed order.
    """
    races = simulation.hazards.races if simulation.hazards else ()
    if races:
        first = race_record(races[0], simulation)
        raise VerificationError(
            f"the outputs are right by luck: {first.detail}", field=f"instruction:{first.second.index}"
        )


def compare(outputs: Tensors, expected: Sequence[Array]) -> list[Quality]:
    """How far each output is from what the model as uploaded gives, in the order of ``outputs``."""
    return [
        Quality(output=name, sqnr_db=sqnr_db(got, array), cosine=cosine(got, array))
        for (name, got), array in zip(outputs.items(), expected, strict=True)
    ]
