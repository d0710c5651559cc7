"""Movement between launches becomes addresses: stores go where a result is moved to, and loads read through views.

A result goes through a chain of operators that only move elements, until something else reads it. As far as a launch's
stores can address it they write the end of the chain; else its readers' loads read it through the rest. What an
instruction can address is asked of the stages themselves, region by region.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from tvm import ir, relax

from accel.accelerator.document import Accelerator
from accel.accelerator.target import Target
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
from accel.lowering.ir.host_runs import free_vars, is_launch, make_parts
from accel.lowering.kinds.region_images import region_function
from accel.lowering.movement.movement_programs import movement_programs
from accel.lowering.movement.movement_operators import back, onwards, operand_of, shape_of_value, windows_of
from accel.lowering.movement.program_orders import lying, orders_of
from accel.region.affine_view import AffineView, NotAffineError, whole
from accel.region.kinds import AnyRegion, VectorRegion, Views
from accel.region.vector_program import UNIT

MOVE = "move"
"""The operator of launches that only move a tensor."""

Price = Callable[[AnyRegion], int | None]
"""The cycles of a region alone; None where no instructions do it."""

Moved = tuple[relax.Var, tuple[relax.Var, ...], AffineView]
"""A tensor in DRAM that an argument is moved from, the variables on the way, and how the argument lies in it."""


_Window = tuple[tuple[int, ...], tuple[int, ...]]
"""A part of a tensor: the shape of that, and where it begins there."""


def absorb_movement(module: ir.IRModule, target: Target, price: Price) -> ir.IRModule:
    """Returns a packed module in which launches do what they can of the movement between them."""
    return _Absorber(module, target, price).module()


@dataclass
class _Launch:
    """A launch as it stands by now.

    Attributes:
        var: what its call is bound to.
        region: with its views.
        arguments: of the call.
        info: for the report.
        function: of the region as pack made it; another is made of a region that has changed.
        was: what its call was bound to; None of one that only moves a tensor.
    """

    var: relax.Var
    region: AnyRegion
    arguments: list[relax.Expr]
    info: LaunchInfo
    function: ir.GlobalVar | None
    changed: bool = False
    was: relax.Var | None = None


@dataclass(frozen=True)
class _Destination:
    """Where stores may put a result: the variable at the end of movement, those on the way, and the view of it.

    Of one with an ``order`` the result is the transposition of that variable, of which it is said.
    """

    var: relax.Var
    passed: tuple[relax.Var, ...]
    view: AffineView
    fill: float | None
    order: tuple[int, ...] = ()


def _ordered(destination: _Destination) -> ir.Call:
    """The result, of what is stored in another order."""
    made: ir.Call = relax.BlockBuilder().normalize(relax.op.permute_dims(destination.var, list(destination.order)))
    return made


class _Prices:
    """The best of a region's orders, once for all regions that differ in numbers alone."""

    def __init__(self, accelerator: Accelerator, price: Price) -> None:
        self._accelerator, self._price = accelerator, price
        self._known: dict[str, tuple[int, int] | None] = {}
        self._cycles: dict[str, int | None] = {}

    def price(self, region: AnyRegion) -> int | None:
        """Returns the cycles of a region, or of one that differs in numbers alone."""
        key = _key(region)
        if key not in self._cycles:
            self._cycles[key] = self._price(region)
        return self._cycles[key]

    def best(self, region: VectorRegion) -> tuple[int, VectorRegion] | None:
        """Returns the cycles, and the region in the order that takes the fewest; None where no instructions do it.

        Regions that differ in numbers alone are priced alike.
        """
        orders = list(orders_of(region, self._accelerator))
        key = _key(region)
        if key not in self._known:
            priced = [
                (cycles, number) for number, each in enumerate(orders) if (cycles := self.price(each)) is not None
            ]
            self._known[key] = min(priced, default=None)
        found = self._known[key]
        return None if found is None else (found[0], orders[found[1]])

    def cheapest(self, regions: Iterable[VectorRegion]) -> VectorRegion | None:
        """Returns the region that takes the fewest cycles; None where no instructions do any of them."""
        priced = [(cycles, number, each) for number, each in enumerate(regions) if (cycles := self.price(each)) is not None]
        return min(priced, key=lambda found: found[:2])[2] if priced else None

    def can(self, region: AnyRegion) -> bool:
        """Returns whether instructions do a region with the numbers that it has."""
        return self._price(region) is not None


