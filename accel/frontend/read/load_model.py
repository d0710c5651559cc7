"""Loading of an uploaded model into the form that the rest of the compiler reads."""

from dataclasses import dataclass, replace
from pathlib import Path

import onnx

from accel.frontend.legalize.einsum_products import split_einsums
from accel.frontend.legalize.function_operators import expand_functions
from accel.frontend.legalize.normalization_moments import compute_moments
from accel.frontend.legalize.opset_downgrade import downgrade
from accel.frontend.legalize.opset_upgrade import upgrade
from accel.frontend.legalize.plain_movement import simplify_movement
from accel.frontend.onnx_model.external_data import externalize
from accel.frontend.onnx_model.model_limits import LIMITS, ModelLimits
from accel.frontend.onnx_model.onnx_nodes import unique_name
from accel.frontend.onnx_model.shape_inference import Inferred
from accel.frontend.onnx_model.tensor_types import is_static
from accel.frontend.read.model_info import NO_AXES, Axes, FixedInputs, ModelInfo
from accel.frontend.read.model_inspection import infer_model
from accel.frontend.read.model_parser import parse_model
from accel.frontend.read.single_precision import drop_casts


@dataclass(frozen=True)
class LoadedModel:
    """A model in the form that the compiler reads, and its description as it was uploaded.

    Every node of ``model`` has a unique name, no initializer is also an input, and each output has a static shape.
    ``types`` are those of its tensors before it was brought to another opset. ``uploaded`` is the model as it was in
    the file, its large constants in another, if it was loaded to be run.
    """

    info: ModelInfo
    model: onnx.ModelProto
    types: dict[str, onnx.ValueInfoProto]
    uploaded: onnx.ModelProto | None = None


def load_model(data: bytes, limits: ModelLimits = LIMITS, axes: Axes = NO_AXES) -> LoadedModel:
    """Parses, checks and infers ``data``, once, and converts it to an opset that the compiler reads.

    Dynamic axes get the extents of ``axes``, or 1. A model of an old opset becomes one of opset 13; a model newer than
    onnxruntime loads becomes one of the newest opset that it does.

    Raises:
        InvalidModel, and its subclasses: as for ``inspect_model``.
    """
    parsed = parse_model(data, limits, axes)
    return _loaded(parsed.model, parsed.fixed, limits)


def load_externalized(
    model: bytes | Path, directory: Path, limits: ModelLimits = LIMITS, axes: Axes = NO_AXES
) -> LoadedModel:
    """Returns the result of :func:`load_model` of the file ``model``, with external large constants.

    They are in a file in ``directory`` (``accel/frontend/onnx_model/external_data.py``), which must outlive the model.

    Raises:
        InvalidModel, and its subclasses: as for ``inspect_model``.
    """
    parsed = parse_model(model if isinstance(model, bytes) else model.read_bytes(), limits, axes, directory)
    light = externalize(parsed.model, directory)  # what was converted
    return replace(_loaded(light, parsed.fixed, limits), uploaded=parsed.uploaded)


def _loaded(model: onnx.ModelProto, fixed: FixedInputs, limits: ModelLimits) -> LoadedModel:
    """State the outputs' shapes and what can be computed of shapes, and upgrade, in place.

    A tensor that the graph lists twice among its outputs is one of them: results are told apart by their names.
    """
    outputs = {info.name: info for info in reversed(model.graph.output)}
    if len(outputs) < len(model.graph.output):
        kept = [outputs[name] for name in dict.fromkeys(info.name for info in model.graph.output)]
        del model.graph.output[:]
        model.graph.output.extend(kept)
    known = infer_model(model, fixed, limits)
    while expand_functions(model, known.inferred.types):  # the body of one may have another
        known = replace(infer_model(model, fixed, limits), info=known.info)
    for info in model.graph.output:
        if not is_static(info):
            tensor = info.type.tensor_type
            tensor.shape.Clear()
            for extent in known.shapes[info.name]:
                tensor.shape.dim.add(dim_value=extent)
    if fixed.converted:
        drop_casts(model, known.inferred.types)
    compute_moments(model, known.shapes)
    split_einsums(model, known.shapes)
    _use_values(model, known.inferred)
    downgrade(model)
    upgrade(model, known.shapes)
    simplify_movement(model, known.shapes)
    return LoadedModel(known.info, model, known.inferred.types)


def _use_values(model: onnx.ModelProto, inferred: Inferred) -> None:
    """Give the nodes that must be run constants in place of what is computed of shapes; the rest stays, unused."""
    values = dict(inferred.values)
    for node in model.graph.node:
        if node.op_type == "Constant":
            values.pop(node.output[0], None)
    taken = {*inferred.types, *(tensor.name for tensor in model.graph.initializer)}
    constants: dict[str, str] = {}
    for node in model.graph.node:
        if all(name in inferred.values for name in node.output if name):
            continue
        for index, name in enumerate(node.input):
            if name in values and name not in constants:
                constants[name] = unique_name(f"{name}_value", taken)
                model.graph.initializer.add().CopyFrom(values[name])
                model.graph.initializer[-1].name = constants[name]
            node.input[index] = constants.get(name, name)
