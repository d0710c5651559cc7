"""Partition of what is left to the host: operators that a vector unit does become calls of vector programs.

Neighbours go together as long as their axes are the same and the machine can hold a tile of all of them.
"""

import json
import math
from collections import defaultdict
from collections.abc import Collection, Container, Iterator, Mapping, Sequence

from tvm import ir, relax

from accel.accelerator.target import Target
from accel.frontend.integer_recovery.composite_functions import is_table
from accel.frontend.integer_recovery.recover_integers import HOST_NODES
from accel.lowering.analysis.composite import is_composite_call, read_composite
from accel.lowering.analysis.float_units import home_memory, multiplies_floats, runs_programs
from accel.lowering.ir.function_attributes import (
    FLOAT_TEXT,
    JOINED,
    AttentionChoice,
    region_of,
    without_numbers,
)
from accel.lowering.ir.host_runs import free_vars, main_results
from accel.lowering.ir.known_prices import KnownPrices
from accel.lowering.vector.attention_choice import (
    Attention,
    AttentionOption,
    Costs,
    attention_parts,
    choose_attentions,
)
from accel.lowering.vector.block_statements import UnsaidError
from accel.lowering.vector.covers.covered_operators import CoveredOperator
from accel.lowering.vector.covers.instruction_cover import (
    UncoverableError,
)
from accel.lowering.vector.covers.key_blocks import Part, joined, moves, products_of
from accel.lowering.vector.covers.operator_covers import OperatorCovers
from accel.lowering.vector.fewer_statements import in_fewer_statements
from accel.lowering.vector.inlined_conditions import BOOL, Conditions
from accel.lowering.vector.load_order import with_loads_in_order
from accel.lowering.vector.program_groups import Group, MisfitError
from accel.lowering.vector.tiles.priced_tiles import dram_bytes, priced_programs
from accel.lowering.vector.tiles.program_buffers import Statements, placed_alike, sums_products
from accel.lowering.vector.tiles.program_tiles import cut_program, obstacle, without_repeats
from accel.lowering.vector.vector_launches import PlacedProgram, with_launches
from accel.lowering.vector.whole_floats import FLOAT, Range
from accel.region.composite_attributes import COMPOSITE
from accel.region.kinds import Prices, Region, VectorRegion
from accel.region.shapes import Convolution
from accel.region.vector_program import VectorProgram

_TRIED_TILINGS = 4  # of attention over blocks of keys, that are timed
_FEW = 4  # tiles of a program that gains by the order of its loads
_IMAGE = 4  # axes of what lies in tiles, of channels and pixels


def place_vector_programs(
    module: ir.IRModule,
    target: Target,
    prices: Prices,
    host_nodes: Mapping[str, str] | None = None,
    attention: AttentionOption = "unfused",
) -> ir.IRModule:
    """Returns the module with launches of vector programs in place of host operators; unchanged for most machines.

    Regions that multiply nothing become vector programs too where these take fewer cycles, but for those of images that
    lie in tiles.

    Args:
        module: the integer graph, its composites marked.
        target: what it is for.
        prices: of regions.
        host_nodes: nodes of the model that the host shall run, with why.
        attention: whether attention goes over blocks of keys as one program, see :mod:`attention_choice`.
    """
    if not runs_programs(target):
        return module
    operators = target.derived(OperatorCovers)
    home = home_memory(target.accelerator) or ""

    def placed(fused: Sequence[Attention]) -> _Placement:
        return _Placement(module, target, home, operators, priced, host_nodes or {}, fused)

    priced = KnownPrices(prices, without_numbers)
    usual = placed(())
    if attention == "unfused" or not multiplies_floats(target):
        return usual.module()
    found = usual.attentions()
    if not found:
        return usual.module()
    otherwise = placed(found)
    chosen, choices = choose_attentions(found, usual.costs_of, otherwise.costs_of, always=attention == "fused")
    best = usual if not chosen else otherwise if len(chosen) == len(found) else placed(chosen)
    return best.module(choices)


