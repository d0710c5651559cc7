"""``cyclops run --changes``: the model compiled anew for each change of the accelerator's document, as a table."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from accel.catalog.load_accelerator import load_accelerator
from accel.errors import CyclopsError
from accel.report.compare.changed_documents import ChangedDocument, changed_documents
from service.cli.local.local_run import InternalFailureError, run_to_report
from service.cli.report_tables import print_title
from worker.config.settings import Settings
from worker.execution.job_inputs import ModelJobInputs


def print_changes(
    work: ModelJobInputs, report: dict[str, Any], settings: Settings, out: Path | None, cache: Path | None
) -> None:
    """Compiles the model for each changed document, and prints what that gains; one that fails says so in its row.

    Args:
        work: the run that has ended.
        report: its report.
        settings: those of the environment.
        out: where ``changes/NAME`` has the artifacts of each; None: nowhere.
        cache: where compiled functions are kept.

    Raises:
        CyclopsError: a directory cannot be written.
    """
    known = changed_documents(load_accelerator(str(work.accelerator)))
    rows = []
    for change in (each for each in known if each.refused is None):
        with _place(out, change.name) as directory:
            path = directory / "changed.json"
            path.write_text(str(change.document), encoding="utf-8")
            rows.append(
                _row(change, report["cycles"], replace(work, accelerator=str(path)), settings, directory, cache)
            )
    console, table = Console(), Table()
    print_title("compiled anew for a changed document", console)
    table.add_column("with", overflow="fold")
    table.add_column("name", overflow="fold")
    table.add_column("cycles", justify="right")
    table.add_column("saved", justify="right")
    for _, *cells in sorted(rows, key=lambda row: -row[0]):
        table.add_row(*cells)
    console.print(table)
    for change in known:
        if change.refused is not None:
            console.print(f"{change.name} cannot be: {change.refused}", markup=False, highlight=False, soft_wrap=True)


@contextmanager
def _place(out: Path | None, name: str) -> Iterator[Path]:
    if out is None:
        with tempfile.TemporaryDirectory(prefix="cyclops-change-") as directory:
            yield Path(directory)
        return
    place = out / "changes" / name
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CyclopsError(f"{place} cannot be a directory: {error.strerror}", field="out") from error
    yield place


def _row(
    change: ChangedDocument,
    before: int | None,
    work: ModelJobInputs,
    settings: Settings,
    directory: Path,
    cache: Path | None,
) -> tuple[float, str, str, str, str]:
    """The gain, by which rows are sorted, and the cells."""
    try:
        report = json.loads(run_to_report(work, settings, directory, cache, None, lambda _stage: None))
    except (CyclopsError, MemoryError) as error:
        return float("-inf"), change.change, change.name, "", f"failed: {getattr(error, 'detail', error)}"
    except InternalFailureError as error:
        return float("-inf"), change.change, change.name, "", f"failed: {error.problem.detail}"
    cycles = report["cycles"]
    if not before or cycles is None:
        return 0.0, change.change, change.name, "" if cycles is None else f"{cycles:,}", ""
    gain = 1 - cycles / before
    wrong = "; its outputs are wrong" if report["verified"] is False else ""
    return gain, change.change, change.name, f"{cycles:,}", f"{gain:.1%}{wrong}"
