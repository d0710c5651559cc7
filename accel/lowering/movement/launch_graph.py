"""The packed graph as movement sees it: launches, what moves between them, and the module of launches that changed."""

import copy
import itertools
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from tvm import ir, relax

from accel.accelerator.contraction import Contraction
from accel.frontend.integer_recovery.recover_integers import HOST_NODES
from accel.lowering.ir.function_attributes import (
    LAUNCHES,
    REGION,
    STORED,
    UNMOVED,
    LaunchInfo,
    dump_launches,
    dump_region,
    load_launches,
    region_of,
)
from accel.lowering.ir.host_runs import free_vars, is_launch, make_parts, rebound
from accel.lowering.kinds.region_images import region_function
from accel.lowering.movement.movement_operators import back, onwards, operand_of, shape_of_value, windows_of
from accel.region.affine_view import AffineView, NotAffineError, Piece, ViewBuilder, whole
from accel.region.kinds import AnyRegion

Moved = tuple[relax.Var, tuple[relax.Var, ...], AffineView]
"""A tensor in DRAM that an argument is moved from, the variables on the way, and how the argument lies in it."""


@dataclass(frozen=True)
class Window:
    """A part of a tensor: the ``shape`` of that, and where it begins there.

    ``behind`` are that tensor and the variables that it is moved on to, one by one, if the last of these is meant.
    """

    shape: tuple[int, ...]
    first: tuple[int, ...]
    behind: tuple[relax.Var, ...] = ()


@dataclass(frozen=True)
class Destination:
    """Where stores may put a result: the variable at the end of movement, those on the way, and the view of it.

    ``fill`` is what is around it there. Of one with an ``order`` the result is the transposition of that variable, of
    which it is said.
    """

    var: relax.Var
    passed: tuple[relax.Var, ...]
    view: AffineView
    fill: float | None
    order: tuple[int, ...] = ()


@dataclass
class Launch:
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