def _key(region: AnyRegion) -> str:
    return _FLOAT.sub("0.0", dump_region(region))


_FLOAT = re.compile(r"-?\d+\.\d+(?:[eE][-+]?\d+)?")


def _unlike(destinations: Iterable[_Destination]) -> Iterator[_Destination]:
    """Of destinations at which each element has the same address only the farthest."""
    last: _Destination | None = None
    for each in destinations:
        if last is not None and not last.view.lies_like(each.view):
            yield last
        last = each
    if last is not None:
        yield last


class _Absorber:
    """``main``, launch by launch."""

    def __init__(self, module: ir.IRModule, target: Target, price: Price) -> None:
        self._module, self._gemm = module, target.contraction
        self._accelerator = target.accelerator
        self._prices = _Prices(target.accelerator, price)
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
                    binding.var,
                    region,
                    list(call.args[1].fields),
                    infos[str(binding.var.name)],
                    function,
                    was=binding.var,
                )
        self._joined: dict[relax.Var, list[_Launch]] = {}
        self._ordered: dict[relax.Var, ir.Call] = {}  # results that are stored as something else, as what they are of it

    def module(self) -> ir.IRModule:
        stored = set(self._module["main"].params) | set(self._launches)
        stored |= {
            var
            for var, value in self._values.items()
            if isinstance(value, relax.TupleGetItem) and value.tuple_value in self._launches
        }
        held = {var: list(self._makers(var, stored)) for var, value in self._values.items() if any(windows_of(value))}
        waiting = {launch.var for launches in held.values() for launch in launches}
        for var in list(self._values):  # each once what it reads is where it stays
            if var in held:
                if not self._join(var, stored):
                    self._store_all(held[var], stored)
            elif (launch := self._launches.get(var)) is not None:
                self._load(launch, stored)
                if launch.var not in waiting:
                    self._store_all([launch], stored)
        for launch in list(self._launches.values()):
            self._move(launch, stored)
        return self._rebuilt() if any(launch.changed for launch in self._launches.values()) else self._module

    def _store_all(self, launches: Iterable[_Launch], stored: set[relax.Var]) -> None:
        for launch in launches:
            stored.discard(launch.var)
            self._store(launch)
            stored.add(launch.var)

    # parts of a concatenation

    def _makers(self, var: relax.Var, stored: set[relax.Var]) -> Iterator[_Launch]:
        """The launches whose results only a concatenation reads."""
        for operand, _ in windows_of(self._values[var]):
            chain = self._chain(operand, stored) or []
            if chain and self._is_alone(chain) and chain[-1] in self._launches:
                yield self._launches[chain[-1]]

    def _is_alone(self, chain: Sequence[relax.Expr]) -> bool:
        """Whether nobody reads what is on the way but the next one."""
        known = [each for each in chain if isinstance(each, relax.Var)]
        return all(len(self._readers[each]) == 1 and each not in self._returned for each in known)

    def _join(self, whole_var: relax.Var, stored: set[relax.Var]) -> bool:
        """Let what a concatenation joins be stored side by side, by those who make it or by programs that move it.

        False where the host has a part of it, or where one cannot.
        """
        parts: list[_Launch] = []
        for number, (operand, first) in enumerate(windows_of(self._values[whole_var])):
            var = relax.DataflowVar(f"{whole_var.name}_part{number}", whole_var.ty)
            if str(whole_var.name) in self._nodes:
                self._nodes[str(var.name)] = self._nodes[str(whole_var.name)]
            part = self._part(operand, first, var, stored)
            if part is None:
                return False
            parts.append(part)
        for part in parts:
            if part.was is not None:
                stored.discard(part.was)
                self._launches[part.was] = part
        self._joined[whole_var] = parts
        stored.add(whole_var)
        return True

    def _part(
        self, operand: relax.Expr, first: tuple[int, ...], var: relax.Var, stored: set[relax.Var]
    ) -> _Launch | None:
        """The launch that stores an operand where it belongs in a concatenation: as it is made, or a program."""
        chain = self._chain(operand, stored)
        if chain is None:
            return None
        launch = self._launches.get(chain[-1]) if isinstance(chain[-1], relax.Var) else None
        shape = shape_of_value(var)
        if launch is not None and launch.var is launch.was and self._is_alone(chain):
            with suppress(NotAffineError):
                _, view, fill = self._views_at(chain, len(chain) - 1, (shape, first))
                views = _with_view(launch.region.views, len(launch.arguments), view)
                region = self._in_best_order(replace(launch.region, views=views))
                dense = isinstance(launch.region, VectorRegion) or view.has_dense_rows
                if region is not None and dense and fill is None and self._prices.can(region):
                    info = self._with_nodes(launch.info, (*chain[:-1], var))
                    return replace(launch, var=var, region=region, info=info, changed=True)
        return next(self._moving(chain, var, (shape, first)), None)

    def _chain(self, operand: relax.Expr, stored: set[relax.Var]) -> list[relax.Expr] | None:
        """A value, what it is moved from, and so on as far as something in DRAM; None if that is the host's."""
        chain = [operand]
        while isinstance(chain[-1], relax.Var) and chain[-1] not in stored:
            value = self._values.get(chain[-1])
            given = None if value is None else operand_of(value, self._values)
            if given is None:
                return None
            chain.append(given)
        return chain

    # stores

    def _store(self, launch: _Launch) -> None:
        """Let the stores of a launch write where it costs the least, along the movement behind it."""
        options = list(_unlike(self._destinations(launch)))
        options += self._in_other_orders(launch)
        if not options:
            return
        readers = self._readers_of(launch.var)
        # one that costs the same is better farther away, and best where the result is
        found = [(self._cost(launch.region, None, launch.var, readers), 0, None, launch.region)]
        for distance, destination in enumerate(options):
            views = _with_view(launch.region.views, len(launch.arguments), destination.view)
            region = self._in_best_order(replace(launch.region, views=views))
            if region is None:
                continue
            if destination.order:
                self._values[launch.var] = _ordered(destination)
            cost = self._cost(region, destination.view, destination.var, readers)
            found.append((cost, -1 - distance if not destination.order else 1, destination, region))
            if destination.order:
                del self._values[launch.var]
        for _, _, destination, region in sorted(found, key=lambda option: option[:2]):
            if destination is None:
                return
            if self._prices.can(region):
                border = launch.info.border if destination.fill is None else int(destination.fill)
                launch.info = replace(self._with_nodes(launch.info, destination.passed), border=border)
                launch.region, launch.var, launch.changed = region, destination.var, True
                if destination.order and launch.was is not None:
                    self._values[launch.was] = self._ordered[launch.was] = _ordered(destination)
                return

    def _in_other_orders(self, launch: _Launch) -> Iterator[_Destination]:
        """Tensors of the axes of a vector program's result in the orders in which its operands lie."""
        shape = shape_of_value(launch.var)
        if not isinstance(launch.region, VectorRegion) or shape is None or launch.var in self._returned:
            return
        axes = launch.region.shape.in_dram[len(launch.arguments)].axes
        for order in dict.fromkeys(lying(launch.region)):
            dimensions = sorted(range(len(axes)), key=lambda place: -1 if axes[place] == UNIT else order.index(axes[place]))
            if dimensions != sorted(dimensions):
                extents = [shape[dimension] for dimension in dimensions]
                var = relax.DataflowVar(f"{launch.var.name}_lying", relax.TensorType(extents, launch.var.ty.dtype))
                back_again = tuple(dimensions.index(dimension) for dimension in range(len(axes)))
                view = whole(shape).permuted(back_again).view()
                yield _Destination(var, (), view, None, back_again)

    def _readers_of(self, var: relax.Var) -> list[tuple[_Launch, int]]:
        """The arguments of launches that come of a result."""
        return [
            (launch, place)
            for launch in self._launches.values()
            for place, argument in enumerate(launch.arguments)
            if argument is var or self._source(argument, {var}) is not None
        ]

    def _cost(
        self, region: AnyRegion, view: AffineView | None, var: relax.Var, readers: Sequence[tuple[_Launch, int]]
    ) -> tuple[int, int]:
        """What it costs that a region leaves ``var``: readers that cannot read it, and cycles of vector programs.

        Regions of contractions move whole elements of memories, wherever these lie, in nearly the same time.
        """
        own = self._prices.best(region) if isinstance(region, VectorRegion) else None
        cycles = 0 if own is None else own[0]
        unable = int(view is not None and not view.has_dense_rows and not isinstance(region, VectorRegion))
        for launch, place in readers:
            moved = self._source(launch.arguments[place], {var})
            read = launch.region if moved is None else self._through(launch, {place: moved})
            priced = self._prices.best(read) if isinstance(read, VectorRegion) else None
            if priced is not None or (not isinstance(read, VectorRegion) and (moved is None or moved[2].has_dense_rows)):
                cycles += 0 if priced is None else priced[0]
                continue
            program = self._cycles_of_move(launch.arguments[place], var)
            unable += program is None
            cycles += program or 0
        return unable, cycles

    def _cycles_of_move(self, argument: relax.Expr, var: relax.Var) -> int | None:
        """What a program takes that makes an argument of a variable; None where no instructions do."""
        chain = self._chain(argument, {var})
        found = None if chain is None else next(self._moving(chain, var, None), None)
        return None if found is None else self._prices.price(found.region)

    def _in_best_order(self, region: AnyRegion) -> AnyRegion | None:
        """A region in the order that takes the fewest cycles; None where no instructions do it."""
        if not isinstance(region, VectorRegion):
            return region
        found = self._prices.best(region)
        return None if found is None else found[1]

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
        if not moved:
            return
        if self._read(launch, moved) or len(moved) == 1:
            return
        for place, source in moved.items():
            self._read(launch, {place: source})

    def _source(self, argument: relax.Expr, stored: set[relax.Var]) -> Moved | None:
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

    def _through(self, launch: _Launch, moved: Mapping[int, Moved]) -> AnyRegion:
        views: Views = launch.region.views
        for place, (_, _, view) in moved.items():
            views = _with_view(views, place, view)
        return replace(launch.region, views=views)

    def _read(self, launch: _Launch, moved: Mapping[int, Moved]) -> bool:
        """Let a launch read arguments where they are moved from; False if no loads can."""
        whole_rows = isinstance(launch.region, VectorRegion) or all(view.has_dense_rows for _, _, view in moved.values())
        region = self._in_best_order(self._through(launch, moved)) if whole_rows else None
        if region is None or not self._prices.can(region):
            return False
        launch.region, launch.changed = region, True
        for place, (source, passed, _) in moved.items():
            launch.arguments[place] = source
            launch.info = self._with_nodes(launch.info, passed)
        return True

    # programs of their own

    def _move(self, launch: _Launch, stored: set[relax.Var]) -> None:
        """Let programs that only move tensors make the arguments that no loads and no stores do."""
        for argument in launch.arguments:
            if not isinstance(argument, relax.Var) or argument in stored:
                continue
            chain = self._chain(argument, stored)
            found = None if chain is None else next(self._moving(chain, argument, None), None)
            if found is not None:
                info = found.info if found.info.nodes else replace(found.info, name=launch.info.name)
                self._launches[argument] = replace(found, info=info)
                stored.add(argument)

    def _moving(self, chain: Sequence[relax.Expr], var: relax.Var, window: _Window | None) -> Iterator[_Launch]:
        """The launches that make ``var`` of what lies in DRAM, the end of a chain; or a window of it."""
        for middle in reversed(range(len(chain))):
            try:
                source, result, fill = self._views_at(chain, middle, window)
            except NotAffineError:
                continue
            programs = movement_programs(source, result, str(var.ty.dtype), self._accelerator)
            region = self._prices.cheapest(programs)
            if region is not None:
                info = LaunchInfo(name="", op=MOVE, nodes=(), macs=0, border=None if fill is None else int(fill))
                passed = [each for each in chain[:-1] if isinstance(each, relax.Var)]
                info = self._with_nodes(info, (*passed, var))
                info = replace(info, name=next(iter(info.nodes), str(var.name)))
                yield _Launch(var, region, [chain[-1]], info, None, changed=True)

    def _views_at(
        self, chain: Sequence[relax.Expr], middle: int, window: _Window | None
    ) -> tuple[AffineView, AffineView, float | None]:
        """How a tensor on the way lies in what the chain ends with, and in what it begins with, and what else is in that.

        Of a ``window`` what it begins with is a part.

        Raises:
            NotAffineError: it is no part of one of them.
        """
        shape = shape_of_value(chain[middle])
        if shape is None:
            raise NotAffineError("its shape depends on data")
        source, result, fill = whole(shape), whole(shape), None
        for var in chain[middle:-1]:
            source = back(self._values[var], self._values, source)
        for var, reader in zip(chain[middle:0:-1], chain[middle - 1 :: -1], strict=False):
            result, around = onwards(self._values[reader], var, result)
            if around is not None and fill is not None and around != fill:
                raise NotAffineError("two numbers are around it")
            fill = fill if around is None else around
        if window is not None:
            result = result.sliced(window[0], window[1], [1] * len(window[1]))
        return source.view(), result.view(), fill

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
            parts = self._joined.get(binding.var)
            if parts is not None:
                made = [part for part in parts if part.was is None]
                bindings += [self._binding(part, builder, functions, infos) for part in made]
                whole = make_parts([part.var for part in parts], binding.var.ty)
                bindings.append(relax.VarBinding(binding.var, builder.normalize(whole)))
            elif binding.var in self._launches:
                launch = self._launches[binding.var]
                infos[str(launch.var.name)] = launch.info
                made_anew = launch.changed
                bindings.append(self._binding(launch, builder, functions, infos) if made_anew else binding)
                if launch.was is not None and launch.was is not launch.var and launch.was in self._ordered:
                    bindings.append(relax.VarBinding(launch.was, self._ordered[launch.was]))
            elif binding.var not in removed:
                bindings.append(binding)
        kept = self._needed(bindings)
        launched = {launch.var for launch in self._launches.values()} | {*self._joined}
        names = {str(binding.var.name) for binding in kept if binding.var not in launched}
        gone = [str(binding.var.name) for binding in self._bindings if str(binding.var.name) not in names]
        return self._with_main(builder.get(), kept, infos, gone)

    def _binding(
        self,
        launch: _Launch,
        builder: relax.BlockBuilder,
        functions: dict[str, ir.GlobalVar],
        infos: dict[str, LaunchInfo],
    ) -> relax.VarBinding:
        """The call of a launch that is made anew."""
        infos[str(launch.var.name)] = launch.info
        function, types = self._function(launch, builder, functions), launch.var.ty
        call = relax.call_tir(
            function,
            relax.Tuple(launch.arguments),
            list(types.fields) if isinstance(types, relax.TupleType) else types,
        )
        return relax.VarBinding(launch.var, builder.normalize(call))

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
        launched |= {part.var for parts in self._joined.values() for part in parts}
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