class _Placement:
    """``main``, whose bindings go into groups one after the other."""

    def __init__(
        self,
        module: ir.IRModule,
        target: Target,
        home: str,
        operators: OperatorCovers,
        priced: KnownPrices,
        host_nodes: Mapping[str, str],
        fused: Sequence[Attention],
    ) -> None:
        self._module, self._target, self._home, self._operators = module, target, home, operators
        self._accelerator = target.accelerator
        self._contraction = target.contraction
        main = module["main"]
        self._bindings = [binding for block in main.body.blocks for binding in block.bindings]
        self._at = {binding.var: number for number, binding in enumerate(self._bindings)}
        self._nodes: dict[str, str] = json.loads(str(main.attrs[HOST_NODES])) if HOST_NODES in main.attrs else {}
        self._host_nodes, self._priced = host_nodes, priced
        self._fused = {each.members[-1]: each for each in fused}
        self._tiles: dict[str, list[tuple[float, VectorProgram]]] = {}
        self._cuts: dict[str, VectorProgram | None] = {}
        self._in_fused = {var for each in fused for var in each.members}
        self._results = set(main_results(main))
        self._readers: dict[relax.Expr, list[relax.Expr]] = defaultdict(list)
        for binding in self._bindings:
            for read in free_vars(binding.value):
                self._readers[read].append(binding.var)
        self._groups: dict[relax.Var, Group] = {}
        self._ranges: dict[relax.Expr, Range] = {}
        self._conditions = Conditions()
        self._reasons: dict[str, str] = {}
        self._patched = set(self._made_into_patches())
        left_out = set[relax.Var]()
        self._place(left_out)
        while unstored := self._unstored():
            left_out.update(unstored)
            self._groups, self._ranges, self._conditions, self._reasons = {}, {}, Conditions(), {}
            self._place(left_out)

    def _place(self, left_out: Container[relax.Var]) -> None:
        """Let each binding go into a group, or stay on the host for a reason, as those ``left_out``."""
        for binding in self._bindings:
            name = str(binding.var.name)
            if binding.var in left_out:
                self._reasons[name] = f"no store brings what float32 holds to DRAM as {binding.var.ty.dtype}"
                continue
            if binding.var in self._patched:
                self._reasons[name] = "the host lays it out as the patches of a layer, and would read what that stores"
                continue
            if binding.var in self._in_fused:
                if binding.var in self._fused:
                    group = self._group_of(self._fused[binding.var])
                    self._groups |= dict.fromkeys(group.members, group)
                continue
            if (left := self._host_nodes.get(self._nodes.get(name, ""))) is not None:
                self._reasons[name] = left
                continue
            try:
                self._take(binding)
            except (UnsaidError, UncoverableError, MisfitError) as error:
                self._reasons[name] = str(error)

    def _made_into_patches(self) -> Iterator[relax.Var]:
        """Yields what is made of one of the model's inputs for nothing but a layer whose patches the host lays out.

        Windows overlap there, or leave the image: the host would read what a launch stores, and store it again.
        """
        for binding in self._bindings:
            value = binding.value
            region = region_of(self._module[value.op]) if is_composite_call(self._module, value) else None
            shape = region.shape if isinstance(region, Region) else None
            window = shape.unfolded if isinstance(shape, Convolution) and shape.run_axis is None else None
            if window is None or window.is_tiling:
                continue  # runs, and windows beside each other, are addresses of loads
            chain, at = list[relax.Var](), value.args[0]
            while at in self._at and len(self._readers[at]) == 1 and at not in self._results:
                chain.append(at)
                reads = free_vars(self._bindings[self._at[at]].value)
                if len(reads) != 1:
                    break
                at = reads[0]
            yield from chain if at not in self._at else ()

    def _group_of(self, attention: Attention) -> Group:
        """Attention over blocks of keys as a group."""
        group = Group(self._home)
        group.join(attention.members[-1], attention.covered, attention.given)
        group.members = list(attention.members)
        return group

    def attentions(self) -> list[Attention]:
        """All attention that may go over blocks of keys, of which the smallest tiles fit."""
        found: list[Attention] = []
        taken: set[relax.Expr] = set()
        for binding in self._bindings:
            parts = attention_parts(binding.var, self._legal_part, self._readers, self._results)
            for members in parts:
                if taken.intersection(part.var for part in members):
                    continue
                operator, given = joined(members)
                covered = self._operators.attention(operator)
                if covered is None:
                    continue
                attention = Attention(tuple(part.var for part in members), covered, tuple(given))
                if not self._obstacle(self._group_of(attention)):
                    found.append(attention)
                    taken.update(attention.members)
                    break
        return found

    def _legal_part(self, var: relax.Expr) -> Part | None:
        """What makes a variable as statements; None of what is no operator that programs may do."""
        if var not in self._at or not isinstance(var.ty, relax.TensorType):
            return None
        value = self._bindings[self._at[var]].value
        if self._nodes.get(str(var.name), "") in self._host_nodes or not isinstance(value, ir.Call):
            return None
        if is_composite_call(self._module, value):
            return None
        try:
            return Part(var, *self._operators.legalizer.read(value, var.ty, None, self._ranges))
        except UnsaidError:
            return None

    def costs_of(self, variables: Collection[relax.Var]) -> Costs:
        """What the programs take that compute any of ``variables``, and all variables that they compute."""
        groups = {id(group): group for var in variables if (group := self._groups.get(var)) is not None}
        programs = [self._program(self._statements(each)[0]) for each in groups.values() if each.computes]
        prices = self._priced([*map(VectorRegion, programs)])
        members = {var for group in groups.values() for var in group.members} | {*variables}
        left = any(var not in self._groups and not self._only_moves(var) for var in variables)
        cycles = None if left or None in prices else sum(price or 0 for price in prices)
        return Costs(cycles, sum(map(dram_bytes, programs)), frozenset(members), on_host=left)

    def _only_moves(self, var: relax.Var) -> bool:
        part = self._legal_part(var)
        return part is not None and moves(part.operator)

    def module(self, choices: Sequence[AttentionChoice] = ()) -> ir.IRModule:
        """The module with its launches; ``choices`` say how attention was placed."""
        placed = [(binding, None if group is None else self._placed(group)) for binding, group in self._in_order()]
        return with_launches(self._module, self._contraction, placed, self._reasons, choices)

    def _take(self, binding: relax.VarBinding) -> None:
        """Let a binding join the group of an operand, or begin one."""
        var, value = binding.var, binding.value
        if not isinstance(value, ir.Call):
            return
        composite = self._module[value.op] if is_composite_call(self._module, value) else None
        region = None if composite is None else region_of(composite)
        if composite is not None and self._is_bound(value, composite):
            return
        operator, given, found = self._read(var, value, composite)
        if isinstance(region, Region) and not self._is_cheaper(var, operator, given, region):
            return
        if found is not None:
            self._ranges[var] = found
        candidates = {id(group): group for each in given if (group := self._groups.get(each)) is not None}
        for group in candidates.values():
            if any(self._depends(each, group) for each in given if self._groups.get(each) is not group):
                continue
            grown = self._grown(group, var, operator, given)
            if grown is not None:
                self._groups |= dict.fromkeys(grown.members, grown)
                for other in candidates.values():
                    if other is not group and (merged := self._merged(other, grown)) is not None:
                        grown = merged
                        self._groups |= dict.fromkeys(grown.members, grown)
                return
        self._groups[var] = self._alone(var, operator, given)

    def _read(
        self, var: relax.Var, value: ir.Call, composite: relax.Function | None
    ) -> tuple[CoveredOperator, list[relax.Expr], Range | None]:
        """An operator as instructions do it; what makes bools is kept for those that read them."""
        if not isinstance(var.ty, relax.TensorType):
            raise UnsaidError("it has several results")
        legal = self._conditions.inline(*self._operators.legalizer.read(value, var.ty, composite, self._ranges))
        if str(var.ty.dtype) == BOOL:
            self._conditions.learn(var, *legal)
            raise UnsaidError("documents know no bool")
        return self._operators.covered(*legal)

    def _unstored(self) -> list[relax.Var]:
        """Integers that programs have as floats and would have to leave in DRAM, which no store does."""
        groups = {id(group): group for group in self._groups.values() if group.computes}
        return [
            var
            for group in groups.values()
            for var in group.members
            if var in group.made
            and str(var.ty.dtype) != FLOAT
            and (var in self._results or self._is_read_outside(var, group))
            and not self._operators.stores(str(var.ty.dtype))
        ]

    def _alone(self, var: relax.Var, operator: CoveredOperator, given: Sequence[relax.Expr]) -> Group:
        """An operator as a group: block by block, if it is a sum of products that is better so.

        Raises:
            UncoverableError: it does not fit.
        """
        alone = Group(self._home)
        self._join(alone, var, operator, given)
        why = self._obstacle(alone)
        blocks = self._in_blocks(var) if any(map(sums_products, operator.statements)) else None
        if blocks is not None and (why or self._estimate(blocks) < self._estimate(alone)):
            return blocks
        if why:
            raise UncoverableError(why)
        return alone

    def _in_blocks(self, var: relax.Var) -> Group | None:
        """A sum of products over blocks of what is summed as a group; None where that does not fit."""
        part = self._legal_part(var)
        covered = None if part is None else self._operators.sum_in_blocks(part.operator)
        if part is None or covered is None:
            return None
        group = Group(self._home)
        group.join(var, covered, part.given)
        return None if self._obstacle(group) else group

    def _is_bound(self, value: ir.Call, composite: relax.Function) -> bool:
        """Whether a composite multiplies, is part of another region, or lies in tiles: an image that regions read.

        What has no attributes of a composite is a function that the host has, as of a product that it does; or a table.
        """
        if is_table(composite):
            return False
        if COMPOSITE not in composite.attrs or read_composite(composite).macs:
            return True
        made = [self._composite_of(operand) for operand in value.args if isinstance(operand, relax.Var)]
        if JOINED in composite.attrs or any(each is not None and JOINED in each.attrs for each in made):
            return True
        image = len(read_composite(composite).result) == _IMAGE and region_of(composite) is not None
        return image and all(each is not None and region_of(each) is not None for each in made)

    def _composite_of(self, operand: relax.Var) -> relax.Function | None:
        """The composite whose result a value is, if that is no part of a vector program."""
        if operand in self._groups or operand not in self._at:
            return None
        value = self._bindings[self._at[operand]].value
        return self._module[value.op] if is_composite_call(self._module, value) else None

    def _is_cheaper(
        self, var: relax.Var, operator: CoveredOperator, given: Sequence[relax.Expr], region: Region
    ) -> bool:
        """Whether a vector program of an operator alone takes fewer cycles than its region does."""
        alone = Group(self._home)
        self._join(alone, var, operator, given)
        statements, _, _ = self._statements(alone)
        program = self._cut(statements)
        if program is None:
            return False
        cycles, otherwise = self._priced([VectorRegion(program), region])
        return cycles is not None and otherwise is not None and cycles < otherwise

    def _grown(
        self, group: Group, var: relax.Var, operator: CoveredOperator, given: Sequence[relax.Expr]
    ) -> Group | None:
        grown = group.copy()
        try:
            self._join(grown, var, operator, given)
        except MisfitError:
            return None
        if self._obstacle(grown):
            return None
        if any(map(sums_products, operator.statements)):  # whose operands may be read again for each tile of the rest
            alone = self._alone(var, operator, given)
            return grown if self._estimate(grown) <= self._estimate(group) + self._estimate(alone) else None
        return grown

    def _merged(self, group: Group, reader: Group) -> Group | None:
        """A group and one that reads what it has as one group; None if that is not possible, or not better."""
        members = {*group.members, *reader.members}
        outside = {value for value, _ in (*group.operands, *reader.operands) if value not in members}
        if any(self._depends(value, each) for value in outside for each in (group, reader)):
            return None
        merged = group.copy()
        try:
            merged.take(reader)
        except MisfitError:
            return None
        merged.members.sort(key=self._at.__getitem__)
        if self._obstacle(merged) or self._estimate(merged) > self._estimate(group) + self._estimate(reader):
            return None
        return merged

    def _join(self, group: Group, var: relax.Var, operator: CoveredOperator, given: Sequence[relax.Expr]) -> None:
        """Let an operator join a group, with the conditions that its expressions have in them."""
        group.join(var, operator, given)
        pending = [var]
        while pending:
            value = self._bindings[self._at[pending.pop()]].value
            read = [each for each in free_vars(value) if each in self._conditions and each not in group.conditions]
            pending += read
            group.conditions += read

    def _depends(self, value: relax.Expr, group: Group) -> bool:
        """Whether a value from outside comes of a group."""
        first = self._at[group.members[0]]
        seen: set[relax.Expr] = set()
        pending = [value]
        while pending:
            var = pending.pop()
            if var in seen or var not in self._at:
                continue
            other = self._groups.get(var)
            if other is group:
                return True
            members = [var] if other is None else other.members
            seen.update(members)
            if max(self._at[member] for member in members) > first:
                pending += [read for member in members for read in free_vars(self._bindings[self._at[member]].value)]
        return False

    def _obstacle(self, group: Group) -> str:
        statements, _, _ = self._statements(group)
        return obstacle(statements, self._accelerator)

    def _statements(self, group: Group) -> tuple[Statements, list[relax.Expr], list[relax.Var]]:
        """What a group does, the values that it reads, and those that it leaves in DRAM."""
        whole = group.copy()
        outside = [var for var in whole.members if var in self._results or self._is_read_outside(var, group)]
        given = {each.dram: value for (value, _), each in whole.operands.items()}
        return without_repeats(whole.uncut(outside)), list(given.values()), outside

    def _is_read_outside(self, var: relax.Var, group: Group) -> bool:
        members = set(group.members)
        return any(reader not in members for reader in self._readers_of(var))

    def _readers_of(self, var: relax.Expr) -> Iterator[relax.Expr]:
        """What reads a variable, also by way of conditions that nobody computes."""
        for reader in self._readers[var]:
            if self._is_inlined(reader):
                yield from self._readers_of(reader)
            else:
                yield reader

    def _is_inlined(self, var: relax.Expr) -> bool:
        """Whether all that reads a variable is in groups, and has in its expressions what decides it."""
        if var not in self._conditions or var in self._results:
            return False
        return all(
            (reader in self._groups and var in self._groups[reader].conditions) or self._is_inlined(reader)
            for reader in self._readers[var]
        )

    def _placed(self, group: Group) -> PlacedProgram:
        """The program of a group, in its best tiles."""
        statements, given, outside = self._statements(group)
        parts = [part for var in group.members if (part := self._legal_part(var)) is not None]
        return PlacedProgram(
            self._program(statements),
            [self._bindings[self._at[var]] for var in group.members],
            given,
            outside,
            list(filter(self._is_inlined, group.conditions)),
            macs=sum(products_of(part.operator) for part in parts),
        )

    def _program(self, statements: Statements) -> VectorProgram:
        """A program in its best tiles; where these are priced the fastest of some, as far as that can be said."""
        statements = in_fewer_statements(statements, self._target)
        found = self._priced_programs(statements) if statements.is_priced else []
        if not found:
            program = self._cut(statements)
            assert program is not None, "the smallest tile fits"
            return self._in_load_order(statements, program)
        cycles = self._priced([VectorRegion(program) for _, program in found])
        known = [(price, number) for number, price in enumerate(cycles) if price is not None]
        return found[min(known)[1] if known else 0][1]

    def _in_load_order(self, statements: Statements, program: VectorProgram) -> VectorProgram:
        """The program, or one of the same statements whose first loads are those that the most work waits for.

        Few tiles gain by it what the first and the last wait less. Of many that is little, and the order in which
        copies take turns on the bus tells more.
        """
        if math.prod(-(-extent // part) for extent, part in zip(program.extents, program.tile, strict=True)) > _FEW:
            return program
        ordered = with_loads_in_order(statements)
        return program if ordered == statements else self._cut(ordered) or program

    def _cut(self, statements: Statements) -> VectorProgram | None:
        """A program in its best tiles, which are those of one that differs in numbers alone; None if none fit."""
        key = FLOAT_TEXT.sub("0.0", repr(statements))
        if key not in self._cuts:
            self._cuts[key] = cut_program(statements, self._target)
        known = self._cuts[key]
        return None if known is None else placed_alike(statements, known)

    def _priced_programs(self, statements: Statements) -> list[tuple[float, VectorProgram]]:
        """A program in the tiles that are estimated to be the best."""
        key = repr(statements)
        if key not in self._tiles:
            self._tiles[key] = priced_programs(statements, self._accelerator, _TRIED_TILINGS)
        return self._tiles[key]

    def _estimate(self, group: Group) -> float:
        """The cycles of a group, by the bytes that it moves and the instructions that begin; infinite if none fits."""
        found = self._priced_programs(self._statements(group)[0])
        return found[0][0] if found else math.inf

    def _in_order(self) -> Iterator[tuple[relax.VarBinding, Group | None]]:
        """The bindings that stay, and each group once, behind what they read; else as they were."""
        done: set[relax.Expr] = set()

        def behind(var: relax.Expr) -> Iterator[tuple[relax.VarBinding, Group | None]]:
            if var in done or var not in self._at:
                return
            group = self._groups.get(var)
            group = group if group is not None and group.computes else None
            members = [var] if group is None else group.members
            done.update(members)
            for member in members if group is None else [*members, *group.conditions]:
                for read in free_vars(self._bindings[self._at[member]].value):
                    if group is None or read not in group.conditions:
                        yield from behind(read)
            if group is not None or not self._is_inlined(var):
                yield self._bindings[self._at[var]], group

        for binding in self._bindings:
            yield from behind(binding.var)
