"""Post-training quantisation: a float32 ONNX model to QDQ form, int8.

onnxruntime first folds batch norms and constants; it also runs the calibration samples. Scales are of eight an octave,
where the operands of an addition differ by a power of two; where machines shift, also the product of a layer's scales
and its result's. Weights are rounded so that the errors cancel in the layer's sums. For scales of activations there are
several methods. What the rounding of a layer's weights adds to its sums on average is taken from its bias.
"""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx

from accel.errors import InvalidModel
from accel.frontend.fold.layer_folding import fold_layers
from accel.frontend.legalize.explicit_padding import join_pads, make_padding_explicit
from accel.frontend.legalize.qdq_form import has_operator_form, in_qdq_form
from accel.frontend.legalize.recurrent_layers import with_layers_unrolled
from accel.frontend.onnx_model.external_data import externalize
from accel.frontend.onnx_model.node_origins import note_origins
from accel.frontend.onnx_model.onnx_nodes import ONNX_DOMAINS, name_nodes
from accel.frontend.onnx_model.ort_session import optimized_model
from accel.frontend.quantize.activation_calibration import Calibrated, Observations, calibration_samples
from accel.frontend.quantize.channel_equalisation import ChannelEqualisation
from accel.frontend.quantize.input_moments import Feedback
from accel.frontend.quantize.qdq_insertion import Quantiser, channel_weight_scales, weight_errors
from accel.frontend.quantize.quantization_targets import Targets, find_targets
from accel.frontend.quantize.sample_runs import Sample, count_values
from accel.frontend.quantize.scale_constraints import (
    choose_scales,
    equal_scale_groups,
    loosened_joins,
    related_scale_groups,
    scale_factors,
    shared_scales,
    shiftable_tensors,
)
from accel.frontend.quantize.scale_grid import DEFAULT_SCHEME, GRIDS, Grid, Scheme
from accel.frontend.quantize.shift_scales import choose_shift_scales
from accel.frontend.quantize.stored_functions.gelu_functions import find_gelus
from accel.frontend.quantize.stored_functions.layer_norms import NormRows, norm_losses, with_norms, with_plain_norms
from accel.frontend.quantize.stored_functions.softmax_rows import (
    SoftmaxRows,
    find_softmaxes,
    observed_rows,
    softmax_losses,
    with_softmax_grids,
    with_softmaxes,
)
from accel.frontend.quantize.threads import in_threads
from accel.util.arrays import Array

_MOST_WAITING = 1 << 26  # elements of tensors that are kept: 256 MB
# one renames the node, and we fuse the bias ourselves; one drops layers that the user wrote; one takes the zeros
# around a maximum of negative numbers for its padding
_KEPT_APART = ("MatMulAddFusion", "CommonSubexpressionElimination", "Pad_Fusion")


def quantize_model(
    model: onnx.ModelProto,
    calibration: Mapping[str, Array] | None = None,
    *,
    seed: int = 0,
    scheme: Scheme = DEFAULT_SCHEME,
) -> onnx.ModelProto:
    """Returns ``model`` quantised: layers with constant weights, means, elementwise operators, concatenations.

    Args:
        model: float32, with static shapes (see ``inspect_model``). It is not modified.
        calibration: for each input, one sample of the input's shape, or samples along a leading axis; drawn
            from a normal distribution if absent.
        seed: of those random samples.
        scheme: the scales to choose from, and how.

    Raises:
        InvalidTensors: the calibration data do not fit the inputs.
        InvalidModel: onnxruntime cannot load or run the model.
        InvalidModel, UnsupportedOperator, UnsupportedShape: as ``with_layers_unrolled``.
    """
    with tempfile.TemporaryDirectory() as directory:
        return quantize_prepared(prepare_model(model, Path(directory), calibration, seed=seed), scheme)


@dataclass(frozen=True)
class PreparedModel:
    """A float model as far as its quantisation is the same for every scheme.

    ``model`` is folded, and its channels are equalised. ``targets`` are the most that most schemes have, which are
    ``observed``; ``feedback`` is that of their layers. ``samples`` are what it was run on.
    """

    model: onnx.ModelProto
    targets: Targets
    observed: Observations
    feedback: Mapping[str, Feedback]
    samples: Sequence[Sample]


