"""Onnxruntime on models whose constants may be in a file: it maps them, and makes no copies of its own."""

import contextlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import onnx
import onnxruntime

from accel.frontend.onnx_model.external_data import LARGE, is_external, set_location
from accel.frontend.onnx_model.onnx_nodes import unique_name

_FOLDED_FILE = "folded.bin"


def session(
    model: onnx.ModelProto, optimization: onnxruntime.GraphOptimizationLevel | None = None, *, threads: int = 0
) -> onnxruntime.InferenceSession:
    """Returns a session of onnxruntime on ``model``, without an arena and without second copies of weights.

    Args:
        model: to run.
        optimization: of its graph; onnxruntime's default if absent.
        threads: that an operator is computed in; onnxruntime's default if 0.

    Raises:
        Exception: whatever onnxruntime raises if it cannot load the model.
    """
    for apart in (False, True):
        # without it sums of products of uint8 and int8 saturate on x86 processors that lack VNNI
        exact = _options(optimization, threads)
        exact.add_session_config_entry("session.x64quantprecision", "1")
        # that setting, not the model, fails some: it makes weights that two layers share uint8 twice, and those of
        # convolutions, which must be int8; if it is the model, the last line says so
        with contextlib.suppress(Exception):
            return _session(_with_own_weights(model) if apart else model, exact)
    return _session(model, _options(optimization, threads))


def _with_own_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy of ``model`` in which each node has int8 constants of its own."""
    copied = onnx.ModelProto()
    copied.CopyFrom(model)
    shared = {tensor.name: tensor for tensor in copied.graph.initializer if tensor.data_type == onnx.TensorProto.INT8}
    taken = {name for node in copied.graph.node for name in (*node.input, *node.output)}
    seen: set[str] = set()
    for node in copied.graph.node:
        for place, name in enumerate(node.input):
            if name in seen and name in shared:
                own = copied.graph.initializer.add()
                own.CopyFrom(shared[name])
                own.name = node.input[place] = unique_name(name, taken)
            seen.add(name)
    return copied


def with_outputs(model: onnx.ModelProto, names: Sequence[str]) -> onnx.ModelProto:
    """Returns a copy of ``model`` that has ``names`` as outputs too."""
    observed = onnx.ModelProto()
    observed.CopyFrom(model)
    present = {output.name for output in model.graph.output}
    observed.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in present)
    return observed


def optimized_model(model: onnx.ModelProto, directory: Path, apart_from: Iterable[str]) -> onnx.ModelProto:
    """Returns ``model`` after onnxruntime's basic optimisations but ``apart_from``; its constants are in ``directory``.

    Raises:
        Exception: whatever onnxruntime raises if it cannot load the model.
    """
    path = directory / "folded.onnx"
    options = _options(onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC)
    options.optimized_model_filepath = str(path)
    entry = "session.optimized_model_external_initializers"
    options.add_session_config_entry(f"{entry}_file_name", _FOLDED_FILE)
    options.add_session_config_entry(f"{entry}_min_size_in_bytes", str(4 * LARGE + 1))
    _session(model, options, disabled_optimizers=list(apart_from))
    result = onnx.load(path, load_external_data=False)
    for tensor in result.graph.initializer:
        if is_external(tensor):
            set_location(tensor, {"location": str(directory / _FOLDED_FILE)})
    return result


def _options(optimization: onnxruntime.GraphOptimizationLevel | None, threads: int = 0) -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.enable_cpu_mem_arena = False
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.disable_prepacking", "1")
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if optimization is not None:
        options.graph_optimization_level = optimization
    return options


def _session(
    model: onnx.ModelProto, options: onnxruntime.SessionOptions, **settings: Any
) -> onnxruntime.InferenceSession:
    """A session: places must be relative to a folder, and one folder for all."""
    named = onnx.ModelProto()
    named.CopyFrom(model)
    folders = set()
    for tensor in named.graph.initializer:
        if is_external(tensor):
            path = Path(next(entry.value for entry in tensor.external_data if entry.key == "location"))
            folders.add(str(path.parent))
            set_location(tensor, {"location": path.name})
    if folders:
        (folder,) = folders
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
    return onnxruntime.InferenceSession(
        named.SerializeToString(), options, providers=["CPUExecutionProvider"], **settings
    )
