"""The status of each mechanism of confinement, as ``GET /v1/about`` shows it."""

import pydantic
from pydantic import Field


class Mechanism(pydantic.BaseModel):
    """One mechanism of the system."""

    model_config = pydantic.ConfigDict(frozen=True)

    active: bool
    detail: str = Field(description="what it does, or why it is not there")


class Confinement(pydantic.BaseModel):
    """What keeps a process that works on uploads from everything else, each where the system has it."""

    model_config = pydantic.ConfigDict(frozen=True)

    limits: Mechanism = Field(description="limits of memory, processor time, files and processes (setrlimit)")
    descriptors: Mechanism = Field(description="connections and files that its parent had open")
    namespaces: Mechanism = Field(description="a network, a user and System V queues of its own (namespaces)")
    privileges: Mechanism = Field(description="no capabilities, and no program that brings any (no_new_privs)")
    files: Mechanism = Field(description="files and directories other than those of the job (Landlock)")
    calls: Mechanism = Field(description="system calls that no job needs (seccomp)")