def prepare_model(
    model: onnx.ModelProto, directory: Path, calibration: Mapping[str, Array] | None = None, *, seed: int = 0
) -> PreparedModel:
    """Returns ``model`` prepared, its large constants in ``directory``, which must outlive it; the rest is as above.

    Raises:
        InvalidTensors, InvalidModel, UnsupportedOperator, UnsupportedShape: as :func:`quantize_model`.
    """
    light = _fold(with_layers_unrolled(model), directory)
    samples = calibration_samples(light, calibration, seed)
    return _equalised(light, samples, directory)


def _equalised(model: onnx.ModelProto, samples: Sequence[Sample], directory: Path) -> PreparedModel:
    """The model, a folded one, with its channels equalised, and what the samples tell of it.

    They are run once: tensors that may get factors are kept until these are known. If that is too much, they are run
    again.
    """
    equalisation, targets = ChannelEqualisation(model, len(samples), directory), find_targets(model)
    observed = Observations(targets, len(samples))
    waiting = {name: size for name, size in equalisation.scalable.items() if name in targets.activations}
    if sum(waiting.values()) * len(samples) > _MOST_WAITING:
        count_values(model, list(equalisation.axes), samples, equalisation.add)
        equalisation.apply()
        targets = find_targets(model)
        count_values(model, targets.activations, samples, observed.add)
        return PreparedModel(model, targets, observed, observed.feedback(), samples)
    kept: dict[str, list[Array]] = {name: [] for name in waiting}
    known = set(targets.activations)

    def count(name: str, values: Sequence[Array]) -> None:
        if name in equalisation.axes:
            equalisation.add(name, values)
        if name in kept:
            kept[name] += [value.copy() for value in values]
        elif name in known:
            observed.add(name, values)

    count_values(model, list(dict.fromkeys([*targets.activations, *equalisation.axes])), samples, count)
    factors = equalisation.apply()
    scaled = {name: factors[name].astype(np.float32) for name in kept if name in factors}
    in_threads(lambda name: observed.add(name, [v * scaled[name] if name in scaled else v for v in kept[name]]), kept)
    targets = find_targets(model) if factors else targets
    return PreparedModel(model, targets, observed, observed.feedback(), samples)


def quantize_prepared(prepared: PreparedModel, scheme: Scheme) -> onnx.ModelProto:
    """Returns the model quantised, with all constants in it.

    Raises:
        InvalidModel: some values are not finite on the samples.
    """
    prepared, norms = _with_plain_norms(prepared, scheme)
    light, targets = prepared.model, prepared.targets
    gelus = find_gelus(light) if scheme.stores_gelu else ()
    if scheme.float_products or gelus:
        within = frozenset[str]().union(*(gelu.nodes for gelu in gelus))
        targets = find_targets(light, float_products=scheme.float_products, within=within)
    grid, shifts = GRIDS[scheme.scales], scheme.scales == "power of two"
    grids = {name: grid.with_base(base if shifts else 1) for name, base in scale_factors(targets).items()}
    softmaxes = find_softmaxes(light, targets, scheme.softmax_columns) if any(scheme.softmax_columns) else ()
    norms = tuple(norm for norm in norms if norm.result in targets.activations)
    fixed = frozenset(gelu.result for gelu in gelus) | {each.result for each in softmaxes}
    fixed |= {norm.result for norm in norms}
    shifted = shiftable_tensors(light, targets, scheme.zero_points, fixed)
    if softmaxes:
        grids = with_softmax_grids(grids, softmaxes, equal_scale_groups(targets))
    known = prepared.observed.calibrated(grids, method=scheme.method, shifted=shifted)
    if softmaxes:
        targets, known = _with_softmaxes(prepared, targets, known, softmaxes, grid)
        grids |= {each.data: grid for each in softmaxes}
    if norms:
        known = replace(known, losses=norm_losses(known.losses, norms, grids))
    errors = {} if scheme.by_channel else weight_errors(targets.layers, grids, prepared.feedback)
    if shifts:
        chosen = choose_shift_scales(light, targets, known.losses, errors, grid)
        indices, weights = chosen.activations, chosen.weights
    else:
        targets = loosened_joins(light, targets, known.losses, grid)
        indices = choose_scales(related_scale_groups(targets), known.losses, grid)
        weights = {name: np.array([min(each, key=each.__getitem__)]) for name, each in errors.items()}
    if scheme.by_channel:
        weights = channel_weight_scales(targets.layers, grids)
    activations = shared_scales(targets, indices, known.losses)
    return Quantiser(light, targets, activations, weights, grids, known.means, prepared.feedback).quantised()


