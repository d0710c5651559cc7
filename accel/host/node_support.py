"""Whether the host can run a node of a model: asked when the model is imported, not when a step first runs."""

import math

import numpy as np
from tvm import ir, relax

from accel.errors import InvalidProgram, SimulationError
from accel.host.host_executor import HostFunction
from accel.host.host_graph import LEAST_OPSET, HostGraph, HostNode, write_host_graph
from accel.host.host_graph_reader import read_host_graph
from accel.host.json_fields import Tensor
from accel.host.onnx_calls import OnnxCall
from accel.host.relax_translation import UntranslatableError, tensor_of
from accel.util.arrays import Array

_FEW = 1 << 10  # elements of a constant that may say what shape a result has


def fault_of(call: OnnxCall, ty: relax.Type, runnable: set[str]) -> str:
    """Returns why the host cannot run a node whose results have the type ``ty``; empty if it can.

    ``runnable`` has the nodes of which that is known, and grows.
    """
    results = list(ty.fields) if isinstance(ty, relax.TupleType) else [ty]
    try:
        graph, wanted = _alone(call), [tensor_of(result) for result in results]
    except UntranslatableError as error:
        return str(error)
    text = write_host_graph(graph)
    if text in runnable:
        return ""
    try:
        checked = read_host_graph(text)
        HostFunction(checked, math.inf)
    except (InvalidProgram, SimulationError) as error:
        return error.detail
    found = checked.signature()[1]
    if found != wanted:
        return f"ONNX makes {_shown(found)} of it, and TVM {_shown(wanted)}"
    runnable.add(text)
    return ""


def _alone(call: OnnxCall) -> HostGraph:
    """The node as a graph of its own; large constants are inputs."""
    inputs: dict[str, Tensor] = {}
    constants: dict[str, Array] = {}
    names = []
    for place, operand in enumerate(call.operands):
        names.append("" if operand is None else f"x{place}")
        if isinstance(operand, ir.GenericConst) and math.prod(operand.value.shape) <= _FEW:
            constants[names[-1]] = np.asarray(operand.value.numpy())
        elif operand is not None:
            inputs[names[-1]] = tensor_of(operand.ty)
    outputs = tuple(f"y{place}" if there else "" for place, there in enumerate(call.outputs))
    node = HostNode(call.op, tuple(names), outputs, call.attributes)
    return HostGraph(max(call.opset, LEAST_OPSET), inputs, constants, (node,), tuple(filter(None, outputs)))


def _shown(tensors: list[Tensor]) -> str:
    return ", ".join(f"{dtype}{list(shape)}" for shape, dtype in tensors)
