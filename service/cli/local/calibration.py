"""``cyclops calibrate``: a document beside recordings of hardware, in this process."""

import sys
from pathlib import Path

from rich.console import Console
from rich.table import Column, Table

from accel.catalog.load_accelerator import load_accelerator
from accel.errors import CyclopsError
from accel.isa.recorded.calibration import CalibratedStream, Calibration, calibrate, with_calibration
from accel.isa.recorded.recordings import read_recordings
from service.cli.local.local_run import print_error

_WORST = 10  # streams that are listed


def calibrate_local(folder: Path, accelerator: str, document: Path | None, *, as_json: bool) -> int:
    """Print how near the accelerator comes to the recordings; gives the exit code.

    Args:
        folder: the recordings.
        accelerator: a name, or the path of a document.
        document: the file that gets the accelerator's document with the comparison in it; None: none.
        as_json: print the comparison as JSON.
    """
    errors = Console(stderr=True)
    status = errors.status("starting") if errors.is_terminal else None

    def tell(run: int, runs: int) -> None:
        if status is not None:
            status.update(f"run {run + 1} of {runs}")

    try:
        compared = load_accelerator(accelerator)
        recordings = read_recordings(folder)
        if status is None:
            found = calibrate(compared, recordings)
        else:
            with status:
                found = calibrate(compared, recordings, tell)
        if document is not None:
            text = with_calibration(compared, found, folder).model_dump_json(indent=2) + "\n"
            document.write_text(text, encoding="utf-8")
    except OSError as error:
        unusable = CyclopsError(f"{error.filename or 'a file'} cannot be used: {error.strerror or error}")
        return print_error(unusable, errors, as_json=as_json)
    except CyclopsError as error:
        return print_error(error, errors, as_json=as_json)
    if as_json:
        sys.stdout.write(found.model_dump_json(indent=2) + "\n")
    else:
        _print(found, Console())
    return 0


def _print(found: Calibration, console: Console) -> None:
    console.print(
        f"{found.accelerator}: exact on {found.exact:,} of {found.of:,} runs; error {found.median_percent:.2f}% in the "
        f"middle, {found.p90_percent:.2f}% at 90 of 100, {found.worst_percent:.2f}% at worst",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    table = Table("kind", *[_right(name) for name in ("latency", "runs", "exact", "median", "p90", "worst")])
    for each in found.kinds:
        percents = [f"{value:.2f}%" for value in (each.median_percent, each.p90_percent, each.worst_percent)]
        table.add_row(each.kind, str(each.latency), f"{each.of:,}", f"{each.exact:,}", *percents)
    console.print(table)
    worst = sorted((run for run in found.streams if run.cycles != run.expected), key=lambda run: -run.percent)
    if not worst:
        return
    watched = any(run.departure is not None for run in worst)
    where = ", and the primitive instruction at which each first departs" if watched else ""
    console.print(f"the worst runs{where}:", markup=False, highlight=False, soft_wrap=True)
    for run in worst[:_WORST]:
        console.print(f"  {_line(run)}", markup=False, highlight=False, soft_wrap=True)


def _right(name: str) -> Column:
    return Column(name, justify="right")


def _line(run: CalibratedStream) -> str:
    found = "cannot be run" if run.cycles < 0 else f"{run.cycles:,} cycles"
    text = f"{run.name}, latency {run.latency}: {found}, recorded {run.expected:,}"
    if run.why is not None:
        text += f": {run.why}"
    if run.departure is None:
        return text
    at, words = run.departure, " ".join(f"{word:#x}" for word in run.departure.words)
    if at.event == "words":
        return f"{text}; primitive {at.primitive} is another one than the recorded {words}"
    return f"{text}; primitive {at.primitive} ({words}) is {at.event} at {at.cycle:,}, recorded {at.expected:,}"
