"""``cyclops compare``: two runs side by side, from their folders, report files, or jobs of a service."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from accel.errors import CyclopsError, InvalidReport
from accel.report.compare.comparison import MOST_BYTES, Run, compare_runs, read_document, read_report
from accel.report.documents.comparison_documents import CauseDifference, ComparedRun, Comparison
from accel.report.documents.report_documents import FieldDifference
from service.cli.remote_runs import Services, fetch_run, job_address
from service.cli.report_tables import print_title
from worker.records.problem_details import problem_of

_MOST_ROWS = 30  # layers and fields that are shown; --json has all
_REFUSED = 2
_LONGEST = 60  # characters of a value


def compare_local(a: str, b: str, services: Services, console: Console, errors: Console, *, as_json: bool) -> int:
    """Compare two runs, each its ``--out`` folder, a ``report.json`` or a job of a service; gives the exit code."""
    try:
        found = compare_runs(_run(a, services, "a"), _run(b, services, "b"))
    except CyclopsError as error:
        if as_json:
            sys.stdout.write(problem_of(error).model_dump_json(indent=2) + "\n")
        else:
            _say(errors, f"cyclops: {error.title} [{error.field}] {error.detail}")
        return _REFUSED
    if as_json:
        sys.stdout.write(found.model_dump_json(indent=2) + "\n")
    else:
        print_comparison(found, console)
    return 0


def _run(text: str, services: Services, field: str) -> Run:
    path = Path(text)
    if not path.exists() and (address := job_address(text, services.url, field)) is not None:
        return fetch_run(address, services, field)
    report = path / "report.json" if path.is_dir() else path
    return Run(read_report(_read(report, field), field), _document(report.with_name("accelerator.json"), field))


def _read(path: Path, field: str) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MOST_BYTES + 1)
    except OSError as error:
        given = "give the folder that --out of a run named, its report.json, or a job's id or address"
        raise InvalidReport(f"{path} cannot be read: {error.strerror}; {given}", field=field) from error


def _document(path: Path, field: str) -> Any | None:
    return read_document(_read(path, field), field) if path.is_file() else None


def print_comparison(found: Comparison, console: Console) -> None:
    """Print what differs: both runs, documents and origins, causes in total, and layers."""
    print_title(_change(found), console)
    console.print(_run_table(found.a, found.b))
    if found.document_left_out:
        _say(console, f"the accelerators' documents were not compared: {found.document_left_out}")
    _print_fields(console, "the accelerators' documents", found.document or [])
    _print_fields(console, "the origins", found.provenance)
    if found.causes:
        console.print(_cause_table([cause for cause in found.causes if cause.difference]))
    console.print(_layer_table(found))
    if len(found.layers) > _MOST_ROWS:
        _say(console, f"and {len(found.layers) - _MOST_ROWS:,} more layers; --json has them")
    for which, nodes in (("a", found.host_only_a), ("b", found.host_only_b)):
        if nodes:
            _say(console, f"on the host in {which} alone: {', '.join(nodes)}")


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def _change(found: Comparison) -> str:
    if found.difference is None or not found.a.cycles:
        return "a run that was not timed has no cycles to compare"
    share = found.difference / found.a.cycles
    words = "as many cycles" if not found.difference else f"{found.difference:+,} cycles ({share:+.1%})"
    return f"from a to b: {words}"


def _run_table(a: ComparedRun, b: ComparedRun) -> Table:
    table = Table()
    for heading in ("", "a", "b"):
        table.add_column(heading, justify="right" if heading else "left")
    rows: dict[str, Callable[[ComparedRun], str]] = {
        "accelerator": lambda run: run.label or run.accelerator,
        "verified": lambda run: {True: "yes", False: "NO", None: "not compared"}[run.verified],
        "cycles": lambda run: _number(run.cycles),
        "milliseconds": lambda run: "" if run.seconds is None else f"{run.seconds * 1e3:,.3f}",
        "end to end, milliseconds (modelled)": _end_to_end,
        "bytes read": lambda run: _number(run.bytes_read),
        "bytes written": lambda run: _number(run.bytes_written),
        "instructions": lambda run: _number(run.instructions),
        "energy, pJ": _energy,
    }
    if not _energy(a) and not _energy(b):
        del rows["energy, pJ"]
    if not _end_to_end(a) and not _end_to_end(b):
        del rows["end to end, milliseconds (modelled)"]
    for name, text in rows.items():
        table.add_row(name, _plain(text(a)), _plain(text(b)))
    return table


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _plain(text: str) -> str:
    """The text, which may be a user's, without rich's markup."""
    return text.replace("[", "\\[")


def _energy(run: ComparedRun) -> str:
    """Returns the energy of the whole run, with what it lacks; of an earlier version's the instructions'."""
    if run.energy is None:
        return "" if run.energy_pj is None else f"{run.energy_pj:,.0f}"
    lacking = f" without {' and '.join(run.energy.unknown)}" if run.energy.unknown else ""
    return f"{run.energy.total:,.0f}{lacking}"


def _end_to_end(run: ComparedRun) -> str:
    """The time with the host; empty where it is not modelled."""
    found = run.end_to_end
    return "" if found is None or not found.modelled else f"{found.seconds * 1e3:,.3f}"


def _print_fields(console: Console, what: str, fields: list[FieldDifference]) -> None:
    if not fields:
        return
    _say(console, f"{what} differ:")
    for each in fields[:_MOST_ROWS]:
        _say(console, f"  {each.field}: {_short(each.before)} -> {_short(each.after)}")
    if len(fields) > _MOST_ROWS:
        _say(console, f"  and {len(fields) - _MOST_ROWS:,} more; --json has them")


def _short(value: Any) -> str:
    text = str(value["name"]) if isinstance(value, dict) and "name" in value else str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _cause_table(causes: list[CauseDifference]) -> Table:
    table = Table()
    table.add_column("where cycles went")
    table.add_column("cause", overflow="fold")
    for heading in ("a", "b", "difference"):
        table.add_column(heading, justify="right")
    for cause in causes:
        table.add_row(cause.category, _plain(cause.cause), f"{cause.a:,}", f"{cause.b:,}", f"{cause.difference:+,}")
    return table


def _layer_table(found: Comparison) -> Table:
    table = Table()
    table.add_column("layer", overflow="fold")
    for heading in ("a", "b", "difference"):
        table.add_column(heading, justify="right")
    table.add_column("most of it", overflow="fold")
    for layer in found.layers[:_MOST_ROWS]:
        main = layer.main_cause
        table.add_row(
            _plain(layer.name),
            f"{layer.a.cycles:,}" if layer.a else "not there",
            f"{layer.b.cycles:,}" if layer.b else "not there",
            f"{layer.difference:+,}",
            _plain(f"{main.category}: {main.cause} {main.difference:+,}") if main and layer.a and layer.b else "",
        )
    return table
