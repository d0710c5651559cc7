"""Bounds on what a model may ask for. They are checked before anything is allocated by the model's word."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelLimits:
    """The bounds. A model at every one of them at once still fits a job's memory and time.

    Attributes:
        file_bytes: size of the file.
        nodes: operators in the graph; the import takes about 0.2 ms for each.
        steps: steps of a recurrent layer, and iterations of a loop, all of which are unrolled.
        parts: inputs, outputs and attributes of all nodes together with constants, inputs, outputs and stated shapes
            of the graph: each takes far more memory than bytes of the file.
        name_length: characters in a name of a node or tensor.
        rank: dimensions of a tensor.
        tensor_elements: elements of any one tensor.
        total_bytes: bytes of all tensors together, constants and intermediate results.
        macs: multiply-accumulates of the whole model.
    """

    file_bytes: int = 640 * 2**20
    nodes: int = 5000
    steps: int = 512
    parts: int = 2**17
    name_length: int = 512
    rank: int = 8
    tensor_elements: int = 2**27
    total_bytes: int = 4 * 2**30
    macs: int = 2**36


LIMITS = ModelLimits()
OPSETS = range(9, 29)  # of ONNX's own operators; up to the newest that the pinned onnx knows
NEWEST_IR_VERSION = 14  # that the pinned onnx knows
# the newest that the pinned onnxruntime loads: what is newer is brought down to them
RUNTIME_OPSET = 26
RUNTIME_IR_VERSION = 13
