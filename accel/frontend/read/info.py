"""What is said of an uploaded model; importing this does not load onnx."""

from typing import Literal

import pydantic


class TensorInfo(pydantic.BaseModel):
    """An input or output of the model."""

    name: str
    dtype: str
    shape: tuple[int, ...]


class ModelInfo(pydantic.BaseModel):
    """What is in a model. ``operators`` counts the nodes of each type; ``parameters`` the elements of the constants."""

    format: Literal["float", "qdq"]
    opset: int
    inputs: list[TensorInfo]
    outputs: list[TensorInfo]
    operators: dict[str, int]
    nodes: int
    macs: int
    parameters: int
