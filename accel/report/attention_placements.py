"""Attention that may go over blocks of keys, and whether it does, for the report."""

import json

from tvm import ir

from accel.frontend.integer_recovery.recover_integers import HOST_NODES
from accel.lowering.ir.function_attributes import ATTENTION, AttentionChoice, load_choices
from accel.report.documents.report_documents import AttentionCosts, AttentionPlacement


def attention_placements(module: ir.IRModule) -> tuple[AttentionPlacement, ...]:
    """Returns the document of each attention in a module whose vector programs are placed."""
    attrs = module["main"].attrs
    if attrs is None or ATTENTION not in attrs:
        return ()
    nodes: dict[str, str] = json.loads(str(attrs[HOST_NODES]))
    return tuple(_placement(choice, nodes) for choice in load_choices(str(attrs[ATTENTION])))


def _placement(choice: AttentionChoice, nodes: dict[str, str]) -> AttentionPlacement:
    names = dict.fromkeys(nodes[name] for name in choice.variables if name in nodes)
    fused, unfused = (
        AttentionCosts(cycles=each.cycles, dram_bytes=each.dram_bytes) for each in (choice.fused, choice.unfused)
    )
    return AttentionPlacement(
        nodes=list(names),
        chosen="fused" if choice.chosen else "unfused",
        fused=fused,
        unfused=unfused,
        unfused_on_host=choice.on_host,
    )
