"""The index of a job's dumps as a document: which passes ran in each stage, and which of them left a text."""

import pydantic
from pydantic import Field

PASSES_FILE = "passes.json"


class DumpedPass(pydantic.BaseModel):
    """A TVM pass within a stage."""

    name: str = Field(examples=["s_tir.CompactBufferAllocation"])
    file: str | None = Field(description="of the module's text after it; null: it changed nothing")


class DumpedStage(pydantic.BaseModel):
    """A stage, and the passes within it in order."""

    name: str = Field(examples=["flatten"])
    file: str = Field(description="of the text after it", examples=["05-flatten.txt"])
    passes: list[DumpedPass]


class DumpIndex(pydantic.BaseModel):
    """The stages that were dumped, in order."""

    stages: list[DumpedStage]
