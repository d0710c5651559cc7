"""A report as a table for people."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

Report = Mapping[str, Any]


def print_report(report: Report, console: Console) -> None:
    """Print the layers, the host operators, and whether the outputs are right."""
    print_title(f"{accelerator_named(report)}: {report['cycles']:,} cycles", console)
    console.print(_layers(report))
    for op in report["host_ops"]:
        console.print(
            f"on the host: {op['node']} ({op['op']}): {op['reason']}", markup=False, highlight=False, soft_wrap=True
        )
    if report.get("energy_pj") is not None:
        console.print(energy_line(report["energy_pj"]), highlight=False)
    for warning in report.get("warnings", ()):
        if warning["kind"] in {"not-verified", "no-quality", "unset-axis"}:
            console.print(f"warning: {warning['detail']}", markup=False, highlight=False, soft_wrap=True)
    console.print(_verdict(report), style="bold")


def energy_line(picojoules: float) -> str:
    """The energy of a run in words."""
    return f"energy: {picojoules:,.0f} pJ, of the instructions whose energy the accelerator says"


def accelerator_named(report: Report) -> str:
    """Returns the accelerator's name, and behind it what the user calls its document where that is something else."""
    name: str = report["accelerator"]
    label = report.get("provenance", {}).get("accelerator", {}).get("label")
    return name if label in {None, name} else f"{name} ({label})"


def print_title(text: str, console: Console) -> None:
    """Print the line above a table, which may be wider than the table."""
    console.print(text, style="table.title", markup=False, highlight=False, soft_wrap=True)


def _layers(report: Report) -> Table:
    total = report["cycles"]
    table = Table()
    table.add_column("layer", overflow="fold")
    table.add_column("op")
    for heading in ("cycles", "share", "GEMM utilisation", "bytes moved"):
        table.add_column(heading, justify="right")
    for layer in report["layers"]:
        table.add_row(
            layer["name"],
            layer["op"],
            f"{layer['cycles']:,}",
            f"{layer['cycles'] / total:.1%}" if total else "",
            f"{layer['utilisation']:.1%}",
            f"{layer['bytes_read'] + layer['bytes_written']:,}",
        )
    return table


def _verdict(report: Report) -> str:
    if report["verified"] is None:
        return "NOT verified" if report["layers"] else "nothing to verify: the accelerator did no work"
    if report["verified"]:
        return "verified: the outputs equal the reference, bit by bit"
    return "the outputs DIFFER from the reference"
