"""Reports as tables: of a compiled model's job, and of a simulated program."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from accel.report.documents.verdicts import EQUAL_DB, end_to_end_line, report_verdict, simulation_verdict, stream_line

Report = Mapping[str, Any]
_LISTED_HOST_OPS = 3  # nodes of one reason that have a line each


def print_report(report: Report, console: Console) -> None:
    """Print the layers, the host operators, and whether the outputs are right."""
    print_title(f"{accelerator_label(report)}: {_counted(report)}", console)
    console.print(_layer_table(report))
    for line in _end_to_end_lines(report):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    for line in (*_host_lines(report), *_accuracy_lines(report)):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    for line in (*dram_lines(report), *_attention_lines(report), *energy_lines(report)):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    for warning in report.get("warnings", ()):
        if warning["kind"] in {"not-verified", "no-quality", "unset-axis", "biased-rounding", "converted-floats"}:
            console.print(f"warning: {warning['detail']}", markup=False, highlight=False, soft_wrap=True)
    console.print(report_verdict(report), style="bold")


def _host_lines(report: Report) -> Iterator[str]:
    """What the host computes, and why: a line for each node, or one for many nodes of one reason."""
    by_reason: dict[str, list[Mapping[str, str]]] = {}
    for op in report["host_ops"]:
        by_reason.setdefault(op["reason"], []).append(op)
    for reason, ops in by_reason.items():
        if len(ops) <= _LISTED_HOST_OPS:
            yield from (f"on the host: {op['node']} ({op['op']}): {reason}" for op in ops)
            continue
        kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(op["op"] for op in ops).most_common())
        yield f"on the host: {len(ops)} nodes ({kinds}), {ops[0]['node']} among them: {reason}"


def _accuracy_lines(report: Report) -> Iterator[str]:
    """How near each output that differs is to the model as uploaded, and where most is lost."""
    different = [output for output in report.get("quantisation", ()) if output["sqnr_db"] < EQUAL_DB]
    for output in different:
        yield f"accuracy: {output['output']} is {output['sqnr_db']:.1f} dB from the model as uploaded (SQNR)"
    worst = report.get("most_lost")
    if worst is not None and different:
        maker = f"node {worst['node']}" if worst["node"] else "the input"
        yield (
            f"most is lost at {maker}: {worst['tensor']} is {worst['sqnr_db']:.1f} dB from the float network, "
            f"what it is made of {worst['before_db']:.1f} dB"
        )


def _end_to_end_lines(report: Report) -> Iterator[str]:
    """The time with the host, where launches were timed, and that of a stream of inputs, if one was run."""
    if report.get("end_to_end") is not None and report["cycles"]:
        yield end_to_end_line(report["end_to_end"])
    if report.get("stream") is not None:
        yield stream_line(report["stream"])


def dram_lines(report: Report) -> Iterator[str]:
    """Yields what a run moves over the bus, in words; nothing of a report of an earlier version."""
    dram = report.get("dram")
    if dram is not None and dram["ratio"] is not None:
        moved = f"DRAM: {dram['bytes_read']:,} bytes read, {dram['bytes_written']:,} written"
        compulsory = dram["compulsory_read"] + dram["compulsory_written"]
        yield f"{moved}; {dram['ratio']:.2f} times the {compulsory:,} that any schedule must move"
    if dram is not None and dram.get("on_chip"):
        saved = [each["bytes_not_read"] + each["bytes_not_written"] for each in dram["on_chip"]]
        yield f"on the chip from layer to layer: {len(saved)} tensors, {sum(saved):,} bytes that DRAM does not see"
    for each in () if dram is None else dram.get("depth_first", ()):
        layers = f"{len(each['launches'])} layers from {each['launches'][0]} on in {each['stripes']} stripes"
        moved = f"{each['dram_bytes']:,} bytes of DRAM instead of {each['layered_dram_bytes']:,} layer by layer"
        yield f"depth first: {layers}; {moved}, {each['cycles']:,} cycles instead of {each['layered_cycles']:,}"


def _attention_lines(report: Report) -> Iterator[str]:
    """How attention that may go over blocks of keys was placed, and what it takes either way."""
    for each in report.get("attention", ()):
        sides = []
        for side in ("fused", "unfused"):
            cycles = each[side]["cycles"]
            timed = "unknown cycles" if cycles is None else f"{cycles:,} cycles"
            sides.append(f"{side} {timed} and {each[side]['dram_bytes']:,} bytes of DRAM")
        yield f"attention {each['nodes'][0]} to {each['nodes'][-1]} is {each['chosen']}: {'; '.join(sides)}"


def energy_lines(report: Report) -> Iterator[str]:
    """Yields the energy of a run in words; nothing where the document gives no costs."""
    found = report.get("energy")
    if found is None:
        if report.get("energy_pj") is not None:
            yield f"energy: {report['energy_pj']:,.0f} pJ, of the instructions whose energy the accelerator says"
        return
    parts = {"instructions": found["instructions"], "DRAM": found["dram"], "host": found["host"]}
    known = {name: value for name, value in parts.items() if value is not None}
    shares = ", ".join(f"{name} {value:,.0f}" for name, value in known.items())
    told = f": {shares}" if len(known) > 1 else f", of {next(iter(known))} alone"
    lacking = " and ".join(name for name in parts if name not in known)
    yield f"energy: {found['total']:,.0f} pJ{told}" + (f"; no cost is given for {lacking}" if lacking else "")


def accelerator_label(report: Report) -> str:
    """Returns the accelerator's name, and behind it what the user calls its document where that is something else."""
    name: str = report["accelerator"]
    label = report.get("provenance", {}).get("accelerator", {}).get("label")
    return name if label in {None, name} else f"{name} ({label})"


def print_title(text: str, console: Console) -> None:
    """Print the line above a table, which may be wider than the table."""
    console.print(text, style="table.title", markup=False, highlight=False, soft_wrap=True)


def _layer_table(report: Report) -> Table:
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


def print_simulation(report: Report, console: Console) -> None:
    """Print the cycles, the units, the findings in words, and how far to trust the numbers."""
    print_title(_title(report), console)
    if report["units"]:
        console.print(_unit_table(report), highlight=False)
    for line in (*_end_to_end_lines(report), *_finding_lines(report)):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    console.print(simulation_verdict(report), style="bold", highlight=False, soft_wrap=True)


def _title(report: Report) -> str:
    return f"{accelerator_label(report)}: {_counted(report)}, {report['program']['instructions']:,} instructions"


def _counted(report: Report) -> str:
    """The cycles, and those of the accelerator alone where the document has more than it."""
    if report["cycles"] is None:
        return "cycles not counted"
    alone = report.get("accelerator_cycles")
    more = "" if alone is None else f" with processor and memory ({alone:,} of the accelerator alone)"
    return f"{report['cycles']:,} cycles{more}"


def _unit_table(report: Report) -> Table:
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


def _finding_lines(report: Report) -> Iterator[str]:
    told = list(dram_lines(report))
    yield from told or [f"DRAM: {report['bytes_read']:,} bytes read, {report['bytes_written']:,} written"]
    yield from energy_lines(report)
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
