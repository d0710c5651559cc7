"""Running models on the host: by onnxruntime, and by TVM."""

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import tvm
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NoKernelError
from tvm import relax
from tvm.ir import IRModule

from accel.frontend.integer_recovery.recover_integers import ImportedModel
from accel.host.bounded_execution import MOST_SECONDS, guard
from accel.host.host_executor import PASSES, run_compiled
from accel.verify.output_comparison import reference_outputs

Array = npt.NDArray[Any]
_SATURATING = {"ConvInteger", "MatMulInteger", "QGemm", "QLinearConv", "QLinearMatMul"}


def run_relax(module: IRModule, *inputs: Array) -> list[Array]:
    """The outputs of ``main``.

    Composites are evaluated operator by operator, which ``tests/accel/reference`` holds against TVM's compiler:
    compiling them takes three hundred times as long. A module without any is compiled as a host step is, but for
    LLVM's optimisations, which take half of the time.
    """
    if sum(isinstance(function, relax.Function) for function in module.functions.values()) > 1:
        return reference_outputs(module, inputs)
    target = tvm.target.Target({"kind": "llvm", "opt-level": 0})
    with target:
        safe = guard(relax.transform.LegalizeOps()(module), MOST_SECONDS)
    passes = tvm.transform.Sequential([make() for make in PASSES])
    return run_compiled(tvm.compile(safe, target=target, relax_pipeline=passes), inputs)


def run_layers(imported: ImportedModel, *inputs: Array) -> dict[str, Array]:
    """The result of every composite, by the name of its variable in ``main``."""
    main = imported.module["main"]
    (block,) = main.body.blocks
    calls = [b.var for b in block.bindings if isinstance(getattr(b.value, "op", None), tvm.ir.GlobalVar)]
    everything = relax.Var("everything", relax.TupleType([var.ty for var in calls]))
    bindings = [*block.bindings, relax.VarBinding(everything, relax.Tuple(calls))]
    body = relax.BlockBuilder().normalize(relax.SeqExpr([relax.DataflowBlock(bindings)], everything))
    module = imported.module.clone()
    module["main"] = relax.Function(main.params, body, everything.ty)
    return dict(zip([var.name for var in calls], run_relax(module, *inputs), strict=True))


def run_onnx(model: onnx.ModelProto, inputs: dict[str, Array]) -> list[Array]:
    """The outputs by onnxruntime, without its optimisations.

    On x86 processors without VNNI its products of uint8 and int8 saturate in pairs, unless an optimisation makes the
    weights uint8: models that have such products are optimised as far as that. It breaks convolutions of int8 by int8,
    which do not saturate.
    """
    levels = onnxruntime.GraphOptimizationLevel
    if _SATURATING.intersection(node.op_type for node in model.graph.node):
        try:
            return _run(model, inputs, levels.ORT_ENABLE_EXTENDED)
        except NoKernelError:
            pass
    return _run(model, inputs, levels.ORT_DISABLE_ALL)


def _run(
    model: onnx.ModelProto, inputs: dict[str, Array], optimization: onnxruntime.GraphOptimizationLevel
) -> list[Array]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry("session.x64quantprecision", "1")
    options.graph_optimization_level = optimization
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    results: list[Array] = session.run(None, inputs)
    return results


def draw_inputs(model: onnx.ModelProto, seed: int = 0) -> dict[str, Array]:
    """Seeded random inputs: the full range of integers, normal floats."""
    random = np.random.default_rng(seed)
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs: dict[str, Array] = {}
    for info in model.graph.input:
        if info.name in constants:
            continue
        shape = [size.dim_value for size in info.type.tensor_type.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
        if dtype.kind == "f":
            inputs[info.name] = random.standard_normal(shape).astype(dtype)
        else:
            limits = np.iinfo(dtype)
            inputs[info.name] = random.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    return inputs
