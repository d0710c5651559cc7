"""Where a report's numbers come from: versions, and files by their SHA-256; importing this loads no compiler."""

import functools
import hashlib
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pydantic
from pydantic import ConfigDict

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import accelerator_id
from accel.report.documents.report_documents import DocumentSource, Provenance, Versions
from accel.util.content_cache import installed_version, sources_digest


class Sources(pydantic.BaseModel):
    """The files that a run is of, by the SHA-256 of their bytes as their user has them; None: there is none.

    Attributes:
        model: the ONNX file.
        program: the Program file.
        document: the accelerator's document, as it was uploaded or given; of a preset the file in the package.
        label: what the user calls the document.
        inputs: the npz file of the inputs.
        calibration: the npz file of the calibration samples.
    """

    model_config = ConfigDict(frozen=True)

    model: str | None = None
    program: str | None = None
    document: str | None = None
    label: str | None = None
    inputs: str | None = None
    calibration: str | None = None


NO_SOURCES = Sources()
"""Of a run whose files nobody named."""


def provenance(
    sources: Sources, accelerator: Accelerator, options: Mapping[str, Any], cpu: str | None = None
) -> Provenance:
    """Returns the report's part that names the versions, files and options of a run."""
    return Provenance(
        versions=versions(),
        cpu=cpu,
        model=sources.model,
        program=sources.program,
        accelerator=DocumentSource(
            name=accelerator.name,
            title=accelerator.title,
            label=sources.label,
            sha256=sources.document,
            id=accelerator_id(accelerator),
        ),
        inputs=sources.inputs,
        calibration=sources.calibration,
        options=dict(options),
    )


@functools.cache
def versions() -> Versions:
    """Returns the versions of this process, which do not change while it lives."""
    names = {"cyclops": "cyclops", "tvm": "apache-tvm", "onnxruntime": "onnxruntime", "onnx": "onnx", "numpy": "numpy"}
    return Versions(
        **{key: installed_version(name) for key, name in names.items()},
        sources=sources_digest(),
        python=platform.python_version(),
        machine=platform.machine(),
    )


def with_model(sources: Sources, model: bytes | Path) -> Sources:
    """Returns the sources with the model's digest, if it was not known.

    Raises:
        OSError: it cannot be read.
    """
    if sources.model is not None:
        return sources
    digest = hashlib.sha256(model).hexdigest() if isinstance(model, bytes) else file_digest(model)
    return sources.model_copy(update={"model": digest})


def file_digest(path: Path) -> str:
    """Returns the SHA-256 of a file's bytes, in hexadecimal digits.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
