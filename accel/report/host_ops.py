"""The model nodes that run on the host, and why."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tvm import ir

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Copy
from accel.frontend.integer_recovery.recover_integers import ImportedModel
from accel.frontend.legalize.qdq_form import OPERATORS
from accel.frontend.legalize.recurrent_cells import RECURRENT
from accel.frontend.relax_import.relax_importer import ImportedNode
from accel.lowering.ir.function_attributes import (
    HOST_REASON,
    LAUNCHES,
    STORED,
    UNMOVED,
    VECTOR_REASONS,
    load_launches,
)
from accel.report.documents.report_documents import HostOp
from accel.report.host_layouts import layout_reasons
from accel.report.host_reasons import (
    HostGraphFacts,
    composed_reason,
    host_reason,
    is_movement,
    movement_reason,
    recurrent_reason,
    refused_reason,
    vector_reason,
)

_LATE_ZERO_POINT = "the zero point of its data, known at run time alone, is taken off its int32 result"
_QUANTISED = frozenset(op for _, op in OPERATORS)
_PLUMBING = ("DequantizeLinear", "QuantizeLinear")
_STEPS = {(op, "Sub"): _LATE_ZERO_POINT for op in ("ConvInteger", "MatMulInteger")}  # of operators in QDQ form


@dataclass(frozen=True)
class _Unsaid:
    """Why variables are left to the host: what no vector programs compute, and what no loads and stores move."""

    programs: Mapping[str, str]
    movement: Mapping[str, str]

    def moving(self, variable: str, op: str, title: str) -> str:
        """Returns why no elements of a variable are moved; empty of what is no movement."""
        if not is_movement(op) and variable not in self.movement:
            return ""
        return movement_reason(op, self.movement.get(variable, ""), title)

    def reason(self, variable: str, op: str, title: str, *, shared: bool) -> str:
        """Returns why the host computes a variable; empty where that depends on the node."""
        if shared:
            return f"{title} runs it; the host arranges its data or its result, or scales it"
        if variable in self.programs and not is_movement(op):
            return vector_reason(op, self.programs[variable], title)
        return self.moving(variable, op, title)


def host_ops(
    imported: ImportedModel,
    module: ir.IRModule,
    accelerator: Accelerator,
    *,
    floats: bool = False,
    at_edges: bool = False,
) -> list[HostOp]:
    """Returns the model's nodes that run on the host, each with the reason.

    A node is here and in a layer if the host prepares its data or finishes its result. ``floats`` says that the model
    was uploaded in floats, and quantised here; ``at_edges`` that data and results which the host only lays out are told
    of where they are the model's own, too, as where a vector unit could lay them out.
    """
    launches = list(load_launches(str(module["main"].attrs[LAUNCHES])).values())
    shared = {node for launch in launches for node in launch.nodes}
    left = {
        node: launch.host_reason
        for launch in launches
        if launch.host_reason
        for node in launch.host_nodes or launch.nodes
    }
    reasons = dict(left)
    copies = (each for each in accelerator.instructions if isinstance(each, Copy))
    rows = dict.fromkeys(each.rows.function for each in copies if each.rows is not None)
    facts, title = HostGraphFacts.of(imported.model, floats=floats, rows=rows), accelerator.title
    parts: dict[str, dict[str, str]] = {}
    told_of = _Unsaid(_read(module, VECTOR_REASONS), _read(module, UNMOVED))
    stored = frozenset[str](json.loads(str(module["main"].attrs[STORED])))
    computed = {name for launch in launches if launch.values is not None for name in launch.values.computes}
    for variable, node in _on_host(imported, stored | computed).items():
        for name in node.covers:
            op = imported.operators.get(name, node.op)
            if op in RECURRENT:
                reasons[name] = recurrent_reason(op, title, shared=name in shared)
                continue
            if name not in shared and (found := _part(node, name, op, facts)):
                why = told_of.reason(variable, found, title, shared=False)
                why = why or host_reason(node.name, found, title, facts)
                parts.setdefault(name, {}).update({found: why})
                reasons[name] = composed_reason(op, parts[name])
            # a quantised operator is several steps; the one that is named after it says most
            elif name == node.name or len(node.covers) > 1 or name not in reasons:
                told = op if op == "DynamicQuantizeLinear" else node.op
                why = told_of.reason(variable, told, title, shared=name in shared)
                why = why or refused_reason(told, imported.refusals.get(node.name, ""))
                why = why or host_reason(node.name, told, title, facts)
                merged = name not in shared and name != node.name and op not in (told, *_QUANTISED)
                reasons[name] = f"{op} became part of {told}; {why}" if merged else why
    causes = _causes(imported, stored | computed)
    parted = {name: f"the host has a part of it: {'; '.join(found)}" for name, found in causes.items()}
    reasons |= {name: f"{left[name]}; {part}" if name in left else part for name, part in parted.items()}
    laid_out = layout_reasons(module, imported.host_nodes, title, at_edges=at_edges)
    reasons |= {name: why for name, why in laid_out.items() if name not in reasons}
    for variable, function in module.functions.items():
        reason = function.attrs.get(HOST_REASON) if function.attrs is not None else None
        if reason is not None:
            names = [str(node) for node in function.attrs["nodes"]] or [str(variable.name_hint)]
            for name in names:
                if name in reasons and imported.operators.get(name) in RECURRENT:
                    continue  # its steps are many, and its own reason says what they are
                reasons[name] = f"{reasons[name]}; {reason}" if name in causes else str(reason)
    return [
        HostOp(node=name, op=imported.operators.get(name, "QuantizeLinear"), reason=reason)
        for name, reason in reasons.items()
    ]


def _on_host(imported: ImportedModel, done: Collection[str]) -> dict[str, ImportedNode]:
    """The host's nodes by variable, but for those that are ``done``: by vector programs, or by loads and stores."""
    return {variable: node for variable, node in imported.host_nodes.items() if variable not in done}


def _read(module: ir.IRModule, attribute: str) -> dict[str, str]:
    """Reasons by variable; nothing on a machine of which there are none."""
    attrs = module["main"].attrs
    found: dict[str, str] = json.loads(str(attrs[attribute])) if attribute in attrs else {}
    return found


def _causes(imported: ImportedModel, stored: Collection[str]) -> dict[str, list[str]]:
    """What the host does for nodes that the accelerator runs, as the recovery of integers noted it.

    ``stored`` are what it was to do and the accelerator does.
    """
    found: dict[str, dict[str, None]] = {}
    for variable, node in imported.host_nodes.items():
        if variable in stored:
            continue
        for name in node.covers:
            step = _STEPS.get((imported.operators.get(name, ""), node.op), "")
            cause = imported.causes.get(variable, step)
            if cause:
                found.setdefault(name, {})[cause] = None
    return {name: list(causes) for name, causes in found.items()}


def _part(node: ImportedNode, name: str, op: str, facts: HostGraphFacts) -> str:
    """The operator that a step of the host is, if the node ``name`` of the model's ``op`` is made of several."""
    step = facts.nodes.get(node.name)
    if step is None or len(node.covers) > 1 or op in _QUANTISED or step.op_type in _PLUMBING:
        return ""
    return "" if name == node.name and op == step.op_type else str(step.op_type)