def _with_plain_norms(prepared: PreparedModel, scheme: Scheme) -> tuple[PreparedModel, tuple[NormRows, ...]]:
    """The model with norms as stores compute them, where they do, and these norms; samples are run for them once more.

    All other tensors are what they were.
    """
    if not any(scheme.layer_norm_columns):
        return prepared, ()
    model, norms = with_plain_norms(prepared.model, prepared.targets.activations, scheme.layer_norm_columns)
    if not norms:
        return prepared, ()
    targets = find_targets(model)
    news = with_norms(targets, norms)
    observed = Observations(news, len(prepared.samples))
    count_values(model, news.activations, prepared.samples, observed.add)
    feedback = {**prepared.feedback, **observed.feedback()}
    return PreparedModel(model, targets, prepared.observed.with_others(observed), feedback, prepared.samples), norms


def _with_softmaxes(
    prepared: PreparedModel, targets: Targets, known: Calibrated, softmaxes: Sequence[SoftmaxRows], grid: Grid
) -> tuple[Targets, Calibrated]:
    """The targets with what softmaxes read, and what the samples tell of that; its range holds all that counts."""
    read = {each.data: grid for each in softmaxes}
    wider = with_softmaxes(replace(targets, layers=(), activations=()), softmaxes)
    observed = Observations(wider, len(prepared.samples))

    def count(name: str, values: Sequence[Array]) -> None:
        observed.add(name, [observed_rows(value) for value in values])

    count_values(prepared.model, list(read), prepared.samples, count)
    losses = observed.calibrated(read, method="minmax", shifted=read).losses
    losses = softmax_losses(known.losses | losses, softmaxes, grid)
    return with_softmaxes(targets, softmaxes), replace(known, losses=losses)


def ensure_quantised(
    model: onnx.ModelProto,
    calibration: Mapping[str, Array] | None = None,
    *,
    seed: int = 0,
    scheme: Scheme = DEFAULT_SCHEME,
) -> onnx.ModelProto:
    """Returns ``model`` in QDQ form: itself, its quantised operators rewritten, or a float model quantised.

    Raises:
        InvalidModel, InvalidTensors: as :func:`quantize_model` and ``in_qdq_form``.
    """
    if is_quantised(model):
        return with_layers_unrolled(in_qdq_form(model))
    return quantize_model(model, calibration, seed=seed, scheme=scheme)


def is_quantised(model: onnx.ModelProto) -> bool:
    """Returns whether the model is already quantised: in QDQ form, or of quantised operators."""
    return has_operator_form(model) or any(node.op_type == "DequantizeLinear" for node in model.graph.node)


def _fold(model: onnx.ModelProto, directory: Path) -> onnx.ModelProto:
    """The model after onnxruntime's basic optimisations, which keep to the ONNX operators; its constants apart."""
    named = externalize(model, directory)
    name_nodes(named)
    make_padding_explicit(named)
    join_pads(named)
    try:
        optimised = optimized_model(named, directory, _KEPT_APART)
    except Exception as error:  # onnxruntime's exceptions have no common base
        raise InvalidModel(f"onnxruntime cannot load the model: {error}", field="model") from error
    if any(node.domain not in ONNX_DOMAINS for node in optimised.graph.node):
        return named
    used = [entry for entry in optimised.opset_import if entry.domain in ONNX_DOMAINS]
    del optimised.opset_import[:]
    optimised.opset_import.extend(used)
    name_nodes(optimised)
    fold_layers(optimised, directory)
    note_origins(optimised, named)
    return optimised
