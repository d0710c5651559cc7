"""Data and results that the host only lays out, around launches: steps that are no node's."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from tvm import ir, relax

from accel.lowering.ir.function_attributes import LAUNCHES, LaunchInfo, load_launches, region_of
from accel.lowering.ir.host_runs import free_vars, is_launch, main_results, read_parts, wholes
from accel.lowering.kinds.registry import launch_kind

_Bound = Mapping[relax.Var, relax.Expr]


def layout_reasons(module: ir.IRModule, named: Collection[str], title: str, *, at_edges: bool) -> dict[str, str]:
    """Returns why the host has a part in nodes whose data or results it only lays out, by node.

    Args:
        module: a packed one.
        named: the variables that are nodes of the host's.
        title: the accelerator's.
        at_edges: whether to tell of what comes into the model and goes out of it, beside what is between two launches.
    """
    main = module["main"]
    infos = load_launches(str(main.attrs[LAUNCHES]))
    bound = {binding.var: binding.value for block in main.body.blocks for binding in block.bindings}
    parts = wholes(module)
    there = {*main.params} | {var for var, value in bound.items() if _is_there(module, value, parts)}
    found: dict[str, str] = {}
    for node, done in _of_data(module, bound, there, infos, named, at_edges=at_edges):
        found.setdefault(node, f"{title} runs it; {'; '.join(done) or 'the host lays its data out'}")
    for result in main_results(main) if at_edges else ():
        steps = _between(result, bound, there).steps
        if _is_layout(steps, bound, named):
            for name in (str(each.name) for var in steps for each in free_vars(bound[var])):
                if name in infos and infos[name].nodes:
                    found.setdefault(infos[name].nodes[-1], f"{title} runs it; the host lays its result out")
    return found


def _of_data(
    module: ir.IRModule,
    bound: _Bound,
    there: Collection[relax.Var],
    infos: Mapping[str, LaunchInfo],
    named: Collection[str],
    *,
    at_edges: bool,
) -> Iterator[tuple[str, list[str]]]:
    """Yields the first nodes of launches whose data the host lays out, with what it does beside tiles."""
    for var, value in bound.items():
        info = infos.get(str(var.name))
        if info is None or not info.nodes or not is_launch(module, value):
            continue
        between = [_between(each, bound, there) for each in value.args[1].fields]
        region = region_of(module[value.args[0]])
        assert region is not None
        done = launch_kind(region).host_layout(region)
        alone = any(_is_layout(each.steps, bound, named) and (at_edges or each.of_results) for each in between)
        # a vector unit could have quantised what is made into patches
        if alone or (at_edges and done and any(each.steps for each in between)):
            yield info.nodes[0], done


def _is_there(module: ir.IRModule, value: relax.Expr, parts: Collection[relax.Var]) -> bool:
    """Whether a value is in DRAM by what launches make: a result, one of several, or what is made in parts."""
    if isinstance(value, relax.TupleGetItem) or is_launch(module, value):
        return True
    read = read_parts(value)
    return read is not None and all(each in parts for each in read)


class _Between(NamedTuple):
    """What the host computes between what is in DRAM and a value, and whether launches made some of that."""

    steps: list[relax.Var]
    of_results: bool


def _between(value: relax.Expr, bound: _Bound, there: Collection[relax.Var]) -> _Between:
    """What the host computes ahead of a value; another name for something is nothing."""
    found, pending, of_results = dict[relax.Var, None](), [value], False
    while pending:
        at = pending.pop()
        of_results = of_results or (at in there and at in bound)
        if at in there or at in found or at not in bound:
            continue
        if not isinstance(bound[at], relax.Var):
            found[at] = None
        pending += free_vars(bound[at])
    return _Between(list(found), of_results)


def _is_layout(steps: Sequence[relax.Var], bound: _Bound, named: Collection[str]) -> bool:
    """Whether there is something, and it is no node's and no function of the host's."""
    return bool(steps) and not any(
        str(var.name) in named or isinstance(getattr(bound[var], "op", None), ir.GlobalVar) for var in steps
    )
