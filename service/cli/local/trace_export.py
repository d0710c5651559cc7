"""``cyclops trace``: the trace that a run left, in another form."""

import os
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Literal

from rich.console import Console

from accel.errors import CyclopsError
from accel.report.compare.comparison import read_report
from accel.trace.perfetto.modelled_tracks import ModelledSpan
from accel.trace.perfetto.trace_window import TraceWindow
from accel.trace.program_trace import Trace
from service.jobs.job_report import modelled_spans

_DONE, _FAILED, _REFUSED = 0, 1, 2
Form = Literal["csv", "text", "perfetto"]
_Window = tuple[int, int, int | None]


def write_trace(directory: Path, form: Form, out: Path | None, window: _Window, clock_mhz: float | None = None) -> int:
    """Write the trace in ``directory`` to a file, or to standard output; gives the exit code.

    Args:
        directory: what ``--out`` of ``cyclops run`` named.
        form: the form.
        out: the file, or None.
        window: most events, first cycle, end cycle of a Perfetto document.
        clock_mhz: the clock of its times, or None.
    """
    try:
        pieces = _pieces(directory, form, window, clock_mhz)
        with nullcontext(sys.stdout.buffer) if out is None else out.open("wb") as file:
            file.writelines(pieces)
            file.flush()
    except BrokenPipeError:  # the reader has seen enough; what Python still holds goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _DONE
    except CyclopsError as error:
        return _print_error(f"[{error.field}] {error.detail}", _REFUSED)
    except OSError as error:
        return _print_error(f"{error.filename}: {error.strerror}", _FAILED)
    return _DONE


def _pieces(directory: Path, form: Form, window: _Window, clock_mhz: float | None) -> Iterator[bytes]:
    try:
        trace = Trace.load(directory)
    except OSError as error:
        raise CyclopsError(f"there is no trace.npz to read in {directory}: {error.strerror}", field="trace") from error
    if form == "perfetto":
        return trace.perfetto(TraceWindow(*window), clock_mhz=clock_mhz, modelled=_modelled(directory))
    return trace.csv() if form == "csv" else trace.text()


def _modelled(directory: Path) -> list[ModelledSpan]:
    """The end-to-end time of the report beside the trace; nothing where there is no such report."""
    try:
        report = read_report((directory / "report.json").read_bytes(), "report")
    except (OSError, CyclopsError):
        return []
    return [] if report.end_to_end is None else modelled_spans(report.end_to_end.model_dump())


def _print_error(message: str, code: int) -> int:
    Console(stderr=True).print(f"cyclops: {message}", markup=False, highlight=False, soft_wrap=True)
    return code
