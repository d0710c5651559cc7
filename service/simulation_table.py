"""The report of a simulated program, for people."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from service.table import accelerator_named, energy_line, print_title

Report = Mapping[str, Any]


def print_simulation(report: Report, console: Console) -> None:
    """Print the cycles, the units, the findings in words, and how far to trust the numbers."""
    print_title(_title(report), console)
    if report["units"]:
        console.print(_units(report), highlight=False)
    for line in _lines(report):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    console.print(_verdict(report), style="bold", highlight=False, soft_wrap=True)


def _title(report: Report) -> str:
    counted = "cycles not counted" if report["cycles"] is None else f"{report['cycles']:,} cycles"
    return f"{accelerator_named(report)}: {counted}, {report['program']['instructions']:,} instructions"


def _units(report: Report) -> Table:
    table = Table()
    table.add_column("unit")
    for heading in ("instructions", "busy", "share"):
        table.add_column(heading, justify="right")
    table.add_column("waited for", no_wrap=True)
    for heading in ("cycles", "idle"):
        table.add_column(heading, justify="right")
    for name, unit in report["units"].items():
        share = f"{unit['busy'] / report['cycles']:.1%}" if report["cycles"] else ""
        causes = sorted(unit["stalled"].items(), key=lambda item: -item[1])
        waits = "\n".join(cause for cause, _ in causes), "\n".join(f"{cycles:,}" for _, cycles in causes)
        table.add_row(name, f"{unit['instructions']:,}", f"{unit['busy']:,}", share, *waits, f"{unit['idle']:,}")
    return table


def _lines(report: Report) -> Iterator[str]:
    yield f"DRAM: {report['bytes_read']:,} bytes read, {report['bytes_written']:,} written"
    if report.get("energy_pj") is not None:
        yield energy_line(report["energy_pj"])
    left = {name: count for name, count in (report["tokens"] or {}).items() if count}
    if left:
        yield "tokens left over: " + ", ".join(f"{count} {name}" for name, count in left.items())
    for warning in report["warnings"]:
        yield f"warning: {warning['detail']}"
    for race in report["races"]:
        yield f"race: {race['detail']}"
    yield from _more("races", report["race_count"] or 0, len(report["races"]))
    stale = report.get("stale_reads", [])
    for read in stale:
        yield f"{read['kind']}: {read['detail']}"
    yield from _more("stale reads", report.get("stale_read_count") or 0, len(stale))
    for item in report["mismatches"]:
        writer = "never stored" if item["instruction"] is None else f"stored by instruction {item['instruction']}"
        where = f"{item['tensor']}, DRAM byte {item['address']}"
        yield f"mismatch: {where}: {item['got']}, expected {item['expected']}, {writer}"
    yield from _more("mismatches", report["mismatch_count"], len(report["mismatches"]))
    yield f"timing: {report['timing_model']['statement']}"


def _more(kind: str, count: int, shown: int) -> Iterator[str]:
    if count > shown:
        yield f"and {count - shown:,} more {kind}"


def _verdict(report: Report) -> str:
    if report["verified"]:
        return "verified: memory holds what was expected, and no order of the units can change it"
    wrong = {
        "memory does not hold what was expected": report["mismatch_count"],
        "the result depends on how fast the units are": report["races"],
        "on this hardware an instruction may read what was there before": report.get("stale_reads"),
        "the program never says that it is done": report["verified"] is False,
    }
    for reason, found in wrong.items():
        if found:
            return f"NOT verified: {reason}"
    if report["engine"] == "timing":
        return "nothing was verified: only timing was asked for"
    races = "races were not looked for" if report["race_count"] is None else "no races"
    return f"nothing was verified: the program does not say what memory must hold; {races}"
