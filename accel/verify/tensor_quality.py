"""The quality of each quantised tensor: its distance from the float network's, and the layer where most is lost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from accel.errors import InvalidModel
from accel.frontend.integer_recovery.quantised_activations import Activation
from accel.frontend.onnx_model.channel_factors import channel_factors
from accel.frontend.onnx_model.ort_session import with_outputs
from accel.frontend.onnx_model.shape_inference import without_weights
from accel.report.documents.report_documents import TensorQuality
from accel.util.arrays import Array
from accel.util.safe_names import tensor_fault
from accel.verify.input_tensors import Tensors
from accel.verify.output_comparison import outputs_by_onnxruntime, sqnr_db

EVERY = "*"
"""In place of a tensor's name: all of them."""
_MOST_ELEMENTS = 1 << 26  # of float tensors that are there at once: 256 MiB
_MOST_COMPARED = 1 << 17  # elements of a tensor; of a larger one as many, evenly spread


@dataclass(frozen=True)
class TensorQualities:
    """The figures of each quantised tensor, in the order of the nodes, and the intermediates that were asked for.

    ``missing`` states why there are none.
    """

    figures: list[TensorQuality]
    intermediates: Tensors
    missing: str = ""


def tensor_qualities(
    network: onnx.ModelProto,
    feeds: Tensors,
    activations: Sequence[Activation],
    values: Mapping[str, Array],
    wanted: Sequence[str] = (),
) -> TensorQualities:
    """Returns how far the quantised tensors are from those of the float network on the same inputs.

    Args:
        network: the float network.
        feeds: its inputs.
        activations: the quantised tensors of the model in QDQ form.
        values: the tensors of that model that the machine's integers were computed of, by name.
        wanted: names of tensors of the network to keep, or :data:`EVERY`; of each there is ``float/NAME``, and
            ``ours/NAME`` if the program has it.

    Raises:
        InvalidModel: the network has no tensor of a wanted name, or they are too large; ``field`` is
            ``options.intermediates``, with the place.
    """
    sizes = _sizes(network)
    made = {name for node in network.graph.node for name in node.output if name} | set(feeds)
    pairs = {each.integers: _name_in(each, made) for each in activations if each.integers in values}
    kept = _wanted(wanted, made, sizes)
    compared = [name for name in pairs.values() if name is not None]
    if sum(sizes.get(name, 0) for name in compared) > _MOST_ELEMENTS:
        compared = []
    names = list(dict.fromkeys((*compared, *kept)))
    found = {name: feeds[name] for name in names if name in feeds}
    computed = [name for name in names if name not in found]
    if computed:
        try:
            found |= zip(
                computed, outputs_by_onnxruntime(with_outputs(network, computed), feeds, computed), strict=True
            )
        except InvalidModel as error:
            return TensorQualities([], {}, f"the quality of the tensors is not known: {error.detail}")
    ours = {name: values[name] for name in kept if name in values}
    as_is = channel_factors(network).keys()  # a model that was quantised here and is uploaded again
    for each in activations:
        if each.integers in values:
            wanted_as = {each.source, each.integers, *each.results}.intersection(kept)
            real = each.real(values[each.integers])
            if not as_is & {each.source, *each.results}:
                real = each.before_equalisation(real)
                ours |= {name: each.before_equalisation(ours[name]) for name in each.ahead if name in ours}
            ours |= dict.fromkeys((*wanted_as, pairs[each.integers] or ""), real)
    figures = _figures(activations, pairs, ours, found, network) if compared else []
    tensors = {f"float/{name.lstrip('/')}": found[name] for name in kept}
    tensors |= {f"ours/{name.lstrip('/')}": ours[name] for name in kept if name in ours}
    missing = "" if compared or not pairs else "the quality of the tensors is not known: they are too large"
    return TensorQualities(figures, tensors, missing)


def where_most_is_lost(figures: Sequence[TensorQuality]) -> TensorQuality | None:
    """Returns the tensor at which the noise, as a share of the signal, grows the most; None if it grows nowhere."""
    grown = [(_noise(each.sqnr_db) - _noise(each.before_db), each) for each in figures if each.before_db is not None]
    most = max(grown, key=lambda one: one[0], default=None)
    return most[1] if most is not None and most[0] > 0 else None


def _noise(db: float | None) -> float:
    return 0.0 if db is None else float(10 ** (-db / 10))


def _figures(
    activations: Sequence[Activation],
    pairs: Mapping[str, str | None],
    ours: Tensors,
    found: Tensors,
    network: onnx.ModelProto,
) -> list[TensorQuality]:
    """The figures; what is computed from a tensor that has none is taken to come from what that is computed from."""
    makers = {name: node.name for node in network.graph.node for name in node.output}
    known: dict[str, float | None] = {}  # the worst of what each tensor comes from, itself included
    figures = []
    for each in activations:
        before = min((db for name in each.made_of if (db := known.get(name)) is not None), default=None)
        name = pairs.get(each.integers)
        if name is None or name not in found or found[name].shape != ours[name].shape:
            known[each.integers] = before
            continue
        real = found[name]
        step = max(1, real.size // _MOST_COMPARED) | 1  # odd, so that channels are not left out
        db = sqnr_db(ours[name].reshape(-1)[::step], real.reshape(-1)[::step])
        known[each.integers] = db
        figures.append(
            TensorQuality(
                tensor=name,
                node=makers.get(name, ""),
                scale=each.scale,
                zero_point=each.zero_point,
                sqnr_db=db,
                before_db=before,
            )
        )
    return figures


def _name_in(activation: Activation, made: set[str]) -> str | None:
    """The float network's tensor; in that of a quantised model a clip has the name of the integers."""
    names = (activation.integers, activation.source, *activation.results)
    return next((name for name in names if name in made), None)


def _wanted(wanted: Sequence[str], made: set[str], sizes: Mapping[str, int]) -> list[str]:
    """The names, in the order of the model where all are wanted."""
    kept = (
        [name for name in sizes if name in made and not tensor_fault(name.lstrip("/"))]
        if EVERY in wanted
        else list(wanted)
    )
    total = 0
    for place, name in enumerate(kept):
        field = "options.intermediates" + ("" if EVERY in wanted else f"[{place}]")
        if name not in made:
            raise InvalidModel(f"the model has no tensor {name!r}", field=field)
        total += sizes.get(name, 0)
        if total > _MOST_ELEMENTS:
            raise InvalidModel(f"the tensors have more than {_MOST_ELEMENTS:,} elements: name fewer", field=field)
    return kept


def _sizes(network: onnx.ModelProto) -> dict[str, int]:
    """The elements of each tensor whose shape is known."""
    inferred = onnx.shape_inference.infer_shapes(without_weights(network)).graph
    infos = (*inferred.input, *inferred.value_info, *inferred.output)
    constants = {tensor.name for tensor in network.graph.initializer}
    return {
        info.name: int(np.prod([max(size.dim_value, 1) for size in info.type.tensor_type.shape.dim]))
        for info in infos
        if info.name not in constants
    }
