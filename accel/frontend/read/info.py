"""What is said of an uploaded model; importing this does not load onnx."""

from collections.abc import Sequence
from typing import Literal

import pydantic
from pydantic import Field


class ModelTensor(pydantic.BaseModel):
    """An input or output of a model as uploaded."""

    name: str
    dtype: str
    shape: tuple[int | str | None, ...] = Field(
        description="an extent for each axis; of a dynamic axis its name, or null if it has none", examples=[[1, 3, 32]]
    )


class TensorInfo(ModelTensor):
    """A tensor of known extents."""

    shape: tuple[int, ...]


class ModelContents(pydantic.BaseModel):
    """What is in a model. ``operators`` counts the nodes of each type; ``parameters`` the elements of the constants."""

    format: Literal["float", "qdq"]
    opset: int
    inputs: Sequence[ModelTensor]
    outputs: Sequence[ModelTensor]
    operators: dict[str, int]
    nodes: int
    macs: int | None = Field(
        description="multiply-accumulates, with 1 for every dynamic axis; null if the model does not work so"
    )
    parameters: int


class ModelInfo(ModelContents):
    """What is in a model once its axes are set. ``unset`` says which of them are 1 because nothing set them."""

    inputs: list[TensorInfo]
    outputs: list[TensorInfo]
    macs: int
    unset: tuple[str, ...] = ()
