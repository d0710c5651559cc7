"""What it costs to read a tensor where it lies, and the programs that move it first."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from tvm import relax

from accel.lowering.ir.function_attributes import LaunchInfo
from accel.lowering.movement.launch_graph import Launch, LaunchGraph, Moved, Window
from accel.lowering.movement.movement_operators import shape_of_value
from accel.lowering.movement.program_orders import result_orders
from accel.lowering.movement.region_prices import Move, RegionPrices
from accel.region.affine_view import AffineView, NotAffineError, Piece, whole
from accel.region.kinds import AnyRegion, VectorRegion, Views

MOVE = "move"
"""The operator of launches that only move a tensor."""


class LaunchCosts:
    """Costs of the launches of one graph: as it stands, or as it would be."""

    def __init__(self, graph: LaunchGraph, prices: RegionPrices) -> None:
        self._graph, self._prices = graph, prices

    def supposing(self, var: relax.Var, value: relax.Expr) -> "LaunchCosts":
        """Returns the costs if a variable were bound to something else."""
        return LaunchCosts(self._graph.supposing(var, value), self._prices)

    def of_result(
        self, region: AnyRegion, view: AffineView | None, var: relax.Var, readers: Sequence[tuple[Launch, int]]
    ) -> tuple[int, int]:
        """What it costs that a region leaves ``var``: readers that cannot read it, and cycles of vector programs.

        Regions of contractions move whole elements of memories, wherever these lie, in nearly the same time.
        """
        cycles = (self._prices.cycles(region) if isinstance(region, VectorRegion) else None) or 0
        own = int(view is not None and not self._prices.may_store(region, view))
        unable, read = self.of_readers(var, readers)
        return own + unable, cycles + read

    def of_readers(self, var: relax.Var, readers: Sequence[tuple[Launch, int]]) -> tuple[int, int]:
        """Returns how many readers cannot read ``var``, and the cycles of vector programs that the others take."""
        unable, cycles = 0, 0
        for launch, place in readers:
            moved = self._graph.source(launch.arguments[place], {var})
            if moved is None and not launch.arguments[place].same_as(var):  # no affine map of it
                unable += 1
                continue
            known = [self._of_read(launch, place, moved)]
            if known != [0]:
                known += self._of_reads_in_orders(launch, place, moved)
            program = None if moved is None or known == [0] else self._of_move(launch.arguments[place], var)
            if program is not None:
                known.append(program + (self._of_read(launch, place, None) or 0))
            able = [each for each in known if each is not None]
            unable += not able
            cycles += min(able, default=0)
        return unable, cycles

    def asked_for(self, var: relax.Var, readers: Sequence[tuple[Launch, int]]) -> tuple[list[AnyRegion], list[Move]]:
        """Returns the readers, and the moves, that :meth:`of_result` will ask the prices of."""
        regions, moves = list[AnyRegion](), list[Move]()
        for launch, place in readers:
            moved = self._graph.source(launch.arguments[place], {var})
            if moved is None and not launch.arguments[place].same_as(var):
                continue
            read = launch.region if moved is None else read_through(launch, {place: moved})
            if isinstance(read, VectorRegion):
                regions += [read, *self._reads_in_orders(launch, read)]
            elif moved is None or moved[2].has_dense_rows:
                continue
            chain = None if moved is None else self._graph.chain(launch.arguments[place], {var})
            if chain is not None:
                with suppress(NotAffineError):
                    source, result, _ = self._graph.views_at(chain, len(chain) - 1, None)
                    moves.append((source, result, str(var.ty.dtype)))
        return regions, moves

    def of_better_move(self, launch: Launch, place: int, moved: Moved) -> int | None:
        """The cycles of a program that moves an argument of a vector program, if both take fewer then; else None."""
        if not isinstance(launch.region, VectorRegion) or moved[2].is_plain:
            return None
        read, plain = self._of_read(launch, place, moved), self._of_read(launch, place, None)
        program = self._of_move(launch.arguments[place], moved[0])
        if read is None or plain is None or program is None:
            return None
        return program if program + plain < read else None

    def of_reading(self, launch: Launch, place: int, moved: Moved) -> tuple[int, AnyRegion] | None:
        """The cycles that a launch takes more if it reads an argument through a view, and its region then.

        None where no instructions do it; a contraction takes what it takes.
        """
        region = read_through(launch, {place: moved})
        if not isinstance(region, VectorRegion) or not isinstance(launch.region, VectorRegion):
            return (0, region) if moved[2].has_dense_rows and self._prices.can(region) else None
        read, plain = self._prices.best(region), self._prices.best(launch.region)
        if read is None or plain is None or not self._prices.can(read[1]):
            return None
        return read[0] - plain[0], read[1]

    def _of_read(self, launch: Launch, place: int, moved: Moved | None) -> int | None:
        """What a launch takes that reads an argument through a view, or as it is; None where no instructions do.

        A contraction, which moves whole elements of memories, takes what it takes.
        """
        read = launch.region if moved is None else read_through(launch, {place: moved})
        if not isinstance(read, VectorRegion):
            return 0 if moved is None or moved[2].has_dense_rows else None
        return self._prices.cycles(read)

    def _of_reads_in_orders(self, launch: Launch, place: int, moved: Moved | None) -> Iterator[int]:
        """Yields what a vector program takes that stores its own result in an order in which it reads."""
        read = launch.region if moved is None else read_through(launch, {place: moved})
        for stored in self._reads_in_orders(launch, read):
            if (cycles := self._prices.cycles(stored)) is not None:
                yield cycles

    def _reads_in_orders(self, launch: Launch, read: AnyRegion) -> Iterator[VectorRegion]:
        """The vector program of a launch, which reads so, with its result stored in the orders in which it reads."""
        result, shape = len(launch.arguments), shape_of_value(launch.var)
        if not isinstance(read, VectorRegion) or shape is None or launch.var in self._graph.returned:
            return
        if any(view is not None for view in read.views[result:]):
            return
        for order in result_orders(read, result):
            _, view, _ = stored_in_order(shape, order)
            yield replace(read, views=with_view(read.views, result, view))

    def _of_move(self, argument: relax.Expr, var: relax.Var) -> int | None:
        """What a program takes that makes an argument of a variable; None where no instructions do."""
        chain = self._graph.chain(argument, {var})
        found = None if chain is None else next(self.programs(chain, var, None), None)
        return None if found is None else self._prices.price(found.region)

    def programs(self, chain: Sequence[relax.Expr], var: relax.Var, window: Window | None) -> Iterator[Launch]:
        """Yields the launches that make ``var`` of what lies in DRAM, the end of a chain; or a window of it."""
        for middle in reversed(range(len(chain))):
            found = self.program_at(chain, middle, var, window)
            if found is not None:
                yield found

    def program_at(
        self,
        chain: Sequence[relax.Expr],
        middle: int,
        var: relax.Var,
        window: Window | None,
        piece: Piece | None = None,
    ) -> Launch | None:
        """Returns the launch that moves what is in the middle of a chain, or a piece of it; None if none does."""
        if not self._prices.may_move(str(var.ty.dtype)):
            return None
        try:
            source, result, fill = self._graph.views_at(chain, middle, window, piece)
        except NotAffineError:
            return None
        region = self._prices.moving(source, result, str(var.ty.dtype))
        if region is None:
            return None
        info = LaunchInfo(name="", op=MOVE, nodes=(), macs=0, border=None if fill is None else int(fill))
        passed = [each for each in chain[:-1] if isinstance(each, relax.Var)]
        info = self._graph.with_nodes(info, (*passed, var))
        info = replace(info, name=next(iter(info.nodes), str(var.name)))
        return Launch(var, region, [chain[-1]], info, None, changed=True)

    def in_pieces(
        self,
        chain: Sequence[relax.Expr],
        middle: int,
        whole_var: relax.Var,
        window: Window | None,
        parts: Sequence[Piece],
    ) -> list[Launch]:
        """Returns the launches that move pieces of what is in the middle of a chain; none if one of them does not."""
        made = list[Launch]()
        for part in parts if len(parts) > 1 else ():
            var = relax.DataflowVar(f"{whole_var.name}_piece{len(made)}", whole_var.ty)
            if (node := self._graph.nodes.get(str(whole_var.name))) is not None:
                self._graph.nodes[str(var.name)] = node
            found = self.program_at(chain, middle, var, window, part)
            if found is None:
                return []
            made.append(found)
        return made


def read_through(launch: Launch, moved: Mapping[int, Moved]) -> AnyRegion:
    """Returns the region of a launch that reads arguments where they are moved from."""
    views: Views = launch.region.views
    for place, (_, _, view) in moved.items():
        views = with_view(views, place, view)
    return replace(launch.region, views=views)


def stored_in_order(shape: Sequence[int], order: Sequence[int]) -> tuple[tuple[int, ...], AffineView, tuple[int, ...]]:
    """Returns the shape of a tensor of these dimensions in another order, the view of it, and what undoes the order."""
    back_again = tuple(order.index(dimension) for dimension in range(len(order)))
    return tuple(shape[dimension] for dimension in order), whole(shape).permuted(back_again).view(), back_again


def with_view(views: Views, place: int, view: AffineView) -> Views:
    """Returns the views with that of one parameter."""
    wide = [*views, *[None] * (place + 1 - len(views))]
    wide[place] = view
    return tuple(wide)
