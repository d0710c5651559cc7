"""What a page shows of a report, whether the service renders it or the command line."""

import json
from collections.abc import Mapping
from typing import Any

from accel.accelerator.document import Accelerator
from accel.report.documents.memory_documents import MemoryPlan
from accel.report.documents.memory_occupancy import memory_occupancy
from accel.report.documents.verdicts import report_verdict, simulation_verdict
from service.web.figures.end_to_end_figure import end_to_end_figure
from service.web.figures.report_figures import host_groups, limit_sentence, peak_macs, ranked_layers, unit_cycles
from service.web.figures.roofline import roofline


def report_values(
    report: Mapping[str, Any], document: Accelerator | None, plan: MemoryPlan | None = None
) -> dict[str, Any]:
    """Returns what the page shows of a report.

    Args:
        report: of a model's job, or of a program's.
        document: the accelerator's, where it is still the one of the report; one that has ``machine`` needs none.
        plan: the memory plan, where the job left one.
    """
    of_model = "layers" in report
    layers = report["layers"] if of_model else report["launches"]
    units, cycles = unit_cycles(report), report["cycles"]
    machine = report.get("machine") or _machine(document)
    peak = machine.get("peak_macs_per_cycle") or peak_macs(layers)
    macs = sum(layer["macs"] for layer in layers)
    seconds = cycles / (machine["clock_mhz"] * 1e6) if machine and cycles is not None else report.get("seconds")
    end_to_end = report.get("end_to_end")
    verdict = report_verdict(report) if of_model else simulation_verdict(report)
    return {
        "of_model": of_model,
        "layers": ranked_layers(layers),
        "units": units,
        "limit": limit_sentence(report, units),
        "limits": report.get("limits"),
        # the word itself is a badge
        "verdict": verdict.removeprefix("verified: ").removeprefix("NOT verified").removeprefix(": "),
        "why_not": [each["detail"] for each in report["warnings"] if each["kind"] == "not-verified"],
        "bytes_read": sum(layer["bytes_read"] for layer in layers),
        "bytes_written": sum(layer["bytes_written"] for layer in layers),
        "peak": peak,
        "utilisation": macs / (cycles * peak) if cycles and peak else None,
        "seconds": seconds,
        "end_to_end": end_to_end,
        "end_to_end_picture": None if end_to_end is None else end_to_end_figure(end_to_end),
        "clock_mhz": machine.get("clock_mhz"),
        "roof": roofline(layers, peak, machine["bus_bytes_per_cycle"]) if machine and cycles is not None else None,
        "memories": () if plan is None else memory_occupancy(plan),
        "host": host_groups(report.get("host_ops", ())),
        "options": _options(report),
    }


def _machine(document: Accelerator | None) -> Mapping[str, Any]:
    """Returns what a report of an earlier version does not say of its machine; empty where it is not known any more."""
    if document is None:
        return {}
    return {"bus_bytes_per_cycle": document.dram.bus_bytes, "clock_mhz": document.clock_mhz}


def _options(report: Mapping[str, Any]) -> dict[str, str]:
    """Returns the options of the run that say something."""
    return {name: json.dumps(value) for name, value in report["provenance"]["options"].items() if value not in ([], {})}
