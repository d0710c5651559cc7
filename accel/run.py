"""One job from end to end: a model and an accelerator in; program, outputs, trace and report out."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import onnx
import tvm
from tvm import ir

from accel.accelerator.document import Accelerator
from accel.describe import describe_model, describe_program
from accel.dump import Dumps, PassTexts
from accel.errors import VerificationError
from accel.frontend.inspect import ModelInfo, inspect_model
from accel.frontend.integers import ImportedModel, import_integer_model
from accel.frontend.load import load_model
from accel.frontend.quantize import is_quantised, quantize_model
from accel.hosted import host_ops
from accel.inputs import Tensors, checked_inputs, draw_inputs, save_tensors
from accel.isa.vta.cost import tiling_cost
from accel.locate import locate_fault
from accel.lowering.attributes import HOST_NODES
from accel.lowering.emit import emit
from accel.lowering.stages import lowering_stages
from accel.options import Options
from accel.program import Program
from accel.program_file import save_program
from accel.report import Quality, Report, StageTime, make_report
from accel.simulate.engine import Simulation, simulate
from accel.trace import make_trace
from accel.verify import check_equal, cosine, outputs_by_onnxruntime, reference_outputs, sqnr_db


@dataclass(frozen=True)
class Progress:
    """Stage ``step`` of ``total``, counted from 1, has begun."""

    stage: str
    step: int
    total: int


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
        self.dumps = Dumps(out / "tir")
        self.times: list[StageTime] = []
        self.lowering = lowering_stages(tiling_cost)
        self.total = len(self.lowering) + 6  # quantize, import, emit, simulate, verify, report
        self.progress = progress

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        if self.progress is not None:
            self.progress(Progress(name, len(self.times) + 1, self.total))
        begin = time.perf_counter()
        yield
        self.times.append(StageTime(name=name, seconds=round(time.perf_counter() - begin, 4)))

    def run(self, model: bytes, inputs: Tensors | None, calibration: Tensors | None) -> Report:
        info = inspect_model(model)
        feeds = draw_inputs(info, self.options.seed) if inputs is None else checked_inputs(info, inputs)
        original = load_model(model)
        quantised = self._quantize(original, calibration)
        with self.stage("import"):
            imported = import_integer_model(quantised)
            self.dumps.stage("import", imported.module.script())
        packed, module = self._lower(imported)
        program = self._emit(module)
        with self.stage("simulate"):
            ordered = [feeds[tensor.name] for tensor in info.inputs]
            fed = dict(zip(program.inputs, ordered, strict=True))
            simulation = simulate(program, fed)
            outputs = {
                tensor.name: simulation.outputs[name]
                for tensor, name in zip(info.outputs, program.outputs, strict=True)
            }
            save_tensors(self.out / "inputs.npz", feeds)
            save_tensors(self.out / "outputs.npz", outputs)
        with self.stage("verify"):
            reference = reference_outputs(imported.module, ordered)
            names = [tensor.name for tensor in info.outputs]
            try:
                check_equal(outputs, dict(zip(names, reference, strict=True)))
            except VerificationError as error:
                fault = locate_fault(packed, program, simulation, fed) or "every launch agrees: the host steps differ"
                raise VerificationError(f"{error.detail}; {fault}", field=error.field) from error
            expected = outputs_by_onnxruntime(original, feeds, names)
            quality = [
                Quality(output=name, sqnr_db=sqnr_db(outputs[name], array), cosine=cosine(outputs[name], array))
                for name, array in zip(names, expected, strict=True)
            ]
        return self._report(info, imported, module, program, simulation, quality)

    def _quantize(self, original: onnx.ModelProto, calibration: Tensors | None) -> onnx.ModelProto:
        with self.stage("quantize"):
            if is_quantised(original):
                quantised = original
            else:
                quantised = quantize_model(original, calibration, seed=self.options.seed)
            (self.out / "model.qdq.onnx").write_bytes(quantised.SerializeToString())
            self.dumps.stage("quantize", describe_model(quantised))
        return quantised

    def _lower(self, imported: ImportedModel) -> tuple[ir.IRModule, ir.IRModule]:
        """The module as ``pack`` left it, which the host can still run, and as the last stage did."""
        packed = module = annotated(imported)
        for stage in self.lowering:
            with self.stage(stage.name):
                passes = PassTexts()
                with tvm.transform.PassContext(instruments=[passes]):
                    module = stage.run(module, self.accelerator)
                self.dumps.stage(stage.name, module.script(), passes)
            if stage.name == "pack":
                packed = module
        return packed, module

    def _emit(self, module: ir.IRModule) -> Program:
        with self.stage("emit"):
            program = emit(module, self.accelerator)
            save_program(program, self.out / "program.zip")
            (self.out / "instructions.bin").write_bytes(program.words.astype("<u8").tobytes())
            self.dumps.stage("emit", describe_program(program))
        return program

    def _report(
        self,
        info: ModelInfo,
        imported: ImportedModel,
        module: ir.IRModule,
        program: Program,
        simulation: Simulation,
        quality: list[Quality],
    ) -> Report:
        with self.stage("report"):
            if self.options.trace:
                make_trace(program, simulation).save(self.out)
            report = make_report(
                program,
                simulation,
                total_macs=info.macs,
                host_ops=host_ops(imported, module, self.accelerator),
                quantisation=quality,
            )
        report = report.model_copy(update={"stages": self.times})
        (self.out / "report.json").write_text(report.model_dump_json(indent=2) + "\n", encoding="utf-8")
        return report


def annotated(imported: ImportedModel) -> ir.IRModule:
    """The module with each composite's multiply-accumulates, and the nodes of ``main``'s variables, as attributes."""
    module = ir.IRModule(dict(imported.module.functions.items()), attrs=imported.module.attrs)
    for variable, function in imported.module.functions.items():
        macs = imported.macs.get(str(variable.name_hint))
        if macs:
            module.update_func(variable, function.with_attr("macs", macs))
    nodes = {variable: node.name for variable, node in imported.host_nodes.items()}
    main = module.get_global_var("main")
    module.update_func(main, module[main].with_attr(HOST_NODES, json.dumps(nodes)))
    return module
