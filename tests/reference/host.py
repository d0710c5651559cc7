"""Running models on the host: by onnxruntime, and by TVM."""

from collections.abc import Sequence
from dataclasses import replace
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
from accel.host.host_executor import HostFunctions
from accel.host.host_graph import write_host_graph
from accel.host.relax_rules import RULES
from accel.host.relax_translation import translate
from accel.lowering.ir.host_runs import HostRun, host_module, main_results, needed_bindings
from accel.verify.output_comparison import reference_outputs

Array = npt.NDArray[Any]
_SATURATING = {"ConvInteger", "MatMulInteger", "QGemm", "QLinearConv", "QLinearMatMul"}


def run_relax(graph: IRModule | ImportedModel, *inputs: Array) -> list[Array]:
    """The outputs of ``main``: of a model, as the reference has them; of a module of Relax alone, by TVM's compiler.

    ``tests/integration/accel/verify`` holds the reference's operators against that.
    """
    if isinstance(graph, ImportedModel):
        return reference_outputs(graph, inputs)
    return run_compiled(compile_module(graph), inputs)


def run_host(module: IRModule, *inputs: Array) -> list[Array]:
    """The outputs of ``main`` as a host step of a program computes them."""
    results = main_results(module["main"])
    bindings = [binding for block in module["main"].body.blocks for binding in block.bindings]
    outputs = [result for result in results if isinstance(result, relax.Var)]
    assert len(outputs) == len(results)
    step, taken = host_module(module, HostRun(needed_bindings(bindings, outputs)), outputs)
    fed = dict(zip(module["main"].params, inputs, strict=True))
    return HostFunctions().run(write_host_graph(translate(step, RULES)), [fed[var] for var in taken])


# No fusion: fused float operators may round otherwise than one by one, and results are compared bit by bit.
_PASSES = (
    relax.transform.RewriteDataflowReshape,
    relax.transform.ToNonDataflow,
    relax.transform.RemovePurityChecking,
    relax.transform.CallTIRRewrite,
    relax.transform.StaticPlanBlockMemory,
    relax.transform.LowerAllocTensor,
    relax.transform.KillAfterLastUse,
    relax.transform.LowerRuntimeBuiltin,
    relax.transform.VMShapeLower,
    relax.transform.AttachGlobalSymbol,
)


def compile_module(module: IRModule) -> Any:
    """The executable of a module with a Relax function ``main``, without LLVM's optimisations, which take long.

    Nor with what each kernel says of arguments of other shapes, of which most of its code is: Relax has checked them.
    """
    target = tvm.target.Target({"kind": "llvm", "opt-level": 0})
    with target, tvm.transform.PassContext(config={"tirx.disable_assert": True}):
        plain = relax.transform.LegalizeOps()(module)
        return tvm.compile(plain, target=target, relax_pipeline=tvm.transform.Sequential([make() for make in _PASSES]))


def run_compiled(executable: Any, inputs: Sequence[Array]) -> list[Array]:
    """The results of ``main``."""
    machine = relax.VirtualMachine(executable, tvm.cpu())
    result = machine["main"](*(tvm.runtime.tensor(np.asarray(array, order="C")) for array in inputs))
    return [result.numpy()] if isinstance(result, tvm.runtime.Tensor) else [tensor.numpy() for tensor in result]


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
    return dict(zip([var.name for var in calls], run_relax(replace(imported, module=module), *inputs), strict=True))


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
