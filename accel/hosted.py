"""What runs on the host, and why."""

from tvm import ir

from accel.accelerator.document import Accelerator
from accel.frontend.integers import ImportedModel
from accel.lowering.attributes import HOST_REASON
from accel.report import HostOp


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
