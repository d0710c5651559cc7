"""Verdicts of reports in words, for whoever reads a report as JSON: the command line, and the pages of the service."""

from collections.abc import Mapping, Sequence
from typing import Any

EQUAL_DB = 200.0
"""Ratio that a report has of outputs that are equal (``accel.verify.output_comparison``, which loads the compiler)."""


def report_verdict(report: Mapping[str, Any]) -> str:
    """Returns whether the outputs of a model's job are right."""
    if report["verified"] is None:
        return "NOT verified" if report["layers"] else "nothing to verify: the accelerator did no work"
    if report["verified"]:
        kept = "; an earlier run computed them, of the same words and inputs" if report.get("verification_kept") else ""
        return _verified(report.get("floats") or ()) + kept
    return "the outputs DIFFER from the reference"


def end_to_end_line(found: Mapping[str, Any]) -> str:
    """Returns an end-to-end time in words: its parts by share, and what it would be at best."""
    if not found["modelled"]:
        return f"end to end: {found['statement']}"
    parts = ", ".join(f"{name} {part['share']:.1%}" for name, part in found["parts"].items())
    bound = found["bound_seconds"]
    best = "" if bound is None else f"; {bound * 1e3:,.3f} ms with the best accelerator"
    host = found["host"]
    return (
        f"end to end (modelled): {found['seconds'] * 1e3:,.3f} ms, {found['cycles']:,} accelerator cycles: "
        f"{parts}{best}{_stream(found)}; host: {host['name']} ({host['basis']})"
    )


def _stream(found: Mapping[str, Any]) -> str:
    """How many inputs of a stream there are in a second at best; nothing of a run that takes no time."""
    return f"; a stream: {1 / found['interval_seconds']:,.0f} inputs a second at best" if found["cycles"] else ""


def stream_line(found: Mapping[str, Any]) -> str:
    """Returns a stream of inputs in words: what the first one takes, and how far apart further ones are."""
    rate = found["inputs_per_second"]
    often = "" if rate is None else f", {rate:,.0f} a second"
    run_on = "run on into one another" if found["joined"] else "are apart"
    return (
        f"a stream of {found['inputs']:,} inputs: {found['latency_seconds'] * 1e3:,.3f} ms for the first, "
        f"{found['interval_seconds'] * 1e3:,.3f} ms from one to the next{often}; of the accelerator "
        f"{found['accelerator_latency']:,} and {found['accelerator_interval']:,} cycles; inputs {run_on}"
    )


def _verified(floats: Sequence[Mapping[str, Any]]) -> str:
    """Says that the outputs are right, and how near floats come to their bounds."""
    if not floats:
        return "verified: the outputs equal the reference, bit by bit"
    used = max((each["bound_used"] for each in floats if each["bound_used"] is not None), default=None)
    farthest = "" if used is None else f", of which they use {used:.1%} at most"
    return (
        f"verified: {len(floats)} results of vector programs lie within their rounding bounds{farthest}; all else "
        "equals the reference, bit by bit"
    )


def simulation_verdict(report: Mapping[str, Any]) -> str:
    """Returns whether a program's run left what was expected, and if not, why."""
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
