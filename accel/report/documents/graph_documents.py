"""The graph of a job's model as a document: nodes as the uploader wrote them, and the tensors between them."""

import pydantic
from pydantic import Field

GRAPH_FILE = "graph.json"


class GraphTensor(pydantic.BaseModel):
    """A tensor that an input or a node gives."""

    shape: list[int] | None = Field(
        description="null where shape inference does not know it", examples=[[1, 16, 32, 32]]
    )
    type: str | None = Field(description="type of its elements", examples=["float32"])
    bytes: int | None = Field(description="of the whole tensor, in the model as uploaded")


class GraphNode(pydantic.BaseModel):
    """A node."""

    name: str
    op: str = Field(examples=["Conv"])
    covers: list[str] = Field(description="nodes that it computes, as `layers` and `host_ops` of the report name them")
    inputs: list[str] = Field(description="tensors of other nodes, and inputs of the model, that it reads")
    outputs: list[str]
    constants: int = Field(description="bytes of constants that it reads")


class ModelGraph(pydantic.BaseModel):
    """The model as uploaded, with the axes of the job; without its constants."""

    inputs: list[str]
    outputs: list[str]
    tensors: dict[str, GraphTensor]
    nodes: list[GraphNode] = Field(description="in the model's order")
