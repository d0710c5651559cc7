"""Movement between launches becomes addresses: stores go where a result is moved to, and loads read through views.

A result goes through a chain of operators that only move elements, until something else reads it. As far as a launch's
stores can address it they write the end of the chain; else its readers' loads read it through the rest. What an
instruction can address is asked of the stages themselves, region by region.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from tvm import ir, relax

from accel.accelerator.target import Target
from accel.lowering.ir.function_attributes import LaunchInfo
from accel.lowering.movement.launch_graph import Launch, LaunchGraph, Moved, Window
from accel.lowering.movement.movement_operators import onwards, shape_of_value, windows_of
from accel.lowering.movement.movement_programs import movement_programs
from accel.lowering.movement.program_orders import lying
from accel.lowering.movement.region_prices import Price, RegionPrices
from accel.region.affine_view import AffineView, NotAffineError, whole
from accel.region.kinds import AnyRegion, VectorRegion, Views
from accel.region.vector_program import UNIT

MOVE = "move"
"""The operator of launches that only move a tensor."""


def absorb_movement(module: ir.IRModule, target: Target, price: Price) -> ir.IRModule:
    """Returns a packed module in which launches do what they can of the movement between them."""
    return _Absorber(module, target, price).module()


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
        self._module, self._accelerator = module, target.accelerator
        self._graph = LaunchGraph(module, target.contraction)
        self._prices = RegionPrices(target.accelerator, price)
        gemm = target.contraction
        self._tiles = {gemm.rows, gemm.in_channels, gemm.out_channels} - {1}

    def module(self) -> ir.IRModule:
        """The module in which launches do what they can."""
        stored = set(self._module["main"].params) | set(self._graph.launches)
        stored |= {
            var
            for var, value in self._graph.values.items()
            if isinstance(value, relax.TupleGetItem) and value.tuple_value in self._graph.launches
        }
        # those of the model: patches, which packing joins, repeat elements, and are many programs
        held = {
            var: list(self._makers(var, stored))
            for var, value in self._graph.values.items()
            if str(var.name) in self._graph.nodes and any(windows_of(value))
        }
        waiting = {launch.var for launches in held.values() for launch in launches}
        for var in list(self._graph.values):  # each once what it reads is where it stays
            if var in held:
                if not self._join(var, stored):
                    self._store_all(held[var], stored)
            elif (launch := self._graph.launches.get(var)) is not None:
                self._load(launch, stored)
                if launch.var not in waiting:
                    self._store_all([launch], stored)
        for launch in list(self._graph.launches.values()):
            self._move(launch, stored)
        self._graph.unmoved = dict(self._graph.unmoved_by(stored))
        return self._graph.rebuilt()

    def _store_all(self, launches: Iterable[Launch], stored: set[relax.Var]) -> None:
        for launch in launches:
            stored.discard(launch.var)
            self._store(launch)
            stored.add(launch.var)

    # parts of a concatenation

    def _makers(self, var: relax.Var, stored: set[relax.Var]) -> Iterator[Launch]:
        """The launches whose results only a concatenation reads."""
        for operand, _ in windows_of(self._graph.values[var]):
            chain = self._graph.chain(operand, stored) or []
            if chain and self._graph.is_alone(chain) and chain[-1] in self._graph.launches:
                yield self._graph.launches[chain[-1]]

    def _join(self, whole_var: relax.Var, stored: set[relax.Var]) -> bool:
        """Let what a concatenation joins be stored side by side, by those who make it or by programs that move it.

        False where the host has a part of it, or where one cannot.
        """
        parts: list[Launch] = []
        for number, (operand, first) in enumerate(windows_of(self._graph.values[whole_var])):
            var = relax.DataflowVar(f"{whole_var.name}_part{number}", whole_var.ty)
            if str(whole_var.name) in self._graph.nodes:
                self._graph.nodes[str(var.name)] = self._graph.nodes[str(whole_var.name)]
            part = self._part(operand, first, var, stored)
            if part is None:
                return False
            parts.append(part)
        for part in parts:
            if part.was is not None:
                stored.discard(part.was)
                self._graph.launches[part.was] = part
        self._graph.joined[whole_var] = parts
        stored.add(whole_var)
        return True

    def _part(
        self, operand: relax.Expr, first: tuple[int, ...], var: relax.Var, stored: set[relax.Var]
    ) -> Launch | None:
        """The launch that stores an operand where it belongs in a concatenation: as it is made, or a program."""
        chain = self._graph.chain(operand, stored)
        if chain is None:
            return None
        launch = self._graph.launches.get(chain[-1]) if isinstance(chain[-1], relax.Var) else None
        window = Window(shape_of_value(var) or (), first)
        if launch is not None and launch.var is launch.was and self._graph.is_alone(chain):
            with suppress(NotAffineError):
                _, view, fill = self._graph.views_at(chain, len(chain) - 1, window)
                views = _with_view(launch.region.views, len(launch.arguments), view)
                region = self._in_best_order(replace(launch.region, views=views))
                dense = isinstance(launch.region, VectorRegion) or view.has_dense_rows
                if region is not None and dense and fill is None and self._prices.can(region):
                    info = self._graph.with_nodes(launch.info, (*chain[:-1], var))
                    return replace(launch, var=var, region=region, info=info, changed=True)
        return next(self._moving(chain, var, window), None)

    # stores

    def _store(self, launch: Launch) -> None:
        """Let the stores of a launch write where it costs the least, along the movement behind it."""
        options = list(_unlike(self._destinations(launch)))
        options += self._in_other_orders(launch)
        if not options:
            return
        readers = self._readers_of(launch.var)
        # one that costs the same is better farther away, and best where the result is
        found: list[tuple[tuple[int, int], int, _Destination | None, AnyRegion]] = []
        found.append((self._cost(launch.region, None, launch.var, readers), 0, None, launch.region))
        for distance, destination in enumerate(options):
            views = _with_view(launch.region.views, len(launch.arguments), destination.view)
            region = self._in_best_order(replace(launch.region, views=views))
            if region is None:
                continue
            if destination.order:
                self._graph.values[launch.var] = _ordered(destination)
            cost = self._cost(region, destination.view, destination.var, readers)
            found.append((cost, -1 - distance if not destination.order else 1, destination, region))
            if destination.order:
                del self._graph.values[launch.var]
        for _, _, best, region in sorted(found, key=lambda option: option[:2]):
            if best is None:
                return
            if self._prices.can(region):
                border = launch.info.border if best.fill is None else int(best.fill)
                launch.info = replace(self._graph.with_nodes(launch.info, best.passed), border=border)
                launch.region, launch.var, launch.changed = region, best.var, True
                if best.order and launch.was is not None:
                    self._graph.values[launch.was] = self._graph.ordered[launch.was] = _ordered(best)
                return

    def _in_other_orders(self, launch: Launch) -> Iterator[_Destination]:
        """Tensors of the axes of a vector program's result in the orders in which its operands lie."""
        shape = shape_of_value(launch.var)
        if not isinstance(launch.region, VectorRegion) or shape is None or launch.var in self._graph.returned:
            return
        axes = launch.region.shape.in_dram[len(launch.arguments)].axes
        for order in dict.fromkeys(lying(launch.region)):
            dimensions = sorted(
                range(len(axes)), key=lambda place: -1 if axes[place] == UNIT else order.index(axes[place])
            )
            if dimensions != sorted(dimensions):
                extents = [shape[dimension] for dimension in dimensions]
                var = relax.DataflowVar(f"{launch.var.name}_lying", relax.TensorType(extents, launch.var.ty.dtype))
                back_again = tuple(dimensions.index(dimension) for dimension in range(len(axes)))
                view = whole(shape).permuted(back_again).view()
                yield _Destination(var, (), view, None, back_again)

    def _readers_of(self, var: relax.Var) -> list[tuple[Launch, int]]:
        """The arguments of launches that come of a result."""
        return [
            (launch, place)
            for launch in self._graph.launches.values()
            for place, argument in enumerate(launch.arguments)
            if argument is var or self._graph.source(argument, {var}) is not None
        ]

    def _cost(
        self, region: AnyRegion, view: AffineView | None, var: relax.Var, readers: Sequence[tuple[Launch, int]]
    ) -> tuple[int, int]:
        """What it costs that a region leaves ``var``: readers that cannot read it, and cycles of vector programs.

        Regions of contractions move whole elements of memories, wherever these lie, in nearly the same time.
        """
        own = self._prices.best(region) if isinstance(region, VectorRegion) else None
        cycles = 0 if own is None else own[0]
        unable = int(view is not None and not view.has_dense_rows and not isinstance(region, VectorRegion))
        for launch, place in readers:
            moved = self._graph.source(launch.arguments[place], {var})
            read = launch.region if moved is None else self._through(launch, {place: moved})
            priced = self._prices.best(read) if isinstance(read, VectorRegion) else None
            if priced is not None or (
                not isinstance(read, VectorRegion) and (moved is None or moved[2].has_dense_rows)
            ):
                cycles += 0 if priced is None else priced[0]
                continue
            program = self._cycles_of_move(launch.arguments[place], var)
            unable += program is None
            cycles += program or 0
        return unable, cycles

    def _cycles_of_move(self, argument: relax.Expr, var: relax.Var) -> int | None:
        """What a program takes that makes an argument of a variable; None where no instructions do."""
        chain = self._graph.chain(argument, {var})
        found = None if chain is None else next(self._moving(chain, var, None), None)
        return None if found is None else self._prices.price(found.region)

    def _in_best_order(self, region: AnyRegion) -> AnyRegion | None:
        """A region in the order that takes the fewest cycles; None where no instructions do it."""
        if not isinstance(region, VectorRegion):
            return region
        found = self._prices.best(region)
        return None if found is None else found[1]

    def _destinations(self, launch: Launch) -> Iterator[_Destination]:
        """The ends of the movement behind a result that nobody else reads, the nearest first."""
        shape = shape_of_value(launch.var)
        if shape is None:
            return
        at, view, passed = launch.var, whole(shape), list[relax.Var]()
        fill: float | None = None if launch.info.border is None else float(launch.info.border)
        while len(self._graph.readers[at]) == 1 and at not in self._graph.returned:
            (reader,) = self._graph.readers[at]
            if reader in self._graph.launches:
                return
            try:
                view, around = onwards(self._graph.values[reader], at, view)
            except NotAffineError:
                return
            if around is not None and fill is not None and around != fill:
                return
            fill = fill if around is None else around
            passed.append(reader)
            at = reader
            yield _Destination(reader, tuple(passed), view.view(), fill)

    # loads

    def _load(self, launch: Launch, stored: set[relax.Var]) -> None:
        """Let the loads of a launch read what lies in DRAM through the movement before it, as far as they can."""
        moved = {}
        for place, argument in enumerate(launch.arguments):
            found = self._graph.source(argument, stored)
            if found is not None:
                moved[place] = found
        if not moved:
            return
        if self._read(launch, moved) or len(moved) == 1:
            return
        for place, source in moved.items():
            self._read(launch, {place: source})

    def _through(self, launch: Launch, moved: Mapping[int, Moved]) -> AnyRegion:
        views: Views = launch.region.views
        for place, (_, _, view) in moved.items():
            views = _with_view(views, place, view)
        return replace(launch.region, views=views)

    def _read(self, launch: Launch, moved: Mapping[int, Moved]) -> bool:
        """Let a launch read arguments where they are moved from; False if no loads can."""
        whole_rows = isinstance(launch.region, VectorRegion) or all(
            view.has_dense_rows for _, _, view in moved.values()
        )
        region = self._in_best_order(self._through(launch, moved)) if whole_rows else None
        if region is None or not self._prices.can(region):
            return False
        launch.region, launch.changed = region, True
        for place, (source, passed, _) in moved.items():
            launch.arguments[place] = source
            launch.info = self._graph.with_nodes(launch.info, passed)
        return True

    # programs of their own

    def _move(self, launch: Launch, stored: set[relax.Var]) -> None:
        """Let programs that only move tensors make the arguments that no loads and no stores do."""
        for argument in launch.arguments:
            if not isinstance(argument, relax.Var) or argument in stored:
                continue
            chain = self._graph.chain(argument, stored)
            if chain is None:
                continue
            found = next(self._moving(chain, argument, None), None)
            pieces = None if found is not None else next(self._in_pieces(chain, argument), None)
            if found is not None:
                info = found.info if found.info.nodes else replace(found.info, name=launch.info.name)
                self._graph.launches[argument] = replace(found, info=info)
            elif pieces is not None:
                self._graph.joined[argument] = pieces
            if found is not None or pieces is not None:
                stored.add(argument)

    def _moving(self, chain: Sequence[relax.Expr], var: relax.Var, window: Window | None) -> Iterator[Launch]:
        """The launches that make ``var`` of what lies in DRAM, the end of a chain; or a window of it."""
        for middle in reversed(range(len(chain))):
            found = self._moving_at(chain, middle, var, window)
            if found is not None:
                yield found

    def _moving_at(
        self,
        chain: Sequence[relax.Expr],
        middle: int,
        var: relax.Var,
        window: Window | None,
        piece: Window | None = None,
    ) -> Launch | None:
        try:
            source, result, fill = self._graph.views_at(chain, middle, window, piece)
        except NotAffineError:
            return None
        programs = movement_programs(source, result, str(var.ty.dtype), self._accelerator)
        region = self._prices.cheapest(programs)
        if region is None:
            return None
        info = LaunchInfo(name="", op=MOVE, nodes=(), macs=0, border=None if fill is None else int(fill))
        passed = [each for each in chain[:-1] if isinstance(each, relax.Var)]
        info = self._graph.with_nodes(info, (*passed, var))
        info = replace(info, name=next(iter(info.nodes), str(var.name)))
        return Launch(var, region, [chain[-1]], info, None, changed=True)

    def _in_pieces(self, chain: Sequence[relax.Expr], whole_var: relax.Var) -> Iterator[list[Launch]]:
        """The launches that make a variable in two pieces, one of them of whole tiles, as padding fills the rest."""
        for middle in reversed(range(1, len(chain))):
            shape = shape_of_value(chain[middle]) or ()
            for axis, extent in enumerate(shape):
                for whole_tiles in sorted({extent - extent % tile for tile in self._tiles} - {0, extent}):
                    parts = []
                    for number, (first, count) in enumerate(((0, whole_tiles), (whole_tiles, extent - whole_tiles))):
                        begun, extents = [0] * len(shape), list(shape)
                        begun[axis], extents[axis] = first, count
                        var = relax.DataflowVar(f"{whole_var.name}_piece{number}", whole_var.ty)
                        piece = Window(tuple(extents), tuple(begun))
                        parts.append(self._moving_at(chain, middle, var, None, piece))
                    known = [part for part in parts if part is not None]
                    if len(known) == len(parts):
                        yield known


def _with_view(views: Views, place: int, view: AffineView) -> Views:
    """The views with that of one parameter."""
    wide = [*views, *[None] * (place + 1 - len(views))]
    wide[place] = view
    return tuple(wide)
