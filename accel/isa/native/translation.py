"""Kernels as a module of LLVM's language: their statements, and the entry that Python calls."""

import ast
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir

from accel.isa.kernels.compiled_kernels import Compiled
from accel.isa.kernels.kernel_types import Array, Type
from accel.isa.native import arithmetic as on
from accel.isa.native.expressions import Expressions
from accel.isa.native.source import Source
from accel.isa.native.values import INTEGER, NOTHING, POINTER, Value, element_of, integer, leaf_types

ENTRY = "kernel"
"""The symbol of the function that Python calls: it takes the addresses of its arguments' and of its results' leaves."""


def result_type(annotation: Any) -> Type:
    """Returns the type of what a function returns, by its annotation.

    Raises:
        TypeError: kernels return no such thing.
    """
    if annotation is None:
        return "none"
    if annotation in (int, bool):
        return "int64"
    if annotation in (np.float32, np.float64):
        return str(np.dtype(annotation).name)
    parts = getattr(annotation, "__args__", ())
    if getattr(annotation, "__origin__", None) is tuple and Ellipsis not in parts:
        return tuple(result_type(each) for each in parts)
    raise TypeError(f"a kernel returns numbers, not {annotation}")


class Translation:
    """A module with a kernel, and all kernels that it calls, each for the types that it is called with.

    Args:
        checked: indices are compared with the arrays' extents; elements outside are not touched, and the line is kept.
    """

    def __init__(self, *, checked: bool = False) -> None:
        self.module = ir.Module(ENTRY)
        self._checked = checked
        self._functions: dict[tuple[Callable[..., Any], tuple[Type, ...]], tuple[ir.Function, Type]] = {}
        self._fault = self._variable("fault")

    def _variable(self, name: str) -> ir.GlobalVariable:
        made = ir.GlobalVariable(self.module, INTEGER, name)
        made.linkage, made.initializer = "internal", ir.Constant(INTEGER, 0)
        return made

    def add_entry(self, function: Callable[..., Any], types: Sequence[Type]) -> None:
        """Adds what Python calls.

        Raises:
            KernelSyntaxError: kernels cannot have what is in a function.
        """
        target, returns = self._translated(function, tuple(types))
        entry = ir.Function(self.module, ir.FunctionType(ir.VoidType(), [POINTER, POINTER]), ENTRY)
        builder = ir.IRBuilder(entry.append_basic_block("entry"))
        taken, given = entry.args
        arguments = []
        for number, kind in enumerate(leaf for each in types for leaf in leaf_types(each)):
            place = builder.gep(taken, [integer(number).scalar], source_etype=INTEGER)
            arguments.append(builder.load(place, typ=kind))
        results = _parts_of(builder, builder.call(target, arguments), returns)
        fault = builder.load(self._fault, typ=INTEGER)
        builder.store(integer(0).scalar, self._fault)
        for number, leaf in enumerate((*results.leaves, fault)):
            builder.store(leaf, builder.gep(given, [integer(number).scalar], source_etype=INTEGER))
        builder.ret_void()

    def call(self, builder: on.Builder, function: Any, arguments: Sequence[Value]) -> Value | None:
        """Call another kernel; returns its result, None where ``function`` is no kernel."""
        if not isinstance(function, Compiled):
            return None
        target, returns = self._translated(function.function, tuple(each.type for each in arguments))
        called = builder.call(target, [leaf for each in arguments for leaf in each.leaves])
        return _parts_of(builder, called, returns)

    def routine(self, name: str, returns: ir.Type, *takes: ir.Type) -> ir.Function:
        """Returns a function of C's library, or of LLVM's own."""
        found = self.module.globals.get(name)
        return found or ir.Function(self.module, ir.FunctionType(returns, takes), name)

    def dummy(self) -> ir.Value:
        """Returns the address of eight bytes that nothing needs."""
        return self.module.globals.get("dummy") or self._variable("dummy")

    def note_fault(self, builder: on.Builder, wrong: ir.Value, line: int) -> None:
        """Keep ``line`` if ``wrong``."""
        kept = builder.load(self._fault, typ=INTEGER)
        builder.store(builder.select(wrong, integer(line).scalar, kept), self._fault)

    def _translated(self, function: Callable[..., Any], types: tuple[Type, ...]) -> tuple[ir.Function, Type]:
        if (function, types) not in self._functions:
            source = Source(function)
            if len(types) != len(source.parameters):
                source.refuse(source.tree, f"it is called with {len(types)} arguments")
            try:
                returns = result_type(source.returns)
            except TypeError as error:
                source.refuse(source.tree, str(error))
            leaves = [leaf for each in types for leaf in leaf_types(each)]
            kind = ir.FunctionType(_result_kind(returns), leaves)
            made = ir.Function(self.module, kind, self.module.get_unique_name(source.name))
            made.linkage = "internal"
            self._functions[function, types] = made, returns
            _Statements(source, self, made, returns, checked=self._checked).translate(types)
        return self._functions[function, types]


