"""All of the folding, in its order."""

import onnx

from accel.frontend.folding.alone import fold_alone
from accel.frontend.folding.linear import fold_ahead, fold_behind
from accel.frontend.folding.network import Network
from accel.frontend.folding.products import straighten_products
from accel.frontend.folding.sums import split_sums


def fold_layers(model: onnx.ModelProto) -> None:
    """Fold biases, scales and batch norms into layers of ``model``, a float model of named nodes, in place.

    What each node left computes of the user's nodes is for ``note_covers`` to find.
    """
    network = Network(model)
    split_sums(network)
    straighten_products(network)
    fold_behind(network)
    fold_ahead(network)
    fold_behind(network)
    fold_alone(network)
    network.finish()
