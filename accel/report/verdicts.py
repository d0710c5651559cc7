"""Verdicts of reports in words, for whoever reads a report as JSON: the command line, and the pages of the service."""

from collections.abc import Mapping
from typing import Any

EQUAL_DB = 200.0
"""Ratio that a report has of outputs that are equal (``accel.verify.output_comparison``, which loads the compiler)."""


def report_verdict(report: Mapping[str, Any]) -> str:
    """Returns whether the outputs of a model's job are right."""
    if report["verified"] is None:
        return "NOT verified" if report["layers"] else "nothing to verify: the accelerator did no work"
    if report["verified"]:
        return "verified: the outputs equal the reference, bit by bit"
    return "the outputs DIFFER from the reference"


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