def _result_kind(returns: Type) -> ir.Type:
    leaves = leaf_types(returns)
    return ir.VoidType() if not leaves else leaves[0] if len(leaves) == 1 else ir.LiteralStructType(leaves)


def _parts_of(builder: on.Builder, called: ir.Value, returns: Type) -> Value:
    count = len(leaf_types(returns))
    if count < 2:
        return Value(returns, (called,) if count else ())
    return Value(returns, tuple(builder.extract_value(called, index) for index in range(count)))


class _Statements(Expressions):
    """Translates the statements of one function."""

    def __init__(
        self, source: Source, calls: Translation, function: ir.Function, returns: Type, *, checked: bool
    ) -> None:
        entry = function.append_basic_block("entry")
        super().__init__(source, calls, ir.IRBuilder(function.append_basic_block("body")), checked=checked)
        self._returns = returns
        self._entry, self._body = entry, self.builder.block
        self._exit = function.append_basic_block("exit")
        self._results = [self.slot(kind) for kind in leaf_types(returns)]
        self._loops: list[tuple[ir.Block, ir.Block]] = []  # where continue and break go

    def translate(self, types: Sequence[Type]) -> None:
        """Translate the body of the function, called with arguments of ``types``."""
        builder, leaves = self.builder, iter(self.builder.function.args)
        for name, of in zip(self.source.parameters, types, strict=True):
            self.set_variable(name, Value(of, tuple(next(leaves) for _ in leaf_types(of))))
        self._all(self.source.tree.body)
        if not builder.block.is_terminated:
            if self._returns != "none":
                self.source.refuse(self.source.tree, "it may end without a result")
            builder.branch(self._exit)
        builder.position_at_end(self._exit)
        for room in self.rooms:
            self.free(room)
        kinds = leaf_types(self._returns)
        found = [builder.load(slot, typ=kind) for slot, kind in zip(self._results, kinds, strict=True)]
        if not found:
            builder.ret_void()
        elif len(found) == 1:
            builder.ret(found[0])
        else:
            whole = ir.Constant(ir.LiteralStructType(kinds), ir.Undefined)
            for index, leaf in enumerate(found):
                whole = builder.insert_value(whole, leaf, index)
            builder.ret(whole)
        builder.position_at_end(self._entry)
        builder.branch(self._body)

    def _all(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            if self.builder.block.is_terminated:  # nothing after a return, a break or a continue is reached
                return
            with self.described(statement):
                self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:  # noqa: C901, PLR0912  a case for each kind of statement
        match node:
            case ast.Expr(ast.Constant()) | ast.Pass():
                pass
            case ast.Expr(value):
                self.value(value)
            case ast.Assign(targets, value):
                found = self.value(value)
                for target in targets:
                    self._assign(target, found)
            case ast.AnnAssign(target, _, value) if value is not None:
                self._assign(target, self.value(value))
            case ast.AugAssign(target, operator, value):
                self._augment(target, operator, self.value(value))
            case ast.If(test, body, orelse):
                self._if(self.condition(test), body, orelse)
            case ast.While(test, body, []):
                self._while(test, body)
            case ast.For(target, iterated, body, []):
                self._for(target, iterated, body)
            case ast.Continue():
                self.builder.branch(self._loops[-1][0])
            case ast.Break():
                self.builder.branch(self._loops[-1][1])
            case ast.Return(value):
                self._return(NOTHING if value is None else self.value(value))
            case _:
                raise NotImplementedError(f"there is no {type(node).__name__}")

    def _return(self, value: Value) -> None:
        if value.type != self._returns:
            if not (isinstance(self._returns, str) and value.is_scalar):
                raise TypeError(f"it returns {value.type}, and says {self._returns}")
            value = on.converted(self.builder, value, self._returns)
        for leaf, slot in zip(value.leaves, self._results, strict=True):
            self.builder.store(leaf, slot)
        self.builder.branch(self._exit)

    def _assign(self, target: ast.expr, value: Value) -> None:
        match target:
            case ast.Name(name):
                self.set_variable(name, value)
            case ast.Tuple(targets):
                parts = self._items(value, len(targets), target) if isinstance(value.type, Array) else value.parts
                for each, part in zip(targets, parts, strict=True):
                    self._assign(each, part)
            case ast.Subscript(base, index):
                self._store(self.view(self.value(base), index), value)
            case _:
                raise NotImplementedError(f"{type(target).__name__} is given no value")

    def _store(self, place: Value, value: Value) -> None:
        assert isinstance(place.type, Array)
        if place.type.rank:
            self.fill(place, value)
        else:
            on.store(self.builder, value, place.leaves[0], element_of(place.type.element))

    def _augment(self, target: ast.expr, operator: ast.operator, value: Value) -> None:
        name = type(operator).__name__
        if isinstance(target, ast.Subscript):
            place = self.view(self.value(target.value), target.slice)
            assert isinstance(place.type, Array)
            if place.type.rank:
                raise NotImplementedError("an element is changed, not an array")
            self._store(place, on.binary(self.builder, name, self.loaded(place), value))
        else:
            assert isinstance(target, ast.Name)
            self.set_variable(target.id, on.binary(self.builder, name, self.value(target), value))

    def _if(self, test: ir.Value, body: Sequence[ast.stmt], orelse: Sequence[ast.stmt]) -> None:
        builder = self.builder
        yes, no, done = (builder.append_basic_block(name) for name in ("then", "else", "endif"))
        builder.cbranch(test, yes, no)
        reached = False
        for block, statements in ((yes, body), (no, orelse)):
            builder.position_at_end(block)
            self._all(statements)
            if not builder.block.is_terminated:
                builder.branch(done)
                reached = True
        builder.position_at_end(done)
        if not reached:
            builder.unreachable()

    def _while(self, test: ast.expr, body: Sequence[ast.stmt]) -> None:
        builder = self.builder
        again, inside, done = (builder.append_basic_block(name) for name in ("while", "do", "end"))
        builder.branch(again)
        builder.position_at_end(again)
        for_ever = self.source.static(test) is True
        if for_ever:
            builder.branch(inside)
        else:
            builder.cbranch(self.condition(test), inside, done)
        builder.position_at_end(inside)
        self._loop(body, again, done)
        builder.position_at_end(done)
        if for_ever and not any(isinstance(each, ast.Break) for statement in body for each in ast.walk(statement)):
            builder.unreachable()

    def _loop(self, body: Sequence[ast.stmt], again: ir.Block, done: ir.Block) -> None:
        self._loops.append((again, done))
        self._all(body)
        self._loops.pop()
        if not self.builder.block.is_terminated:
            self.builder.branch(again)

    def _for(self, target: ast.expr, iterated: ast.expr, body: Sequence[ast.stmt]) -> None:
        if isinstance(iterated, ast.Call) and self.source.static(iterated.func) is range:
            self._for_numbers(target, [self.value(each) for each in iterated.args], body)
            return
        over = self.value(iterated)
        if not isinstance(over.type, Array):
            self._for_parts(target, over.parts, body)
            return
        hidden = integer(0), Value("int64", (over.leaves[1],)), integer(1)
        self._for_numbers(target, hidden, body, over)

    def _for_parts(self, target: ast.expr, parts: Sequence[Value], body: Sequence[ast.stmt]) -> None:
        """The body stands once for each part of a tuple."""
        done = self.builder.append_basic_block("done")
        for part in parts:
            following = self.builder.append_basic_block("next")
            self._assign(target, part)
            self._loop(body, following, done)
            self.builder.position_at_end(following)
        self.builder.branch(done)
        self.builder.position_at_end(done)

    def _for_numbers(
        self, target: ast.expr, limits: Sequence[Value], body: Sequence[ast.stmt], over: Value | None = None
    ) -> None:
        """Repeat for the numbers of a range, or for what an array has at them."""
        builder, zero = self.builder, integer(0).scalar
        begin, end, step = {1: (integer(0), *limits, integer(1)), 2: (*limits, integer(1)), 3: tuple(limits)}[
            len(limits)
        ]
        counter = self.slot(INTEGER)
        builder.store(begin.scalar, counter)
        test, inside, following, done = (builder.append_basic_block(name) for name in ("for", "do", "next", "end"))
        builder.branch(test)
        builder.position_at_end(test)
        number = builder.load(counter, typ=INTEGER)
        ahead = builder.icmp_signed("<", number, end.scalar)
        if not isinstance(step.scalar, ir.Constant) or step.scalar.constant < 0:
            back = builder.icmp_signed(">", number, end.scalar)
            ahead = builder.select(builder.icmp_signed(">", step.scalar, zero), ahead, back)
        builder.cbranch(ahead, inside, done)
        builder.position_at_end(inside)
        found = Value("int64", (number,))
        self._assign(target, found if over is None else self._item(over, found, target))
        self._loop(body, following, done)
        builder.position_at_end(following)
        builder.store(builder.add(number, step.scalar), counter)
        builder.branch(test)
        builder.position_at_end(done)

    def _items(self, array: Value, count: int, node: ast.expr) -> list[Value]:
        """Returns an array's first parts: how many it has is not known here."""
        return [self._item(array, integer(index), node) for index in range(count)]

    def _item(self, array: Value, number: Value, node: ast.expr) -> Value:
        return self.loaded(self.part(array, [number], node.lineno))
