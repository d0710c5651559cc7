"""Inspection of uploads and dry runs in confined processes: the api opens no upload and loads no compiler."""

import contextlib
import functools
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import pydantic

from accel.accelerator.document import Accelerator
from accel.accelerator.text.document_text import MAX_BYTES
from accel.frontend.read.model_info import ModelContents
from accel.report.compare.changed_documents import ChangedDocument, ChangedDocuments
from worker.config.settings import Settings
from worker.execution.job_inputs import ModelJobInputs
from worker.inspection.task_arguments import (
    Derivation,
    ModelFiles,
    NamedFile,
    NoArguments,
    PackedProgram,
    PlanInputs,
    UploadedFile,
)
from worker.process.scratch import scratch_directory
from worker.records.uploads import ProgramContents, TensorsContents
from worker.sandbox.confined_tasks import MOST_BYTES, ConfinedTasks
from worker.sandbox.confinement_status import Confinement
from worker.sandbox.fork_client import ForkClient

Document = TypeVar("Document", bound=pydantic.BaseModel)
_KEPT_CHANGES = 8  # lists of changed documents, each of a megabyte or less


class Inspector:
    """Inspects uploads. Thread-safe; it does not limit how many run at once.

    Args:
        settings: the limits and directories.
        light: the server of ``worker.inspection.upload_tasks``.
        compiler: the server of ``worker.inspection.compiler_tasks``.
    """

    def __init__(self, settings: Settings, light: ForkClient, compiler: ForkClient) -> None:
        self._settings = settings
        self._light = ConfinedTasks(settings, light)
        self._compiler = ConfinedTasks(settings, compiler)
        self._changes: dict[str, list[ChangedDocument]] = {}  # of the documents that were asked for last

    def model(self, files: Sequence[NamedFile], directory: Path) -> tuple[Path, ModelContents]:
        """Returns one ONNX file with the whole model, and its contents.

        Args:
            files: one ONNX file, one zip, or an ONNX file and its external data.
            directory: the directory of the new file, unless the model is one file already.

        Raises:
            LimitError: the inspection exceeded its time or memory, or its process died.
            RefusedError: the upload cannot be used.
        """
        made = directory.resolve() / "model.onnx"
        given = [file.model_copy(update={"path": file.path.resolve()}) for file in files]
        answer = self._light.ask(
            "model",
            ModelFiles(files=given, model=made),
            directory,
            seconds=self._settings.inspection_seconds,
            readable=[file.path for file in given],
        )
        # its process is gone: nobody changes the file any more
        path = made if made.is_file() and not made.is_symlink() else given[0].path
        return path, ModelContents.model_validate_json(answer)

    def tensors(self, path: Path) -> TensorsContents:
        """Returns the contents of an npz file.

        Raises:
            LimitError, RefusedError: as :meth:`model`.
        """
        return self._file("tensors", path, TensorsContents)

    def accelerator(self, path: Path) -> Accelerator:
        """Returns the accelerator of a JSON or YAML document.

        Raises:
            LimitError, RefusedError: as :meth:`model`.
        """
        return self._file("accelerator", path, Accelerator, most_bytes=MAX_BYTES)

    def changes(self, document: bytes) -> list[ChangedDocument]:
        """Returns the changed documents of an accelerator's document, with which a model can be compiled anew.

        Raises:
            LimitError, RefusedError: as :meth:`model`.
        """
        digest = hashlib.sha256(document).hexdigest()
        found = self._changes.get(digest)
        if found is None:
            with self._directory() as directory:
                path = directory / "accelerator.json"
                path.write_bytes(document)
                found = self._file("changes", path, ChangedDocuments).changes
            kept = list(self._changes.items())[1 - _KEPT_CHANGES :]
            self._changes = {**dict(kept), digest: found}  # replaced as a whole: others read it meanwhile
        return found

    def derived(self, document: bytes, keys: dict[str, Any], name: str | None) -> Accelerator:
        """Returns the accelerator of a document's configuration with some keys set.

        Raises:
            LimitError, RefusedError: as :meth:`model`.
        """
        with self._directory() as directory:
            path = directory / "accelerator.json"
            path.write_bytes(document)
            answer = self._light.ask(
                "derived",
                Derivation(path=path.resolve(), keys=keys, name=name),
                directory,
                seconds=self._settings.inspection_seconds,
                readable=[path],
                most_bytes=MAX_BYTES,
            )
        return Accelerator.model_validate_json(answer)

    def program(self, path: Path, directory: Path) -> tuple[Path, ProgramContents]:
        """Returns a Program file in ``directory``, made from a Program file or a zip of parts, and its contents.

        Raises:
            LimitError, RefusedError: as :meth:`model`.
        """
        packed = PackedProgram(path=path.resolve(), program=directory.resolve() / "program.zip")
        answer = self._compiler.ask(
            "program", packed, directory, seconds=self._settings.inspection_seconds, readable=[path]
        )
        # its process is gone: nobody changes the file any more
        if packed.program.is_symlink() or not packed.program.is_file():
            raise RuntimeError("the process that opened a program left no file")
        return packed.program, ProgramContents.model_validate_json(answer)

    @functools.cached_property
    def confinement(self) -> Confinement:
        """The confinement of inspection processes on this machine, as one of them reports it."""
        with self._directory() as directory:
            answer = self._light.ask("confinement", NoArguments(), directory, seconds=self._settings.inspection_seconds)
        return Confinement.model_validate_json(answer)

    def _file(self, task: str, path: Path, document: type[Document], most_bytes: int = MOST_BYTES) -> Document:
        with self._directory() as directory:
            answer = self._light.ask(
                task,
                UploadedFile(path=path.resolve()),
                directory,
                seconds=self._settings.inspection_seconds,
                readable=[path],
                most_bytes=most_bytes,
            )
        return document.model_validate_json(answer)

    def _directory(self) -> contextlib.AbstractContextManager[Path]:
        self._settings.scratch_dir.mkdir(parents=True, exist_ok=True)
        return scratch_directory(self._settings.scratch_dir, "inspection")


class Planner:
    """Makes plans by dry runs. Thread-safe; it does not limit how many run at once.

    ``compiler`` is the server of ``worker.inspection.compiler_tasks``.
    """

    def __init__(self, settings: Settings, compiler: ForkClient) -> None:
        self._seconds = settings.plan_seconds
        self._tasks = ConfinedTasks(settings, compiler)

    def plan(self, work: ModelJobInputs, scratch: Path) -> bytes:
        """Returns the plan as JSON; ``scratch`` holds the process's files, and may hold the inputs.

        Raises:
            LimitError: it needs more than the settings allow, or its process died.
            RefusedError: an input cannot be used.
        """
        inputs = PlanInputs(
            model=work.model.resolve(),
            accelerator=work.accelerator,
            options=work.options,
            calibration=work.calibration and work.calibration.resolve(),
            sources=work.sources,
        )
        readable = [path for path in (work.model, work.calibration) if path]
        return self._tasks.ask("plan", inputs, scratch, seconds=self._seconds, readable=readable)
