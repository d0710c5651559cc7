"""``cyclops plan``: a dry run in this process, and its plan as tables."""

import sys
from contextlib import nullcontext
from dataclasses import replace

from rich.console import Console
from rich.table import Table
from rich.text import Text

from accel.errors import CyclopsError
from accel.report.documents.plan_documents import Plan, PlannedLaunch
from accel.report.documents.verdicts import end_to_end_line
from service.cli.local.local_run import check_files, model_in_one_file, print_error, print_problem, sources_of
from service.cli.report_tables import accelerator_label, print_title
from worker.config.settings import Settings
from worker.execution.job_execution import execute_dry_run
from worker.execution.job_failure import failure_problem
from worker.execution.job_inputs import ModelJobInputs


def plan_local(work: ModelJobInputs, settings: Settings, *, as_json: bool) -> int:
    """Make the plan and print it; gives the exit code."""
    errors = Console(stderr=True)
    status = errors.status("planning") if errors.is_terminal else None
    try:
        with status or nullcontext():
            check_files(work)
            with model_in_one_file(work) as whole:
                plan = execute_dry_run(replace(whole, sources=sources_of(whole)), settings)
    except (CyclopsError, MemoryError) as error:
        return print_error(error, errors, as_json=as_json)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told, and is not the input's fault
        return print_problem(failure_problem(error), errors, as_json=as_json)
    if as_json:
        sys.stdout.write(plan.model_dump_json(indent=2) + "\n")
    else:
        print_plan(plan, Console())
    return 0


_SHOWN_ROLES = ("contract", "epilogue", "compute", "store")  # every launch loads


def print_plan(plan: Plan, console: Console) -> None:
    """Print where each node runs and why, how each launch is cut, and the share of the arithmetic."""
    print_title(accelerator_label(plan.model_dump(include={"accelerator", "provenance"})), console)
    console.print(_node_table(plan))
    for warning in plan.warnings:
        console.print(f"warning: {warning.detail}", markup=False, highlight=False, soft_wrap=True)
    if plan.launches:
        console.print(_launch_table(plan))
    for launch in plan.launches:
        for line in launch.host:
            console.print(f"{launch.name}: {line}", markup=False, highlight=False, soft_wrap=True)
    share = f"{plan.macs.share:.1%} of {plan.macs.total:,} multiply-accumulates on the accelerator"
    console.print(f"{share}; about {plan.estimated_cycles:,} cycles", style="bold", highlight=False)
    if plan.end_to_end is not None:
        line = end_to_end_line(plan.end_to_end.model_dump(exclude={"steps"}))
        console.print(f"estimate, {line}", markup=False, highlight=False, soft_wrap=True)


def _node_table(plan: Plan) -> Table:
    table = Table("node", "op", "runs on", "launch", "why")
    for node in plan.nodes:
        table.add_row(Text(node.name), Text(node.op), node.where, Text(node.launch or ""), Text(node.reason or ""))
    return table


def _launch_table(plan: Plan) -> Table:
    table = Table("launch", "operators", "instructions", "tile", "contexts", "order", "tiles", "cycles")
    for launch in plan.launches:
        contexts, order, tiles = _cut(launch)
        uses = [use for use in launch.instructions if use.role in _SHOWN_ROLES]
        cycles = "" if launch.estimated_cycles is None else f"{launch.estimated_cycles:,}"
        table.add_row(
            Text(launch.name),
            " + ".join(launch.operators) or launch.op,
            Text(", ".join(dict.fromkeys(f"{use.instruction}.{use.operation}" for use in uses))),
            _tile(launch),
            contexts,
            order,
            f"{tiles:,}",
            cycles,
        )
    return table


def _cut(launch: PlannedLaunch) -> tuple[str, str, int]:
    """The contexts of a launch, what stays, and the number of its tiles."""
    tiling, program = launch.tiling, launch.program
    if tiling is not None:
        return f"{tiling.operand_contexts}/{tiling.result_contexts}", tiling.order, tiling.tiles
    return ("", "", 0) if program is None else (str(program.contexts), "", program.tiles)


def _tile(launch: PlannedLaunch) -> str:
    tiling = launch.tiling
    if tiling is None:
        return "" if launch.program is None else " x ".join(map(str, launch.program.tile))
    channels = tiling.out_blocks * tiling.out_channels
    return f"{tiling.out_rows} x {tiling.out_columns} x {channels}, sums {tiling.in_blocks * tiling.in_channels}"
