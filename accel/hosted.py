"""What runs on the host, and why."""

from tvm import ir

from accel.accelerator.document import Accelerator
from accel.frontend.integers import ImportedModel
from accel.lowering.attributes import HOST_REASON, LAUNCHES, load_launches
from accel.report_documents import HostOp


def host_ops(imported: ImportedModel, module: ir.IRModule, accelerator: Accelerator) -> list[HostOp]:
    """The model's nodes that run on the host, each with the reason.

    A node is here and in a layer if the host prepares its data or finishes its result.
    """
    launches = list(load_launches(str(module["main"].attrs[LAUNCHES])).values())
    shared = {node for launch in launches for node in launch.nodes}
    reasons = {node: launch.host_reason for launch in launches if launch.host_reason for node in launch.nodes}
    for node in imported.host_nodes.values():
        for name in node.covers:
            # a quantised operator is several steps; the one that is named after it says most
            if name == node.name or len(node.covers) > 1 or name not in reasons:
                reasons[name] = _reason(node.op, accelerator, shared=name in shared)
    for variable, function in module.functions.items():
        reason = function.attrs.get(HOST_REASON) if function.attrs is not None else None
        if reason is not None:
            names = [str(node) for node in function.attrs["nodes"]] or [str(variable.name_hint)]
            reasons.update(dict.fromkeys(names, str(reason)))
    return [
        HostOp(node=name, op=imported.operators.get(name, "QuantizeLinear"), reason=reason)
        for name, reason in reasons.items()
    ]


def _reason(op: str, accelerator: Accelerator, *, shared: bool) -> str:
    if shared:
        return f"{accelerator.title} contracts it; the host converts or pads its data, or scales its result"
    if op == "QuantizeLinear":
        return "float32 becomes int8 on the host, where a float operator or a model input feeds the accelerator"
    if op == "DequantizeLinear":
        return "int8 becomes float32 on the host, where a float operator or a model output follows the accelerator"
    return f"the compiler makes no {op} of the instructions of {accelerator.title}"
