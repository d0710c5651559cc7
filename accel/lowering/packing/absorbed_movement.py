"""Movement between launches becomes addresses: stores go where a result is moved to, and loads read through views.

A result goes through a chain of operators that only move elements, until something else reads it. As far as a launch's
stores can address it they write the end of the chain; else its readers' loads read it through the rest. What an
instruction can address is asked of the stages themselves, region by region.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from tvm import ir, relax

from accel.accelerator.contraction import Contraction
from accel.frontend.integer_recovery.recover_integers import HOST_NODES
from accel.lowering.ir.function_attributes import (
    LAUNCHES,
    REGION,
    STORED,
    LaunchInfo,
    dump_launches,
    dump_region,
    load_launches,
    region_of,
)
from accel.lowering.ir.host_runs import free_vars, is_launch
from accel.lowering.kinds.region_images import region_function
from accel.lowering.packing.movement_operators import back, onwards, operand_of, shape_of_value
from accel.region.affine_view import AffineView, NotAffineError, ViewBuilder, whole
from accel.region.kinds import AnyRegion, Views

Trial = Callable[[AnyRegion], bool]
"""Whether the instructions of an accelerator can do a region as it is."""


def absorb_movement(module: ir.IRModule, gemm: Contraction, trial: Trial) -> ir.IRModule:
    """Returns a packed module in which launches do what they can of the movement between them."""
    return _Absorber(module, gemm, trial).module()


@dataclass
class _Launch:
    """A launch as it stands by now.

    Attributes:
        var: what its call is bound to.
        region: with its views.
        arguments: of the call.
        info: for the report.
        function: of the region as pack made it; another is made of a region that has changed.
    """

    var: relax.Var
    region: AnyRegion
    arguments: list[relax.Expr]
    info: LaunchInfo
    function: ir.GlobalVar
    changed: bool = False


@dataclass(frozen=True)
class _Destination:
    """Where stores may put a result: the variable at the end of movement, those on the way, and the view of it."""

    var: relax.Var
    passed: tuple[relax.Var, ...]
    view: AffineView
    fill: float | None


class _Absorber:
    """``main``, launch by launch."""

    def __init__(self, module: ir.IRModule, gemm: Contraction, trial: Trial) -> None:
        self._module, self._gemm, self._trial = module, gemm, trial
        main = module["main"]
        self._bindings = [binding for block in main.body.blocks for binding in block.bindings]
        self._values: dict[relax.Var, relax.Expr] = {binding.var: binding.value for binding in self._bindings}
        self._readers: dict[relax.Var, list[relax.Var]] = defaultdict(list)
        for binding in self._bindings:
            for read in dict.fromkeys(free_vars(binding.value)):
                self._readers[read].append(binding.var)
        self._returned = set(free_vars(main.body.body))
        self._nodes: dict[str, str] = json.loads(str(main.attrs[HOST_NODES]))
        infos = load_launches(str(main.attrs[LAUNCHES]))
        self._launches: dict[relax.Var, _Launch] = {}
        for binding in self._bindings:
            if is_launch(module, binding.value):
                function, call = binding.value.args[0], binding.value
                region = region_of(module[function])
                assert region is not None
                self._launches[binding.var] = _Launch(
                    binding.var, region, list(call.args[1].fields), infos[str(binding.var.name)], function
                )

    def module(self) -> ir.IRModule:
        for launch in self._launches.values():
            self._store(launch)
        stored = {launch.var for launch in self._launches.values()} | set(self._module["main"].params)
        for launch in self._launches.values():
            self._load(launch, stored)
        return self._rebuilt() if any(launch.changed for launch in self._launches.values()) else self._module

    # stores

    def _store(self, launch: _Launch) -> None:
        """Let the stores of a launch write as far along the movement behind it as they can."""
        for destination in reversed(list(self._destinations(launch))):
            views = _with_view(launch.region.views, len(launch.arguments), destination.view)
            region = replace(launch.region, views=views)
            if not self._trial(region):
                continue
            border = launch.info.border if destination.fill is None else int(destination.fill)
            launch.info = replace(self._with_nodes(launch.info, destination.passed), border=border)
            launch.region, launch.var, launch.changed = region, destination.var, True
            return

    def _destinations(self, launch: _Launch) -> Iterator[_Destination]:
        """The ends of the movement behind a result that nobody else reads, the nearest first."""
        shape = shape_of_value(launch.var)
        if shape is None:
            return
        at, view, passed = launch.var, whole(shape), list[relax.Var]()
        fill: float | None = None if launch.info.border is None else float(launch.info.border)
        while len(self._readers[at]) == 1 and at not in self._returned:
            (reader,) = self._readers[at]
            if reader in self._launches:
                return
            try:
                view, around = onwards(self._values[reader], at, view)
            except NotAffineError:
                return
            if around is not None and fill is not None and around != fill:
                return
            fill = fill if around is None else around
            passed.append(reader)
            at = reader
            yield _Destination(reader, tuple(passed), view.view(), fill)

    # loads

    def _load(self, launch: _Launch, stored: set[relax.Var]) -> None:
        """Let the loads of a launch read what lies in DRAM through the movement before it, as far as they can."""
        moved = {}
        for place, argument in enumerate(launch.arguments):
            found = self._source(argument, stored)
            if found is not None:
                moved[place] = found
        everything = self._through(launch, moved)
        if moved and self._trial(everything):
            self._read(launch, moved, everything)
            return
        for place, source in moved.items() if len(moved) > 1 else ():
            alone = self._through(launch, {place: source})
            if self._trial(alone):
                self._read(launch, {place: source}, alone)

    def _source(
        self, argument: relax.Expr, stored: set[relax.Var]
    ) -> tuple[relax.Var, tuple[relax.Var, ...], AffineView] | None:
        """The tensor in DRAM that an argument is moved from, what is on the way, and the view; None if there is none."""
        shape = shape_of_value(argument)
        if shape is None or not isinstance(argument, relax.Var) or argument in stored:
            return None
        at, view, passed = argument, whole(shape), list[relax.Var]()
        while at not in stored:
            value = self._values.get(at)
            operand = None if value is None else operand_of(value, self._values)
            if value is None or not isinstance(operand, relax.Var):
                return None
            try:
                view = back(value, self._values, view)
            except NotAffineError:
                return None
            passed.append(at)
            at = operand
        return at, tuple(passed), view.view()

    def _through(
        self, launch: _Launch, moved: Mapping[int, tuple[relax.Var, tuple[relax.Var, ...], AffineView]]
    ) -> AnyRegion:
        views: Views = launch.region.views
        for place, (_, _, view) in moved.items():
            views = _with_view(views, place, view)
        return replace(launch.region, views=views)

    def _read(
        self,
        launch: _Launch,
        moved: Mapping[int, tuple[relax.Var, tuple[relax.Var, ...], AffineView]],
        region: AnyRegion,
    ) -> None:
        launch.region, launch.changed = region, True
        for place, (source, passed, _) in moved.items():
            launch.arguments[place] = source
            launch.info = self._with_nodes(launch.info, passed)

    # what becomes of it

    def _with_nodes(self, info: LaunchInfo, passed: tuple[relax.Var, ...]) -> LaunchInfo:
        names = [self._nodes[str(var.name)] for var in passed if str(var.name) in self._nodes]
        return replace(info, nodes=tuple(dict.fromkeys((*info.nodes, *names))))

    def _rebuilt(self) -> ir.IRModule:
        """The module with the launches as they are now, without the movement that nobody needs any more."""
        builder = relax.BlockBuilder(self._module)
        functions: dict[str, ir.GlobalVar] = {}
        bindings, infos = list[relax.VarBinding](), dict[str, LaunchInfo]()
        removed = {launch.var for was, launch in self._launches.items() if not launch.var.same_as(was)}
        for binding in self._bindings:
            launch = self._launches.get(binding.var)
            if launch is None:
                bindings += [] if binding.var in removed else [binding]
                continue
            infos[str(launch.var.name)] = launch.info
            if not launch.changed:
                bindings.append(binding)
                continue
            function, types = self._function(launch, builder, functions), launch.var.ty
            call = relax.call_tir(
                function,
                relax.Tuple(launch.arguments),
                list(types.fields) if isinstance(types, relax.TupleType) else types,
            )
            bindings.append(relax.VarBinding(launch.var, builder.normalize(call)))
        kept = self._needed(bindings)
        launched = {launch.var for launch in self._launches.values()}
        names = {str(binding.var.name) for binding in kept if binding.var not in launched}
        gone = [str(binding.var.name) for binding in self._bindings if str(binding.var.name) not in names]
        return self._with_main(builder.get(), kept, infos, gone)

    def _function(
        self, launch: _Launch, builder: relax.BlockBuilder, functions: dict[str, ir.GlobalVar]
    ) -> ir.GlobalVar:
        """The PrimFunc of a region; equal regions share one."""
        key = dump_region(launch.region)
        if key not in functions:
            function = region_function(launch.region, self._gemm).with_attr(REGION, key)
            variable = builder.add_func(function, f"{launch.info.op}_moved_{len(functions)}")
            builder.update_func(variable, function.with_attr("global_symbol", str(variable.name_hint)))
            functions[key] = variable
        return functions[key]

    def _needed(self, bindings: list[relax.VarBinding]) -> list[relax.VarBinding]:
        """Launches, and what results and they come of."""
        launched = {launch.var for launch in self._launches.values()}
        wanted, kept = set(self._returned), list[relax.VarBinding]()
        for binding in reversed(bindings):
            if binding.var in wanted or binding.var in launched:
                wanted.update(free_vars(binding.value))
                kept.append(binding)
        return kept[::-1]

    def _with_main(
        self, module: ir.IRModule, bindings: list[relax.VarBinding], infos: dict[str, LaunchInfo], gone: list[str]
    ) -> ir.IRModule:
        main = self._module["main"]
        stored = [*json.loads(str(main.attrs[STORED])), *gone]
        attrs = dict(main.attrs.items()) | {LAUNCHES: dump_launches(infos), STORED: json.dumps(stored)}
        body = relax.SeqExpr([relax.DataflowBlock(bindings)], main.body.body)
        rebuilt = relax.Function(main.params, body, main.ret_ty, is_pure=True)
        module.update_func(module.get_global_var("main"), rebuilt.with_attrs(attrs))
        called = {str(binding.value.args[0].name_hint) for binding in bindings if is_launch(module, binding.value)}
        kept = {
            variable: function
            for variable, function in module.functions.items()
            if str(variable.name_hint) in called or region_of(function) is None
        }
        return ir.IRModule(kept, attrs=module.attrs)


def _with_view(views: Views, place: int, view: AffineView) -> Views:
    """The views with that of one parameter."""
    wide = [*views, *[None] * (place + 1 - len(views))]
    wide[place] = view
    return tuple(wide)
