"""Norms and scales by channel that follow no layer: each becomes a convolution of its own, depthwise, 1 x 1.

So they are quantised and run as any layer, with the relu behind them.
"""

import numpy as np
import onnx
from onnx import helper

from accel.frontend.folding.affine import OPERATORS, Run, run_from
from accel.frontend.folding.network import Network

_LAYERS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
_BETWEEN = ("AveragePool", "Clip", "Concat", "Dropout", "Flatten", "GlobalAveragePool", "MaxPool", "Relu", "Reshape")
_PLACES = (3, 4)  # axes of lines and images


def fold_alone(network: Network) -> None:
    """Make layers of what is left of such nodes.

    What works on an input of the model stays: the host quantises that anyway, and does so more exactly afterwards. So
    does what meets no layer on either side.
    """
    done: set[str] = set()
    for node in list(network.nodes):
        run = _starting(network, node) if node.op_type in OPERATORS and node.name not in done else None
        if run is None:
            continue
        done.update(other.name for other in run.nodes)
        if run.source in network.inputs or (run.uniform and _is_arithmetic(run)):
            continue
        if _meets_layer(network, run.source, ahead=False) or _meets_layer(network, run.result, ahead=True):
            network.replace(run.nodes, [_depthwise(network, run)])


def _starting(network: Network, node: onnx.NodeProto) -> Run | None:
    """The run over the channels of a line or an image that begins with ``node``."""
    for source in node.input:
        if not network.is_constant(source) and len(network.shapes.get(source, ())) in _PLACES:
            return run_from(network, node, str(source), 1)
    return None


def _depthwise(network: Network, run: Run) -> onnx.NodeProto:
    channels, rank = len(run.affine.scale), len(network.shapes[run.source])
    name = run.nodes[0].name
    kernel = [1] * (rank - 2)
    weight = network.add_constant(run.affine.scale.astype(np.float32).reshape(-1, 1, *kernel), f"{name}_weight")
    bias = network.add_constant(run.affine.shift.astype(np.float32), f"{name}_bias")
    inputs, outputs = [run.source, weight, bias], [run.result]
    return helper.make_node("Conv", inputs, outputs, name=name, group=channels, kernel_shape=kernel)


def _meets_layer(network: Network, name: str, *, ahead: bool) -> bool:
    """Whether a layer reads the tensor, or makes it, with nothing between but what keeps integers as they are."""
    pending, seen = [name], {name}
    while pending:
        at = pending.pop()
        maker = network.maker(at)
        for node in network.readers(at) if ahead else [maker] if maker is not None else []:
            if node.op_type in _LAYERS:
                return True
            more = [other for other in (node.output if ahead else node.input) if other not in seen]
            if node.op_type in _BETWEEN:
                pending += more
                seen.update(more)
    return False


def _is_arithmetic(run: Run) -> bool:
    """Numbers for the whole tensor, which are not what a layer is for."""
    return all(node.op_type != "BatchNormalization" for node in run.nodes)
