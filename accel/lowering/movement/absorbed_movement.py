"""Movement between launches becomes addresses: stores go where a result is moved to, and loads read through views.

A result goes through a chain of operators that only move elements, until something else reads it. As far as a launch's
stores can address it they write the end of the chain; else its readers' loads read it through the rest. What an
instruction can address is asked of the stages themselves, region by region.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from tvm import ir, relax

from accel.accelerator.target import Target
from accel.lowering.movement.joined_parts import Joins
from accel.lowering.movement.launch_costs import LaunchCosts, read_through, stored_in_order, with_view
from accel.lowering.movement.launch_graph import Destination, Launch, LaunchGraph, Moved
from accel.lowering.movement.movement_operators import shape_of_value, windows_of
from accel.lowering.movement.program_orders import result_orders
from accel.lowering.movement.region_prices import RegionPrices
from accel.region.affine_view import NotAffineError, Piece, pieces
from accel.region.kinds import AnyRegion, Prices, VectorRegion


def absorb_movement(module: ir.IRModule, target: Target, prices: Prices) -> ir.IRModule:
    """Returns a packed module in which launches do what they can of the movement between them."""
    return _Absorber(module, target, RegionPrices(target, prices)).module()


class _Store(NamedTuple):
    """A way to store a result: readers that cannot read it and cycles, which of equals is better, where, and how."""

    cost: tuple[int, int]
    rank: int
    destination: Destination | None
    region: AnyRegion


class _Way(NamedTuple):
    """A way to an argument: the cycles of the programs that make ``var``, and of what goes on from there.

    That is the launch, as ``region``, which reads it ``moved``; or another program, the ``rest``; or nothing.
    """

    cycles: int
    made: list[Launch]
    var: relax.Var
    region: AnyRegion | None = None
    moved: Moved | None = None
    rest: Launch | None = None


class _Both(NamedTuple):
    """All that a contraction could read through movement, by places, and the best way to store its result then."""

    moved: Mapping[int, Moved]
    store: _Store


def _ordered(destination: Destination) -> ir.Call:
    """The result, of what is stored in another order."""
    made: ir.Call = relax.BlockBuilder().normalize(relax.op.permute_dims(destination.var, list(destination.order)))
    return made


def _unlike(destinations: Iterable[Destination]) -> Iterator[Destination]:
    """Of destinations at which each element has the same address only the farthest."""
    last: Destination | None = None
    for each in destinations:
        if last is not None and not last.view.lies_like(each.view):
            yield last
        last = each
    if last is not None:
        yield last


class _Absorber:
    """``main``, launch by launch."""

    def __init__(self, module: ir.IRModule, target: Target, prices: RegionPrices) -> None:
        self._module = module
        self._graph = LaunchGraph(module, target.contraction)
        self._prices = prices
        self._costs = LaunchCosts(self._graph, self._prices)
        gemm = target.contraction
        self._tiles = {gemm.rows, gemm.in_channels, gemm.out_channels} - {1}
        self._joins = Joins(self._graph, self._prices, self._costs, self._tiles)
        self._foreseen: dict[relax.Var, _Both] = {}  # as long as all before them has become as foreseen

    def module(self) -> ir.IRModule:
        """The module in which launches do what they can."""
        stored = set(self._module["main"].params) | set(self._graph.launches)
        stored |= {
            var
            for var, value in self._graph.values.items()
            if isinstance(value, relax.TupleGetItem) and value.tuple_value in self._graph.launches
        }
        held = {
            var: list(self._joins.makers(var, stored))
            for var, value in self._graph.values.items()
            if any(windows_of(value)) and self._joins.is_worthwhile(var, stored)
        }
        waiting = {launch.var for launches in held.values() for launch in launches}
        self._foresee(stored, waiting)
        for var in list(self._graph.values):  # each once what it reads is where it stays
            if var in held:
                self._foreseen.clear()
                if not self._joins.join(var, stored):
                    self._store_all(held[var], stored)
            elif (launch := self._graph.launches.get(var)) is not None:
                if launch.var in waiting:
                    self._load(launch, stored)
                elif not self._load_and_store(launch, stored):
                    self._load(launch, stored)
                    self._store_all([launch], stored)
        for launch in list(self._graph.launches.values()):
            self._move(launch, stored)
        for launch in self._graph.launches.values():
            if isinstance(launch.region, VectorRegion):
                region = self._prices.as_settled(launch.region)
                launch.changed |= region is not launch.region
                launch.region = region
        self._graph.unmoved = dict(self._graph.unmoved_by(stored))
        return self._graph.rebuilt()

    def _store_all(self, launches: Iterable[Launch], stored: set[relax.Var]) -> None:
        for launch in launches:
            stored.discard(launch.var)
            self._store(launch)
            stored.add(launch.var)

    # loads and stores

    def _foresee(self, stored: set[relax.Var], waiting: set[relax.Var]) -> None:
        """Ask for the prices of what will probably become of contractions, together: another process may take half."""
        launches = self._graph.launches.values()
        if any(isinstance(launch.region, VectorRegion) for launch in launches):
            return  # what these read and store decides what contractions do
        there, regions = set(stored), list[AnyRegion]()
        for launch in launches:
            found = None if launch.var in waiting else self._both(launch, there)
            if found is None:
                continue
            self._foreseen[launch.var] = found
            store = found.store
            regions += [store.region, launch.region] if store.region is not launch.region else []
            if store.destination is not None:
                there.discard(launch.var)
                there.add(store.destination.var)
        self._prices.price_all(regions)

    def _load_and_store(self, launch: Launch, stored: set[relax.Var]) -> bool:
        """Let a contraction do all movement before and behind it at once; False if it has to be seen one by one."""
        found = self._foreseen.get(launch.var) or self._both(launch, stored)
        if found is not None and found.store.region is launch.region:
            return True
        if found is None or not self._prices.can(found.store.region):
            self._foreseen.clear()
            return False
        stored.discard(launch.var)
        if found.moved:
            self._note_read(launch, found.store.region, found.moved)
        self._note_stored(launch, found.store)
        stored.add(launch.var)
        return True

    def _both(self, launch: Launch, stored: set[relax.Var]) -> _Both | None:
        """What a contraction does if it does all that it could."""
        moved = self._sources(launch, stored)
        if isinstance(launch.region, VectorRegion) or not all(view.has_dense_rows for _, _, view in moved.values()):
            return None
        reading = replace(launch, region=read_through(launch, moved)) if moved else launch
        return _Both(moved, self._stores(reading)[0])

    def _sources(self, launch: Launch, stored: set[relax.Var]) -> dict[int, Moved]:
        """The tensors in DRAM that arguments are moved from, by the arguments' places."""
        sources = ((place, self._graph.source(argument, stored)) for place, argument in enumerate(launch.arguments))
        return {place: source for place, source in sources if source is not None}

    def _note_read(self, launch: Launch, region: AnyRegion, moved: Mapping[int, Moved]) -> None:
        """Let a launch be the region that reads arguments where they are moved from."""
        launch.region, launch.changed = region, True
        for place, (source, passed, _) in moved.items():
            launch.arguments[place] = source
            launch.info = self._graph.with_nodes(launch.info, passed)

    def _note_stored(self, launch: Launch, store: _Store) -> None:
        """Let a launch store its result so."""
        best = store.destination
        if best is None:
            return
        border = launch.info.border if best.fill is None else int(best.fill)
        launch.info = replace(self._graph.with_nodes(launch.info, best.passed), border=border)
        launch.region, launch.var, launch.changed = store.region, best.var, True
        if best.order and launch.was is not None:
            self._graph.order(launch.was, _ordered(best))

    # stores

    def _store(self, launch: Launch) -> None:
        """Let the stores of a launch write where it costs the least, along the movement behind it."""
        for store in self._stores(launch):
            if store.destination is None or self._prices.can(store.region):
                self._note_stored(launch, store)
                return

    def _stores(self, launch: Launch) -> list[_Store]:
        """The ways in which a launch may store its result, the cheapest first; the one that it has is among them."""
        readers = self._graph.readers_of(launch.var)
        # one that costs the same is better farther away, and best where the result is
        places = list(self._places(launch))
        asked = [(self._costs, launch.var), *((costs, destination.var) for destination, _, costs in places)]
        reads = [costs.asked_for(var, readers) for costs, var in asked]
        regions = [launch.region, *(region for _, region, _ in places), *(each for read, _ in reads for each in read)]
        self._prices.foresee(regions, [move for _, moves in reads for move in moves])
        found = [_Store(self._costs.of_result(launch.region, None, launch.var, readers), 0, None, launch.region)]
        for distance, (destination, viewed, costs) in enumerate(places):
            region = self._prices.in_best_order(viewed)
            if region is None:
                continue
            cost = costs.of_result(region, destination.view, destination.var, readers)
            found.append(_Store(cost, 1 if destination.order else -1 - distance, destination, region))
        return sorted(found, key=lambda store: (store.cost, store.rank))

    def _places(self, launch: Launch) -> Iterator[tuple[Destination, AnyRegion, LaunchCosts]]:
        """Yields where a launch may store its result, its region then, and the costs if the result were there."""
        for destination in [
            *_unlike(self._graph.destinations(launch.var, launch.info.border)),
            *self._in_other_orders(launch),
        ]:
            views = with_view(launch.region.views, len(launch.arguments), destination.view)
            supposed = self._costs.supposing(launch.var, _ordered(destination)) if destination.order else self._costs
            yield destination, replace(launch.region, views=views), supposed

    def _in_other_orders(self, launch: Launch) -> Iterator[Destination]:
        """Tensors of the axes of a vector program's result in the orders in which its operands lie."""
        shape = shape_of_value(launch.var)
        if not isinstance(launch.region, VectorRegion) or shape is None or launch.var in self._graph.returned:
            return
        for order in result_orders(launch.region, len(launch.arguments)):
            extents, view, back_again = stored_in_order(shape, order)
            var = relax.DataflowVar(f"{launch.var.name}_lying", relax.TensorType(extents, launch.var.ty.dtype))
            yield Destination(var, (), view, None, back_again)

    # loads

    def _load(self, launch: Launch, stored: set[relax.Var]) -> None:
        """Let the loads of a launch read what lies in DRAM through the movement before it, where that is best."""
        moved = self._sources(launch, stored)
        before = replace(launch, arguments=list(launch.arguments))
        self._read_all(launch, moved)
        dear = {
            place: cycles
            for place, source in moved.items()
            if launch.arguments[place] is not before.arguments[place]
            and (cycles := self._costs.of_better_move(before, place, source)) is not None
        }
        if not dear:
            return
        # how a result is best stored depends on how its operands are read
        self._read_all(before, {place: source for place, source in moved.items() if place not in dear})
        unable, cycles = self._stores(before)[0].cost
        if (unable, cycles + sum(dear.values())) < self._stores(launch)[0].cost:
            launch.region, launch.arguments, launch.info = before.region, before.arguments, before.info

    def _read_all(self, launch: Launch, moved: Mapping[int, Moved]) -> None:
        """Let a launch read all arguments where they are moved from; or, if no loads can, those that they can."""
        if moved and not self._read(launch, moved) and len(moved) > 1:
            for place, source in moved.items():
                self._read(launch, {place: source})

    def _read(self, launch: Launch, moved: Mapping[int, Moved]) -> bool:
        """Let a launch read arguments where they are moved from; False if no loads can."""
        whole_rows = isinstance(launch.region, VectorRegion) or all(
            view.has_dense_rows for _, _, view in moved.values()
        )
        region = self._prices.in_best_order(read_through(launch, moved)) if whole_rows else None
        if region is None or not self._prices.can(region):
            return False
        self._note_read(launch, region, moved)
        return True

    # programs of their own

    def _move(self, launch: Launch, stored: set[relax.Var]) -> None:
        """Let programs that only move tensors make the arguments that no loads and no stores do."""
        for place, argument in enumerate(launch.arguments):
            if not isinstance(argument, relax.Var) or argument in stored:
                continue
            chain = self._graph.chain(argument, stored)
            if chain is None:
                continue
            made = self._programs(chain, argument, range(len(chain) - 1, 0, -1))
            ways = list(self._by_way(launch, place, chain, stored)) if made is None or len(made) > 1 else []
            ways += [] if made is None else [_Way(self._cycles(made), made, argument)]
            if not ways:
                continue
            best = min(ways, key=lambda way: way.cycles)
            self._make(best.var, best.made, launch, stored)
            if best.region is not None and best.moved is not None:
                launch.region, launch.changed = best.region, True
                launch.arguments[place] = best.moved[0]
                launch.info = self._graph.with_nodes(launch.info, best.moved[1])
            elif best.rest is not None:
                self._make(argument, [best.rest], launch, stored)

    def _programs(self, chain: Sequence[relax.Expr], var: relax.Var, middles: Sequence[int]) -> list[Launch] | None:
        """The programs that make a variable of the end of its chain: one, or two of a piece each; None if none do.

        The pieces are of a tensor of the chain, of which ``middles`` are tried.
        """
        found = next(self._costs.programs(chain, var, None), None)
        return [found] if found is not None else next(self._in_pieces(chain, var, middles), None)

    def _cycles(self, programs: Iterable[Launch]) -> int:
        """What programs take that instructions are known to do."""
        return sum(self._prices.price(each.region) or 0 for each in programs)

    def _make(self, var: relax.Var, programs: list[Launch], launch: Launch, stored: set[relax.Var]) -> None:
        """Let programs make a variable that a launch reads, or that what it reads is moved from."""
        named = [
            each if each.info.nodes else replace(each, info=replace(each.info, name=launch.info.name))
            for each in programs
        ]
        if len(named) == 1:
            self._graph.moves[var] = named[0]
        else:
            self._graph.joined[var] = named
        stored.add(var)

    def _by_way(
        self, launch: Launch, place: int, chain: Sequence[relax.Expr], stored: set[relax.Var]
    ) -> Iterator["_Way"]:
        """The ways to make a tensor on the way to an argument, from which the launch, or a program, moves it on."""
        argument = launch.arguments[place]
        for middle in range(1, len(chain) - 1):
            var = chain[middle]
            assert isinstance(var, relax.Var)
            made = self._programs(chain[middle:], var, [0])
            if made is None:
                continue
            cycles = self._cycles(made)
            moved = self._graph.source(argument, stored | {var})
            read = None if moved is None else self._costs.of_reading(launch, place, moved)
            if moved is not None and read is not None:
                yield _Way(cycles + read[0], made, var, region=read[1], moved=moved)
            rest = next(self._costs.programs(chain[: middle + 1], argument, None), None)
            if rest is not None:
                yield _Way(cycles + self._cycles([rest]), made, var, rest=rest)

    def _in_pieces(
        self, chain: Sequence[relax.Expr], whole_var: relax.Var, middles: Sequence[int]
    ) -> Iterator[list[Launch]]:
        """The launches that make a variable in pieces, each within one block where it lies and where it is read."""
        for middle in middles:
            shape = shape_of_value(chain[middle]) or ()
            for axis, extent in enumerate(shape):
                for tile in sorted(self._tiles):
                    for offset in self._offsets(chain, middle, axis, tile):
                        if made := self._costs.in_pieces(
                            chain, middle, whole_var, None, pieces(extent, axis, tile, offset)
                        ):
                            yield made

    def _offsets(self, chain: Sequence[relax.Expr], middle: int, axis: int, tile: int) -> list[int]:
        """Where in a block the first element along an axis may lie, in DRAM or where it is moved to."""
        try:
            source, result, _ = self._graph.views_at(chain, middle, None, Piece(axis, 0, 1, 1, 1))
        except NotAffineError:
            return [0]
        return sorted({0, *(first % tile for first in (*source.first, *result.first))})
