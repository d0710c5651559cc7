"""One job from end to end: a model and an accelerator in; program, outputs, trace and report out."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pydantic
import tvm
from pydantic import Field
from tvm import ir

from accel.accelerator.document import Accelerator
from accel.dump import Dumps, PassTexts
from accel.errors import InvalidTensors
from accel.frontend.inspect import ModelInfo, TensorInfo, inspect_model
from accel.frontend.integers import ImportedModel, import_integer_model
from accel.frontend.load import load_model
from accel.frontend.quantize import is_quantised, quantize_model
from accel.isa.vta.cost import tiling_cost
from accel.lowering.attributes import HOST_REASON
from accel.lowering.emit import emit
from accel.lowering.stages import lowering_stages
from accel.program import Program
from accel.program_file import save_program
from accel.report import HostOp, Quality, Report, StageTime, make_report
from accel.simulate.engine import Simulation, simulate
from accel.trace import make_trace
from accel.verify import check_equal, cosine, reference_outputs, sqnr_db

Array = npt.NDArray[Any]
Tensors = Mapping[str, Array]


class Options(pydantic.BaseModel):
    """Options of a run."""

    seed: int = Field(0, ge=0, le=2**32 - 1, description="seed of inputs and calibration data that were not given")
    trace: bool = Field(True, description="whether to keep the trace of every instruction")


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
        module = self._lower(imported)
        program = self._emit(module)
        with self.stage("simulate"):
            ordered = [feeds[tensor.name] for tensor in info.inputs]
            simulation = simulate(program, dict(zip(program.inputs, ordered, strict=True)))
            outputs = {
                tensor.name: simulation.outputs[name]
                for tensor, name in zip(info.outputs, program.outputs, strict=True)
            }
            np.savez(self.out / "inputs.npz", allow_pickle=False, **feeds)
            np.savez(self.out / "outputs.npz", allow_pickle=False, **outputs)
        with self.stage("verify"):
            reference = reference_outputs(imported.module, ordered)
            names = [tensor.name for tensor in info.outputs]
            check_equal(outputs, dict(zip(names, reference, strict=True)))
            quality = compare_with_original(original, feeds, outputs)
        return self._report(info, imported, module, program, simulation, quality)

    def _quantize(self, original: onnx.ModelProto, calibration: Tensors | None) -> onnx.ModelProto:
        with self.stage("quantize"):
            if is_quantised(original):
                quantised = original
            else:
                quantised = quantize_model(original, calibration, seed=self.options.seed)
            (self.out / "model.qdq.onnx").write_bytes(quantised.SerializeToString())
        return quantised

    def _lower(self, imported: ImportedModel) -> ir.IRModule:
        module = with_macs(imported)
        for stage in self.lowering:
            with self.stage(stage.name):
                passes = PassTexts()
                with tvm.transform.PassContext(instruments=[passes]):
                    module = stage.run(module, self.accelerator)
                self.dumps.stage(stage.name, module.script(), passes)
        return module

    def _emit(self, module: ir.IRModule) -> Program:
        with self.stage("emit"):
            program = emit(module, self.accelerator)
            save_program(program, self.out / "program.zip")
            (self.out / "instructions.bin").write_bytes(program.words.astype("<u8").tobytes())
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


def draw_inputs(info: ModelInfo, seed: int) -> dict[str, Array]:
    """Seeded random inputs: normal for floats, uniform over int8's or uint8's range for integers."""
    random = np.random.default_rng(seed)
    return {tensor.name: _draw(random, tensor) for tensor in info.inputs}


def _draw(random: np.random.Generator, tensor: TensorInfo) -> Array:
    dtype = np.dtype(tensor.dtype)
    if dtype.kind == "f":
        return np.asarray(random.standard_normal(tensor.shape)).astype(dtype)
    if dtype.kind == "b":
        return random.integers(0, 2, tensor.shape).astype(dtype)
    low, high = (0, 256) if dtype.kind == "u" else (-128, 128)
    return random.integers(low, high, tensor.shape).astype(dtype)


def checked_inputs(info: ModelInfo, inputs: Tensors) -> dict[str, Array]:
    """The inputs, if they are exactly the model's.

    Raises:
        InvalidTensors: one is missing, unknown, or of another shape or type.
    """
    wanted = {tensor.name: tensor for tensor in info.inputs}
    if wanted.keys() != inputs.keys():
        raise InvalidTensors(
            f"the model's inputs are {', '.join(wanted)}; got {', '.join(inputs) or 'none'}", field="inputs"
        )
    for name, tensor in wanted.items():
        array = inputs[name]
        if array.shape != tensor.shape or array.dtype != np.dtype(tensor.dtype):
            raise InvalidTensors(
                f"{name} is {tensor.dtype}{list(tensor.shape)}; got {array.dtype}{list(array.shape)}",
                field=f"inputs.{name}",
            )
    return dict(inputs)


def with_macs(imported: ImportedModel) -> ir.IRModule:
    """The module with each composite's multiply-accumulates as its attribute ``macs``."""
    module = ir.IRModule(dict(imported.module.functions.items()), attrs=imported.module.attrs)
    for variable, function in imported.module.functions.items():
        macs = imported.macs.get(str(variable.name_hint))
        if macs:
            module.update_func(variable, function.with_attr("macs", macs))
    return module


def host_ops(imported: ImportedModel, module: ir.IRModule, accelerator: Accelerator) -> list[HostOp]:
    """The model's nodes that run on the host, each with the reason."""
    found = [
        HostOp(node=node.name, op=node.op, reason=_reason(node.op, accelerator))
        for node in imported.host_nodes.values()
    ]
    for variable, function in module.functions.items():
        reason = function.attrs.get(HOST_REASON) if function.attrs is not None else None
        if reason is None:
            continue
        names = [str(node) for node in function.attrs["nodes"]] or [str(variable.name_hint)]
        known = {op.node: op for op in found}
        for node in names:
            if node in known:
                found.remove(known[node])
            found.append(HostOp(node=node, op=str(function.attrs["op"]), reason=str(reason)))
    return list({(op.node, op.op): op for op in found}.values())


def _reason(op: str, accelerator: Accelerator) -> str:
    if op == "QuantizeLinear":
        return "float32 becomes int8 on the host, where a float operator or a model input feeds the accelerator"
    if op == "DequantizeLinear":
        return "int8 becomes float32 on the host, where a float operator or a model output follows the accelerator"
    return f"{accelerator.title} has no instruction for it: it contracts and adds int8 tensors"


def compare_with_original(original: onnx.ModelProto, feeds: Tensors, outputs: Tensors) -> list[Quality]:
    """Each output against onnxruntime's for the model as uploaded."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        original.SerializeToString(), sess_options=options, providers=["CPUExecutionProvider"]
    )
    expected = session.run(list(outputs), dict(feeds))
    return [
        Quality(output=name, sqnr_db=sqnr_db(outputs[name], array), cosine=cosine(outputs[name], array))
        for name, array in zip(outputs, expected, strict=True)
    ]
