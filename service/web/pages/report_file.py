"""A report as one HTML file, to attach or to mail: with its styles and pictures inside, and no script."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pydantic
from markupsafe import Markup

from accel.errors import CyclopsError
from accel.report.documents.graph_documents import GRAPH_FILE, ModelGraph
from accel.report.documents.memory_documents import MemoryPlan
from accel.report.documents.report_documents import Report, SimulationReport
from accel.trace.program_trace import Trace
from accel.trace.timeline import Timeline
from service.jobs.job_graph import job_graph
from service.jobs.job_report import report_csv
from service.web.figures.graph_figure import HEIGHT, INSET, graph_figure
from service.web.figures.memory_figure import memory_figure
from service.web.figures.report_figures import CATEGORIES
from service.web.figures.report_values import report_values
from service.web.figures.timeline_figure import timeline_figure
from service.web.templating.bundle import Bundle
from service.web.templating.environment import make_environment

_STYLE = Path(__file__).parents[1] / "static" / "base.css"
_REPORTS: pydantic.TypeAdapter[Report | SimulationReport] = pydantic.TypeAdapter(Report | SimulationReport)
# nothing is loaded from anywhere, whatever a name in the report says
_PLAIN = "/,;:()[]!*'"  # of a table what an address may have as it is
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def report_html(
    report: Mapping[str, Any],
    name: str,
    document: Any | None = None,
    timeline: Timeline | None = None,
    plan: MemoryPlan | None = None,
    graph: ModelGraph | None = None,
) -> str:
    """Returns a report as a page of its own.

    Args:
        report: as its model dumps it.
        name: what to call it: of the model, say.
        document: the accelerator's, as JSON; None where it was not kept.
        timeline: of the program; None where its trace was not kept, or only function ran.
        plan: the memory plan; None where there is none, as of a program.
        graph: of the model; None where there is none, as of a program.
    """
    figure = None if graph is None else graph_figure(job_graph(graph, report))
    styles = [_STYLE.read_text(encoding="utf-8"), *([] if figure is None else [Bundle.read().styles("graph")])]
    return (
        make_environment()
        .get_template("report_file.html")
        .render(
            report=report,
            name=name,
            job=None,
            table_address=lambda table: _data_address(report_csv(report, table, plan)),
            categories=CATEGORIES,
            policy=POLICY,
            style=Markup("\n".join(styles)),  # noqa: S704  our own
            graph=figure,
            box_height=HEIGHT,
            box_inset=INSET,
            memory=None if plan is None else memory_figure(plan),
            timed=False,
            timeline=None if timeline is None else timeline_figure(timeline),
            document=None if document is None else json.dumps(document, indent=1, ensure_ascii=False),
            **report_values(report, None, plan),
        )
    )


def _data_address(table: str) -> str:
    """Returns an address that is the table itself, which a browser saves without a server and without a script."""
    return f"data:text/csv;charset=utf-8,{quote(table, safe=_PLAIN)}"


def folder_html(folder: Path, name: str) -> str:
    """Returns the report of a run that left its artifacts in ``folder``.

    Raises:
        OSError: there is no report.
    """
    report = _REPORTS.validate_json((folder / "report.json").read_bytes()).model_dump()
    path, memory, nodes = (folder / name for name in ("accelerator.json", "memory.json", GRAPH_FILE))
    document = json.loads(path.read_bytes()) if path.is_file() else None
    plan = MemoryPlan.model_validate_json(memory.read_bytes()) if memory.is_file() else None
    graph = ModelGraph.model_validate_json(nodes.read_bytes()) if nodes.is_file() else None
    try:
        timeline = Trace.load(folder).timeline()
    except (OSError, CyclopsError):
        timeline = None
    return report_html(report, name, document, timeline, plan, graph)