class LaunchGraph:
    """``main`` of a packed module.

    Attributes:
        values: what each variable is bound to.
        readers: of each variable, once each.
        returned: what ``main`` returns, by each of its names.
        nodes: of the model, by variables' names.
        launches: of the module, by the variables that they were bound to.
        moves: launches that only move a tensor, by the variable that they make.
        joined: the parts of tensors that several launches make, by the variable of the whole.
        ordered: results that are stored as something else, as what they are of it.
        unmoved: why the host moves what a variable is, by its name.
    """

    def __init__(self, module: ir.IRModule, gemm: Contraction) -> None:
        self._module, self._gemm = module, gemm
        main = module["main"]
        self._bindings = [binding for block in main.body.blocks for binding in block.bindings]
        self.values: dict[relax.Var, relax.Expr] = {binding.var: binding.value for binding in self._bindings}
        self.readers: dict[relax.Var, list[relax.Var]] = defaultdict(list)
        for binding in self._bindings:
            for read in dict.fromkeys(free_vars(binding.value)):
                self.readers[read].append(binding.var)
        self.returned = set(free_vars(main.body.body))
        for binding in reversed(self._bindings):
            if binding.var in self.returned and isinstance(binding.value, relax.Var):
                self.returned.add(binding.value)
        self.nodes: dict[str, str] = json.loads(str(main.attrs[HOST_NODES]))
        infos = load_launches(str(main.attrs[LAUNCHES]))
        self.launches: dict[relax.Var, Launch] = {}
        for binding in self._bindings:
            if is_launch(module, binding.value):
                function, call = binding.value.args[0], binding.value
                region = region_of(module[function])
                assert region is not None
                self.launches[binding.var] = Launch(
                    binding.var,
                    region,
                    list(call.args[1].fields),
                    infos[str(binding.var.name)],
                    function,
                    was=binding.var,
                )
        self.moves: dict[relax.Var, Launch] = {}
        self.joined: dict[relax.Var, list[Launch]] = {}
        self.ordered: dict[relax.Var, ir.Call] = {}
        self.unmoved: dict[str, str] = {}

    def supposing(self, var: relax.Var, value: relax.Expr) -> "LaunchGraph":
        """Returns the graph as it would be if a variable were bound to something else."""
        supposed = copy.copy(self)
        supposed.values = {**self.values, var: value}
        return supposed

    def order(self, var: relax.Var, value: ir.Call) -> None:
        """Let a result be what it is of a tensor that is stored in its stead."""
        self.ordered[var] = value
        self.values[var] = value

    def is_alone(self, chain: Sequence[relax.Expr]) -> bool:
        """Whether nobody reads what is on the way but the next one."""
        known = [each for each in chain if isinstance(each, relax.Var)]
        return all(len(self.readers[each]) == 1 and each not in self.returned for each in known)

    def reached_from(self, var: relax.Var) -> set[relax.Var]:
        """Returns what reads a value, or reads what is no launch and has come of it."""
        reached, pending = set[relax.Var](), [var]
        while pending:
            for reader in self.readers[pending.pop()]:
                if reader not in reached:
                    reached.add(reader)
                    pending += [] if reader in self.launches else [reader]
        return reached

    def chain(self, operand: relax.Expr, stored: set[relax.Var]) -> list[relax.Expr] | None:
        """A value, what it is moved from, and so on as far as something in DRAM; None if that is the host's."""
        chain = [operand]
        while isinstance(chain[-1], relax.Var) and chain[-1] not in stored:
            value = self.values.get(chain[-1])
            given = None if value is None else operand_of(value, self.values)
            if given is None:
                return None
            chain.append(given)
        return chain

    def source(self, argument: relax.Expr, stored: set[relax.Var]) -> Moved | None:
        """Returns the tensor in DRAM that an argument is moved from, and how; None if there is none."""
        shape = shape_of_value(argument)
        if shape is None or not isinstance(argument, relax.Var) or argument in stored:
            return None
        at, view, passed = argument, whole(shape), list[relax.Var]()
        while at not in stored:
            value = self.values.get(at)
            operand = None if value is None else operand_of(value, self.values)
            if value is None or not isinstance(operand, relax.Var):
                return None
            try:
                view = back(value, self.values, view)
            except NotAffineError:
                return None
            passed.append(at)
            at = operand
        return at, tuple(passed), view.view()

    def views_at(
        self, chain: Sequence[relax.Expr], middle: int, window: Window | None, piece: Piece | None = None
    ) -> tuple[AffineView, AffineView, float | None]:
        """Returns how a tensor on the way lies in the end of a chain, and in its beginning, and what else is in that.

        Of a ``window`` the beginning is a part; of the tensor on the way ``piece`` is all that counts.

        Raises:
            NotAffineError: it is no part of one of them.
        """
        shape = shape_of_value(chain[middle])
        if shape is None:
            raise NotAffineError("its shape depends on data")
        begun = whole(shape) if piece is None else piece.view(shape)
        source = begun
        for var in chain[middle:-1]:
            source = back(self.values[var], self.values, source)
        result, fill = self._onwards(chain[middle::-1], begun, None)
        if window is not None:
            result = result.sliced(window.shape, window.first, [1] * len(window.first))
            result, fill = self._onwards(window.behind, result, fill)
        return source.view(), result.view(), fill

    def _onwards(
        self, way: Sequence[relax.Expr], view: ViewBuilder, fill: float | None
    ) -> tuple[ViewBuilder, float | None]:
        """The view of the last variable of a way, of one of the first, and what is around that."""
        for var, reader in itertools.pairwise(way):
            view, around = onwards(self.values[reader], var, view)
            if around is not None and fill is not None and around != fill:
                raise NotAffineError("two numbers are around it")
            fill = fill if around is None else around
        return view, fill

    def destinations(self, var: relax.Var, fill: float | None) -> Iterator[Destination]:
        """Yields the ends of the movement behind a result that nobody else reads, the nearest first."""
        shape = shape_of_value(var)
        if shape is None:
            return
        at, view, passed = var, whole(shape), list[relax.Var]()
        while len(self.readers[at]) == 1 and at not in self.returned:
            (reader,) = self.readers[at]
            if reader in self.launches:
                return
            try:
                view, fill = self._onwards([at, reader], view, fill)
            except NotAffineError:
                return
            passed.append(reader)
            at = reader
            yield Destination(reader, tuple(passed), view.view(), fill)

    def readers_of(self, var: relax.Var, *, directly: bool = False) -> list[tuple[Launch, int]]:
        """Returns the arguments of launches that are moved from a result; ``directly`` those too that are it.

        Not all of them are affine maps of the result; some may be of what that is moved to.
        """
        reached = self.reached_from(var)
        return [
            (launch, place)
            for bound, launch in self.launches.items()
            if bound in reached
            for place, argument in enumerate(launch.arguments)
            if (directly if argument.same_as(var) else self._is_moved_from(argument, var))
        ]

    def _is_moved_from(self, argument: relax.Expr, var: relax.Var) -> bool:
        chain = self.chain(argument, {var}) if isinstance(argument, relax.Var) else None
        return chain is not None and chain[-1].same_as(var)

    def unmoved_by(self, stored: set[relax.Var]) -> Iterator[tuple[str, str]]:
        """Yields the movement of the model that is left to the host, by variables' names, each with the reason."""
        launches = (*self.launches.values(), *self.moves.values())
        wanted = {each for launch in launches for each in launch.arguments if isinstance(each, relax.Var)}
        for var, value in reversed(self.values.items()):
            if var in wanted:  # not what else a movement reads, as the places of a gather
                moved = [operand_of(value, self.values), *(each for each, _ in windows_of(value))]
                wanted.update(each for each in moved if isinstance(each, relax.Var))
        for var, value in self.values.items():
            joins = any(windows_of(value))
            if str(var.name) not in self.nodes or (operand_of(value, self.values) is None and not joins):
                continue
            why = "" if joins else self._obstacle(var, value)
            if why:
                yield str(var.name), why
            elif not joins and self.chain(var, stored) is None:
                yield str(var.name), "what it moves is made by the host"
            elif var in wanted:
                yield str(var.name), "no instructions of {title} reach its elements, or too few of them at a time"
            else:
                yield str(var.name), "what it moves goes on to the host, or out of the model"

    def _obstacle(self, var: relax.Var, value: relax.Expr) -> str:
        """Why movement is no affine map of indices, if it is none either way."""
        shape, operand = shape_of_value(var), operand_of(value, self.values)
        given = None if operand is None else shape_of_value(operand)
        if shape is None or operand is None or given is None:
            return "its shape depends on data"
        try:
            back(value, self.values, whole(shape))
        except NotAffineError as error:
            with suppress(NotAffineError):
                onwards(value, operand, whole(given))
                return ""
            return str(error)
        return ""

    def with_nodes(self, info: LaunchInfo, passed: tuple[relax.Var, ...]) -> LaunchInfo:
        """Returns what a report says of a launch that does the movement ``passed`` too."""
        names = [self.nodes[str(var.name)] for var in passed if str(var.name) in self.nodes]
        return replace(info, nodes=tuple(dict.fromkeys((*info.nodes, *names))))

    def rebuilt(self) -> ir.IRModule:
        """The module with the launches as they are now, without the movement that nobody needs any more."""
        builder = relax.BlockBuilder(self._module)
        functions: dict[str, ir.GlobalVar] = {}
        bindings, infos = list[relax.VarBinding](), dict[str, LaunchInfo]()
        removed = {launch.var for was, launch in self.launches.items() if not launch.var.same_as(was)}
        for binding in self._bindings:
            var, launch = binding.var, self.launches.get(binding.var)
            if launch is not None:
                infos[str(launch.var.name)] = launch.info
                bindings.append(self._binding(launch, builder, functions, infos) if launch.changed else binding)
            # what was bound to the launch may have to be made of what that stores in its stead
            if var in self.joined:
                parts = self.joined[var]
                made = [part for part in parts if part.was is None]
                bindings += [self._binding(part, builder, functions, infos) for part in made]
                whole = make_parts([part.var for part in parts], var.ty)
                bindings.append(relax.VarBinding(var, builder.normalize(whole)))
            elif var in self.moves:
                bindings.append(self._binding(self.moves[var], builder, functions, infos))
            elif var in self.ordered:
                bindings.append(relax.VarBinding(var, self.ordered[var]))
            elif launch is None and var not in removed:
                bindings.append(binding)
        kept = self._needed(bindings)
        launched = {launch.var for launch in self.launches.values()} | {*self.joined, *self.moves}
        names = {str(binding.var.name) for binding in kept if binding.var not in launched}
        gone = [str(binding.var.name) for binding in self._bindings if str(binding.var.name) not in names]
        return self._with_main(builder.get(), kept, infos, gone)

    def _binding(
        self,
        launch: Launch,
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
        self, launch: Launch, builder: relax.BlockBuilder, functions: dict[str, ir.GlobalVar]
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
        launched = {launch.var for launch in self.launches.values()} | {*self.moves}
        launched |= {part.var for parts in self.joined.values() for part in parts}
        wanted, kept = set(self.returned), list[relax.VarBinding]()
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
        attrs = dict(main.attrs.items()) | {
            LAUNCHES: dump_launches(infos),
            STORED: json.dumps(stored),
            UNMOVED: json.dumps(self.unmoved),
        }
        module.update_func(module.get_global_var("main"), rebound(main, bindings, attrs))
        called = {str(binding.value.args[0].name_hint) for binding in bindings if is_launch(module, binding.value)}
        kept = {
            variable: function
            for variable, function in module.functions.items()
            if str(variable.name_hint) in called or region_of(function) is None
        }
        return ir.IRModule(kept, attrs=module.attrs)
