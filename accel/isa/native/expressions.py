"""Expressions of kernels: numbers, elements of arrays, choices, and calls of other kernels."""

import ast
import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from llvmlite import ir

from accel.isa.kernels.kernel_types import Array, Fields, Type
from accel.isa.native import arithmetic as on
from accel.isa.native.arrays import Arrays, Calls
from accel.isa.native.source import MISSING, Source
from accel.isa.native.values import (
    BIT,
    Value,
    constant,
    element_of,
    integer,
    leaf_types,
    tuple_of,
)

_CASTS = {int: "int64", np.int64: "int64", np.uintp: "int64", np.uint64: "uint64", np.float32: "float32"}
_CASTS |= {np.float64: "float64", float: "float64"}
_CUTS = {np.int8: (8, True), np.uint8: (8, False), np.int16: (16, True), np.int32: (32, True)}
_ROOM: dict[Any, int | None] = {np.zeros: None, np.empty: None, np.full: 1}  # which argument fills it


class Expressions(Arrays):
    """Translates the expressions of one function."""

    def __init__(self, source: Source, calls: Calls, builder: on.Builder, *, checked: bool) -> None:
        super().__init__(calls, builder, checked=checked)
        self.source = source
        self.variables: dict[str, tuple[Type, tuple[ir.Value, ...]]] = {}

    @contextlib.contextmanager
    def described(self, node: ast.AST) -> Iterator[None]:
        """Say at which expression or statement something cannot be done."""
        try:
            yield
        except (TypeError, ValueError, NotImplementedError) as error:
            self.source.refuse(node, str(error))

    def value(self, node: ast.expr) -> Value:
        """Translates an expression.

        Raises:
            KernelSyntaxError: kernels cannot have it.
        """
        with self.described(node):
            return self._value(node)

    def _value(self, node: ast.expr) -> Value:  # noqa: C901, PLR0911, PLR0912  a case for each kind of expression
        static = self.source.static(node)
        if static is not MISSING:
            found = constant(static)
            if found is None:
                raise TypeError(f"{static!r} is no value of a kernel")
            return found
        match node:
            case ast.Name(name):
                return self._variable(name)
            case ast.BinOp(left, operator, right):
                return on.binary(self.builder, type(operator).__name__, self.value(left), self.value(right))
            case ast.UnaryOp(operator, operand):
                return self._unary(operator, operand)
            case ast.Compare():
                return on.number_of(self.builder, self.condition(node))
            case ast.BoolOp(operator, values):
                return self._short_circuit(operator, values)
            case ast.IfExp(test, yes, no):
                return self._choice(self.condition(test), lambda: self.value(yes), lambda: self.value(no))
            case ast.Tuple(parts):
                return tuple_of(self.value(each) for each in parts)
            case ast.Subscript():
                return self._subscript(node)
            case ast.Attribute(base, name):
                return self._attribute(self.value(base), name)
            case ast.Call():
                return self._call(node)
            case _:
                raise NotImplementedError(f"there is no {type(node).__name__}")

    def condition(self, node: ast.expr) -> ir.Value:
        """Translates an expression to LLVM's bit of whether it is true."""
        with self.described(node):
            match node:
                case ast.Compare(left, operators, others):
                    return self._comparison(left, operators, others)
                case ast.UnaryOp(ast.Not(), operand):
                    return self.builder.not_(self.condition(operand))
                case ast.BoolOp(operator, values):
                    return self._conditions(operator, values)
                case _:
                    return on.truth(self.builder, self.value(node))

    def _variable(self, name: str) -> Value:
        if name not in self.variables:
            raise TypeError(f"{name} has no value yet")
        of, slots = self.variables[name]
        kinds = leaf_types(of)
        return Value(of, tuple(self.builder.load(each, typ=kind) for each, kind in zip(slots, kinds, strict=True)))

    def set_variable(self, name: str, value: Value) -> None:
        """Give a variable a value, which is of the type of its first one."""
        if name not in self.variables:
            self.variables[name] = value.type, tuple(self.slot(kind) for kind in leaf_types(value.type))
        of, slots = self.variables[name]
        if value.type != of and value.is_scalar and of == "float64":
            value = on.converted(self.builder, value, "float64")
        if value.type != of:
            raise TypeError(f"{name} is {of}, and would be {value.type}")
        for leaf, slot in zip(value.leaves, slots, strict=True):
            self.builder.store(leaf, slot)

    def _unary(self, operator: ast.unaryop, operand: ast.expr) -> Value:
        if isinstance(operator, ast.Not):
            return on.number_of(self.builder, self.builder.not_(self.condition(operand)))
        value = self.value(operand)
        if isinstance(operator, ast.USub):
            made = self.builder.fneg(value.scalar) if value.is_float else self.builder.neg(value.scalar)
            return Value(value.type, (made,))
        if isinstance(operator, ast.Invert) and not value.is_float:
            return Value(value.type, (self.builder.not_(value.scalar),))
        raise NotImplementedError(f"there is no {type(operator).__name__} of {value.type}")

    def _comparison(self, left: ast.expr, operators: Sequence[ast.cmpop], others: Sequence[ast.expr]) -> ir.Value:
        """``a < b <= c`` looks at b once, and at c always: no expression of a kernel has an effect."""
        held, found = self.value(left), None
        for operator, other in zip(operators, others, strict=True):
            value = self.value(other)
            if isinstance(operator, ast.In | ast.NotIn):
                bit = ir.Constant(BIT, 0)
                for part in value.parts:
                    bit = self.builder.or_(bit, on.compared(self.builder, "Eq", held, part))
                bit = bit if isinstance(operator, ast.In) else self.builder.not_(bit)
            else:
                bit = on.compared(self.builder, type(operator).__name__, held, value)
            found = bit if found is None else self.builder.and_(found, bit)
            held = value
        return found

    def _conditions(self, operator: ast.boolop, values: Sequence[ast.expr]) -> ir.Value:
        """Looks at a value only where those before it have not decided."""
        is_and = isinstance(operator, ast.And)
        first = self.condition(values[0])
        if len(values) == 1:
            return first
        builder, begun = self.builder, self.builder.block
        more, done = builder.append_basic_block("more"), builder.append_basic_block("done")
        builder.cbranch(first, more, done) if is_and else builder.cbranch(first, done, more)
        builder.position_at_end(more)
        rest = self._conditions(operator, values[1:])
        ended = builder.block
        builder.branch(done)
        builder.position_at_end(done)
        found = builder.phi(BIT)
        found.add_incoming(ir.Constant(BIT, 0 if is_and else 1), begun)
        found.add_incoming(rest, ended)
        return found

    def _short_circuit(self, operator: ast.boolop, values: Sequence[ast.expr]) -> Value:
        """``a and b`` is a where that is zero, and else b."""
        first = self.value(values[0])
        if len(values) == 1:
            return first
        test = on.truth(self.builder, first)

        def rest() -> Value:
            return self._short_circuit(operator, values[1:])

        if isinstance(operator, ast.And):
            return self._choice(test, rest, lambda: first)
        return self._choice(test, lambda: first, rest)

    def _choice(self, test: ir.Value, yes: Callable[[], Value], no: Callable[[], Value]) -> Value:
        """Translates one of two expressions that are each looked at only where it is wanted."""
        builder = self.builder
        blocks = [builder.append_basic_block(name) for name in ("yes", "no", "chosen")]
        builder.cbranch(test, *blocks[:2])
        made = []
        for block, branch in zip(blocks, (yes, no), strict=False):
            builder.position_at_end(block)
            made.append((branch(), builder.block))
        one, other = (value for value, _ in made)
        if one.type != other.type and not (one.is_float or other.is_float):
            raise TypeError(f"{one.type} or {other.type}")
        of = one.type if one.type == other.type else "float64"
        incoming = []
        for value, block in made:
            builder.position_at_end(block)
            incoming.append(value if value.type == of else on.converted(builder, value, "float64"))
            builder.branch(blocks[2])
        builder.position_at_end(blocks[2])
        leaves = []
        for kind, *pair in zip(leaf_types(of), *(value.leaves for value in incoming), strict=True):
            phi = builder.phi(kind)
            for leaf, (_, block) in zip(pair, made, strict=True):
                phi.add_incoming(leaf, block)
            leaves.append(phi)
        return Value(of, tuple(leaves))

    def _attribute(self, value: Value, name: str) -> Value:
        match value.type:
            case Array(_, rank) if name == "shape":
                return Value(("int64",) * rank, value.leaves[1:])
            case Fields(kind, _):
                return value.parts[kind._fields.index(name)]  # type: ignore[attr-defined]  # a named tuple
        raise TypeError(f"{value.type} has no {name}")

    def _subscript(self, node: ast.Subscript) -> Value:
        value = self.value(node.value)
        if not isinstance(value.type, Array):
            index = self.source.static(node.slice)
            return value.parts[index] if isinstance(index, int) else self._one_of(value.parts, self.value(node.slice))
        return self.loaded(self.view(value, node.slice))

    def _one_of(self, parts: Sequence[Value], index: Value) -> Value:
        """Returns the part of a tuple that a number names; one of the last where it names none."""
        found = parts[-1]
        for number, part in enumerate(parts[:-1]):
            bit = on.compared(self.builder, "Eq", index, integer(number))
            if part.type != found.type:
                raise TypeError(f"a part of {part.type} or {found.type}")
            leaves = zip(part.leaves, found.leaves, strict=True)
            found = Value(part.type, tuple(self.builder.select(bit, *pair) for pair in leaves))
        return found

    def view(self, array: Value, index: ast.expr) -> Value:
        """Returns a part of an array: of rank 0 where ``index`` names an element."""
        indices = index.elts if isinstance(index, ast.Tuple) else [index]
        for each in indices:
            if isinstance(each, ast.Slice):
                array = self._sliced(array, each, last=each is indices[-1])
        plain = [each for each in indices if not isinstance(each, ast.Slice)]
        numbers = [self._index(each, extent) for each, extent in zip(plain, array.leaves[1:], strict=False)]
        if len(numbers) < len(plain):
            raise TypeError(f"{len(plain)} indices of an array of rank {len(numbers)}")
        return self.part(array, numbers, index.lineno) if numbers else array

    def _index(self, node: ast.expr, extent: ir.Value) -> Value:
        """Returns an index; one that is written down as a negative number counts from the end."""
        found = on.converted(self.builder, self.value(node), "int64")
        static = self.source.static(node)
        if static is not MISSING and static < 0:
            return Value("int64", (self.builder.add(extent, found.scalar),))
        return found

    def _sliced(self, array: Value, index: ast.Slice, *, last: bool) -> Value:
        """Returns elements from one place up to another, both within the array."""
        assert isinstance(array.type, Array)
        if index.step is not None or not last:
            raise NotImplementedError("slices are of the last index, without a step")
        if array.type.rank != 1:
            if index.lower or index.upper:
                raise NotImplementedError("slices are of arrays of rank 1")
            return array
        pointer, extent = array.leaves
        begin = self.value(index.lower) if index.lower else integer(0)
        end = self.value(index.upper) if index.upper else Value("int64", (extent,))
        if self.checked:
            begin, end = self.within(begin, end, extent, index.lineno)
        place = self.builder.gep(pointer, [begin.scalar], source_etype=element_of(array.type.element).memory)
        return Value(array.type, (place, self.builder.sub(end.scalar, begin.scalar)))

    def _call(self, node: ast.Call) -> Value:
        function = self.source.static(node.func)
        if function is MISSING:
            raise TypeError("what is called is not known")
        if function in _ROOM:
            return self._room(node, _ROOM[function])
        if node.keywords:
            raise NotImplementedError("arguments have no names")
        arguments = [self.value(each) for each in node.args]
        found = self.calls.call(self.builder, function, arguments)
        return found if found is not None else self._built_in(function, arguments)

    def _built_in(self, function: Any, arguments: list[Value]) -> Value:  # noqa: PLR0911  a case for each
        builder, first = self.builder, arguments[0]
        if function in _CASTS:
            return on.converted(builder, first, _CASTS[function])
        if function in _CUTS:
            bits, signed = _CUTS[function]
            return on.truncated(builder, first, bits, signed=signed)
        if function is bool:
            return on.number_of(builder, on.truth(builder, first))
        if function in (min, max):
            return on.chosen(builder, "Lt" if function is min else "Gt", arguments)
        if function is len:
            return Value("int64", (first.leaves[1],)) if isinstance(first.type, Array) else integer(len(first.parts))
        if function is divmod:
            return tuple_of(on.binary(builder, name, *arguments) for name in ("FloorDiv", "Mod"))
        if function is abs and not first.is_float:
            return on.chosen(builder, "Gt", [first, Value(first.type, (builder.neg(first.scalar),))])
        if function in (abs, math.sqrt):
            first = first if first.is_float else on.converted(builder, first, "float64")
            kind = first.scalar.type
            name = ("llvm.fabs" if function is abs else "llvm.sqrt") + (".f32" if first.type == "float32" else ".f64")
            return Value(first.type, (builder.call(self.calls.routine(name, kind, kind), [first.scalar]),))
        raise NotImplementedError(f"{function!r} is no kernel")

    def _room(self, node: ast.Call, filled: int | None) -> Value:
        """Allocates what ``np.zeros``, ``np.empty`` or ``np.full`` would; argument ``filled`` is its elements."""
        shape = self.value(node.args[0])
        extents = [shape] if shape.is_scalar else list(shape.parts)
        given = len(node.args) > (2 if filled else 1)
        kind = self.source.static(node.args[-1]) if given else np.int64
        if kind is MISSING:
            raise TypeError("of which type the array is, is not known")
        found = self.allocated(np.dtype(kind).name, extents)
        if filled:
            self.fill(found, self.value(node.args[filled]))
        return found
