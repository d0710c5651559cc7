"""A dry run's plan, for people."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from accel.plan_documents import Plan, PlannedLaunch
from service.table import accelerator_named, print_title

_SHOWN = ("contract", "epilogue", "store")  # every launch loads


def print_plan(plan: Plan, console: Console) -> None:
    """Print where each node runs and why, how each launch is cut, and the share of the arithmetic."""
    print_title(accelerator_named(plan.model_dump(include={"accelerator", "provenance"})), console)
    console.print(_nodes(plan))
    for warning in plan.warnings:
        console.print(f"warning: {warning.detail}", markup=False, highlight=False, soft_wrap=True)
    if plan.launches:
        console.print(_launches(plan))
    for launch in plan.launches:
        for line in launch.host:
            console.print(f"{launch.name}: {line}", markup=False, highlight=False, soft_wrap=True)
    share = f"{plan.macs.share:.1%} of {plan.macs.total:,} multiply-accumulates on the accelerator"
    console.print(
        f"{share}; about {plan.estimated_cycles:,} cycles by the planner's guide", style="bold", highlight=False
    )


def _nodes(plan: Plan) -> Table:
    table = Table("node", "op", "runs on", "launch", "why")
    for node in plan.nodes:
        table.add_row(Text(node.name), Text(node.op), node.where, Text(node.launch or ""), Text(node.reason or ""))
    return table


def _launches(plan: Plan) -> Table:
    table = Table("launch", "operators", "instructions", "tile", "contexts", "order", "tiles", "cycles, about")
    for launch in plan.launches:
        tiling = launch.tiling
        uses = [use for use in launch.instructions if use.role in _SHOWN]
        cycles = "" if launch.estimated_cycles is None else f"{launch.estimated_cycles:,}"
        table.add_row(
            Text(launch.name),
            " + ".join(launch.operators),
            Text(", ".join(dict.fromkeys(f"{use.instruction}.{use.operation}" for use in uses))),
            _tile(launch),
            f"{tiling.operand_contexts}/{tiling.result_contexts}",
            tiling.order,
            f"{tiling.tiles:,}",
            cycles,
        )
    return table


def _tile(launch: PlannedLaunch) -> str:
    tiling = launch.tiling
    channels = tiling.out_blocks * tiling.out_channels
    return f"{tiling.out_rows} x {tiling.out_columns} x {channels}, sums {tiling.in_blocks * tiling.in_channels}"
