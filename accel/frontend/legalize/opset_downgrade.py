"""Models newer than the pinned onnxruntime loads, as the newest that it does.

Nearly all that new opsets change is types that are not read here anyway. An operator that is new, or says what the
older one could not, is refused.

Source: the operators' changelog, https://github.com/onnx/onnx/blob/main/docs/Changelog.md.
"""

from collections.abc import Mapping

import onnx
from onnx import TensorProto, helper

from accel.errors import UnsupportedOperator
from accel.frontend.onnx_model.model_limits import RUNTIME_IR_VERSION, RUNTIME_OPSET
from accel.frontend.onnx_model.onnx_nodes import ONNX_DOMAINS

# attributes of newer opsets, and the values that say nothing new of the types that are read; None: all of them
IMPLIED: Mapping[tuple[str, str], tuple[object, ...] | None] = {
    ("Range", "stash_type"): None,
    ("SpaceToDepth", "mode"): (b"DCR",),
}


def check_known_before(node: onnx.NodeProto, opset: int) -> None:
    """Checks that ``node`` of a model of ``opset`` can be said in what onnxruntime loads.

    Raises:
        UnsupportedOperator: it cannot; ``field`` names the node.
    """
    if opset <= RUNTIME_OPSET:
        return
    field = f"node:{node.name}"
    if not onnx.defs.has(node.op_type, RUNTIME_OPSET, ""):
        since = onnx.defs.get_schema(node.op_type, opset).since_version
        raise UnsupportedOperator(
            f"{node.op_type} is new in opset {since}; of newer models the operators of opset {RUNTIME_OPSET} are read",
            field=field,
        )
    for attribute in _added(node, opset):
        implied = IMPLIED.get((node.op_type, attribute.name), ())
        if implied is not None and (value := helper.get_attribute_value(attribute)) not in implied:
            shown = value.decode(errors="replace") if isinstance(value, bytes) else value
            raise UnsupportedOperator(
                f"{node.op_type} with {attribute.name}={shown} is new in opset "
                f"{onnx.defs.get_schema(node.op_type, opset).since_version}, and not supported",
                field=field,
            )


def check_computed_before(model: onnx.ModelProto, types: Mapping[str, onnx.ValueInfoProto]) -> None:
    """Checks that no node computes of its types what it could not in the opset that onnxruntime loads.

    Args:
        model: of which :func:`check_known_before` has checked every node.
        types: of its tensors.

    Raises:
        UnsupportedOperator: one does; ``field`` names it.
    """
    for node in model.graph.node:
        known = types.get(node.input[0]) if node.op_type == "Mod" else None
        if known is None or known.type.tensor_type.elem_type != TensorProto.FLOAT:
            continue
        # opset 28 lets floats have the remainder that integers have, with the divisor's sign
        if not any(attribute.name == "fmod" and attribute.i for attribute in node.attribute):
            raise UnsupportedOperator("Mod of floats is supported with fmod=1 only", field=f"node:{node.name}")


def downgrade(model: onnx.ModelProto) -> None:
    """Brings a checked ``model`` down to what onnxruntime loads, in place, if it is newer."""
    model.ir_version = min(model.ir_version, RUNTIME_IR_VERSION)
    for entry in model.opset_import:
        if entry.domain not in ONNX_DOMAINS or entry.version <= RUNTIME_OPSET:
            continue
        for node in model.graph.node:
            for attribute in _added(node, entry.version) if node.domain in ONNX_DOMAINS else ():
                node.attribute.remove(attribute)
        entry.version = RUNTIME_OPSET


def _added(node: onnx.NodeProto, opset: int) -> list[onnx.AttributeProto]:
    """The attributes that the operator has in ``opset``, and did not have in the one that onnxruntime loads."""
    before, now = (onnx.defs.get_schema(node.op_type, version).attributes for version in (RUNTIME_OPSET, opset))
    return [attribute for attribute in node.attribute if attribute.name in now and attribute.name not in before]
