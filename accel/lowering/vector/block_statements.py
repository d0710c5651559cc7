"""Statements of a PrimFunc of TVM's: each block is a loop nest around one store, whose expression is read."""

from collections.abc import Iterator, Mapping
from typing import Any

from tvm import ir, s_tir, sym, tirx
from tvm.ir import TensorLoad
from tvm_ffi import structural_equal

from accel.expression.element_types import CAST_TO, single
from accel.expression.syntax_tree import Access, Binary, Call, Cast, Combiner, Expression, Literal, Lookup, Select
from accel.lowering.vector.whole_floats import LegalStatement, LegalTensor

_COMBINERS: dict[type, Combiner] = {tirx.Add: "+", tirx.Max: "max", tirx.Min: "min"}
_BINARY = {tirx.Add: "+", tirx.Sub: "-", tirx.Mul: "*", tirx.Div: "/"}
_PAIRS = {tirx.Max: "max", tirx.Min: "min"}
_COMPARED = {tirx.LT: "<", tirx.LE: "<=", tirx.GT: ">", tirx.GE: ">=", tirx.EQ: "==", tirx.NE: "!="}
_CONDITIONS = (*_COMPARED, tirx.And, tirx.Or, tirx.Not)
# TVM rounds halves away from 0 where it is asked to round, and ONNX and documents to even
_FUNCTIONS = {name: name for name in ("exp", "exp2", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "erf", "floor", "ceil")}
_FUNCTIONS |= {"nearbyint": "rint", "round": "rint", "fabs": "abs"}
_ROOTS = {0.5: "sqrt", -0.5: "rsqrt"}
_PRODUCTS = (1.0, 2.0, 3.0, 4.0)  # powers of one or two multiplications
_SHORT = 40  # characters of an index in a reason
_EXACT = 1 << 23  # integers this far from 0 are float32 as they are, and so are their sums
_WIDE_ENOUGH = ("int8", "uint8", "int16")


ShiftedInteger = tuple[str, int]
"""A tensor of wide integers that are those of a narrow one, by its name, and a number."""


class UnsaidError(Exception):
    """What an operator does is no statement; the message is why."""


class BlockStatements:
    """The statements of one PrimFunc; buffers between its blocks become tensors of their own."""

    def __init__(
        self,
        function: tirx.PrimFunc,
        names: list[str],
        tensors: dict[str, LegalTensor],
        numbers: Mapping[str, float],
        inner: Iterator[int],
        shifted: dict[str, ShiftedInteger],
    ) -> None:
        root = function.body
        if not isinstance(root, s_tir.SBlockRealize) or len(function.params) != len(names):
            raise UnsaidError("TVM makes no blocks of it")
        self._numbers, self._shifted = numbers, shifted
        self._names: dict[Any, str] = dict(zip(function.params, names, strict=True))
        for buffer in root.block.alloc_buffers:
            self._names[buffer] = name = f"t{next(inner)}"
            tensors[name] = LegalTensor(tuple(int(extent) for extent in buffer.shape), str(buffer.dtype))
        body = root.block.body
        self._nests = list(body.seq) if isinstance(body, tirx.SeqStmt) else [body]

    def statements(self) -> list[LegalStatement]:
        """One of each block.

        Raises:
            UnsaidError: a block is no such nest, or its expression has something that documents have no word for.
        """
        made = (self._statement(nest) for nest in self._nests)
        return [statement for statement in made if statement is not None]

    def _statement(self, nest: Any) -> LegalStatement | None:
        """None of wide integers that only say where something is looked up."""
        loops: dict[Any, int] = {}
        while isinstance(nest, tirx.For):
            loops[nest.loop_var] = int(nest.extent)
            nest = nest.body
        if not isinstance(nest, s_tir.SBlockRealize) or not isinstance(nest.block.body, tirx.BufferStore):
            raise UnsaidError("a block of it stores more than one element, or of several")
        block, store = nest.block, nest.block.body
        labels: dict[Any, str] = {}
        extents: dict[str, int] = {}
        for number, (variable, at) in enumerate(zip(block.iter_vars, nest.iter_values, strict=True)):
            extent = loops[at] if at in loops else int(variable.dom.extent)
            if at not in loops and extent > 1:
                raise UnsaidError("its blocks do not walk their loops one to one")
            labels[variable.var] = f"i{number}"
            extents[f"i{number}"] = extent
        reader = _Reader(labels, extents, self._names, self._numbers, self._shifted)
        target = reader.access(store.buffer, store.indices)
        if block.init is None and (found := reader.shifted(store, target)) is not None:
            self._shifted[target.name] = found
            return None
        if block.init is None:
            return LegalStatement(target, None, None, reader.expression(store.value), extents)
        return self._combination(block, store, target, reader, extents)

    def _combination(
        self, block: Any, store: tirx.BufferStore, target: Access, reader: "_Reader", extents: Mapping[str, int]
    ) -> LegalStatement:
        combiner = _COMBINERS.get(type(store.value))
        own = tirx.BufferLoad(store.buffer, list(store.indices))
        if combiner is None or not structural_equal(store.value.a, own):
            raise UnsaidError("it is no sum, no maximum and no minimum that it reduces to")
        start = reader.expression(block.init.value)
        if not isinstance(start, Literal):
            raise UnsaidError("its reduction begins with something else than a number")
        value = reader.expression(store.value.b)
        if all(label in target.indices or extent == 1 for label, extent in extents.items()):  # over one element each
            return LegalStatement(target, None, None, value, extents)
        return LegalStatement(target, combiner, start.value, value, extents)


class _Reader:
    """Expressions of TIR as those of documents."""

    def __init__(
        self,
        labels: Mapping[Any, str],
        extents: Mapping[str, int],
        names: Mapping[Any, str],
        numbers: Mapping[str, float],
        shifted: Mapping[str, ShiftedInteger],
    ) -> None:
        self._labels, self._extents, self._names, self._numbers = labels, extents, names, numbers
        self._shifted = shifted

    def access(self, buffer: Any, indices: Any) -> Access:
        """An element; in a dimension of extent 1 the index is 0."""
        found: list[str | int] = []
        for index, extent in zip(indices, buffer.shape, strict=True):
            if int(extent) == 1:
                found.append(0)
            else:
                found.append(self._label(index, int(extent)))
        if buffer not in self._names:
            raise UnsaidError(f"it reads {buffer.name}, which is none of its tensors")
        return Access(self._names[buffer], tuple(found))

    def _label(self, index: Any, extent: int) -> str:
        """The loop that an index is."""
        if index not in self._labels:
            analyzer = sym.Analyzer()
            for variable, label in self._labels.items():
                analyzer.bind(variable, ir.Range(0, self._extents[label]))
            index = analyzer.simplify(index)
        if index not in self._labels or self._extents[self._labels[index]] != extent:
            raise UnsaidError(f"where it reads is {_told(index)}, which is no loop of its own")
        return self._labels[index]

    def expression(self, value: Any) -> Expression:
        """The expression.

        Raises:
            UnsaidError: it has something that documents have no word for.
        """
        if isinstance(value, TensorLoad):
            name = self._names.get(value.source, "")
            if name in self._numbers:
                return Literal(self._numbers[name])
            return self._lookup(value, name) or self.access(value.source, value.indices)
        if isinstance(value, tirx.IntImm):
            return Literal(int(value))
        if isinstance(value, tirx.FloatImm):
            return Literal(single(float(value)))
        if isinstance(value, ir.Call):
            return self._call(value)
        return self._cast(value) if isinstance(value, tirx.Cast) else self._operation(value)

    def shifted(self, store: tirx.BufferStore, target: Access) -> ShiftedInteger | None:
        """What wide integers are made of: one narrow one each, at the same place, and a number."""
        value, added = store.value, 0
        if type(value) is tirx.Add and isinstance(value.b, tirx.IntImm):
            value, added = value.a, int(value.b)
        widens = isinstance(value, tirx.Cast) and str(value.value.ty.dtype) in _WIDE_ENOUGH
        load = value.value if widens else value
        if str(store.value.ty.dtype) != "int64" or not isinstance(load, TensorLoad):
            return None
        name, number = self._names.get(load.source, ""), 0
        if not widens:
            if name not in self._shifted:
                return None
            name, number = self._shifted[name]
        access = self.access(load.source, load.indices)
        return (name, number + added) if access.indices == target.indices else None

    def _lookup(self, load: TensorLoad, name: str) -> Lookup | None:
        """An element of a row of numbers, at a place that is itself an element; None of an element at loops."""
        if len(load.indices) != 1 or not isinstance(load.indices[0], TensorLoad):
            return None
        at = load.indices[0]
        found = self._shifted.get(self._names.get(at.source, ""))
        if found is None or not name:
            raise UnsaidError(f"it reads {load.source.name} at {at}, which is no narrow integer")
        source, first = found
        return Lookup(Access(name, (first,)), Access(source, self.access(at.source, at.indices).indices))

    def _operation(self, value: Any) -> Expression:
        kind = type(value)
        if kind in _BINARY and (kind is not tirx.Div or str(value.ty.dtype) == "float32"):
            left, right = self.expression(value.a), self.expression(value.b)
            if kind is tirx.Sub and isinstance(right, Literal):
                return Binary("+", left, Literal(-right.value))
            return Binary(_BINARY[kind], left, right)
        if kind is tirx.LShift and isinstance(value.b, tirx.IntImm):
            return Binary("*", self.expression(value.a), Literal(1 << int(value.b)))
        if kind in _PAIRS:
            return Call(_PAIRS[kind], (self.expression(value.a), self.expression(value.b)))
        if isinstance(value, tirx.Select):
            then, otherwise = self.expression(value.true_value), self.expression(value.false_value)
            return self._selection(value.condition, then, otherwise)
        if isinstance(value, _CONDITIONS):
            return self._selection(value, Literal(1), Literal(0))
        if kind is tirx.Var:
            raise UnsaidError("it computes with the places of elements, which documents have no word for")
        raise UnsaidError(f"documents have no word for {kind.__name__}")

    def _selection(self, condition: Any, then: Expression, otherwise: Expression) -> Expression:
        """One of two by a condition; an element of bools is 1 or 0."""
        if type(condition) in _COMPARED:
            left, right = self.expression(condition.a), self.expression(condition.b)
            return Select(_COMPARED[type(condition)], left, right, then, otherwise)
        if isinstance(condition, tirx.And):
            return self._selection(condition.a, self._selection(condition.b, then, otherwise), otherwise)
        if isinstance(condition, tirx.Or):
            return self._selection(condition.a, then, self._selection(condition.b, then, otherwise))
        if isinstance(condition, tirx.Not):
            return self._selection(condition.a, otherwise, then)
        return Select("!=", self.expression(condition), Literal(0), then, otherwise)

    def _call(self, value: ir.Call) -> Expression:
        name = str(value.op.name).rpartition(".")[2]
        if name == "isnan":
            number = self.expression(value.args[0])
            return Select("!=", number, number, Literal(1), Literal(0))
        if name == "pow" and isinstance(exponent := self.expression(value.args[1]), Literal):
            found = _power(self.expression(value.args[0]), exponent.value)
            if found is not None:
                return found
        if name not in _FUNCTIONS or len(value.args) != 1:
            raise UnsaidError(f"documents have no function {name}")
        return Call(_FUNCTIONS[name], (self.expression(value.args[0]),))

    def _cast(self, value: tirx.Cast) -> Expression:
        dtype = str(value.ty.dtype)
        if str(value.value.ty.dtype) == "bool":
            return self.expression(value.value)
        if dtype == "bool":
            return Select("!=", self.expression(value.value), Literal(0), Literal(1), Literal(0))
        if dtype not in CAST_TO:
            raise UnsaidError(f"documents know no {dtype}")
        inner = value.value
        if dtype == "float32" and (found := self._whole(inner)) is not None:
            return found
        while isinstance(inner, tirx.Cast) and dtype in ("float32", "int32") and _widens(inner):
            inner = inner.value
        return Cast(CAST_TO[dtype], self.expression(inner))

    def _whole(self, value: Any) -> Expression | None:
        """A sum of a narrow integer and a constant, as a float: both are float32, and so is the sum."""
        if type(value) not in (tirx.Sub, tirx.Add) or not isinstance(value.b, tirx.IntImm):
            return None
        narrow, number = value.a, int(value.b)
        while isinstance(narrow, tirx.Cast):
            narrow = narrow.value
        if not isinstance(narrow, TensorLoad) or str(narrow.ty.dtype) not in _WIDE_ENOUGH or abs(number) > _EXACT:
            return None
        number = -number if type(value) is tirx.Sub else number
        widened = Cast("f32", self.access(narrow.source, narrow.indices))
        return widened if number == 0 else Binary("+", widened, Literal(float(number)))


def _power(base: Expression, exponent: float) -> Expression | None:
    """A power as products and roots, one over them of a negative exponent; None of any that is not so short."""
    if exponent in _ROOTS:
        return Call(_ROOTS[exponent], (base,))
    if abs(exponent) not in _PRODUCTS:
        return None
    square = Binary("*", base, base)
    product = {1: base, 2: square, 3: Binary("*", square, base), 4: Binary("*", square, square)}[abs(int(exponent))]
    return product if exponent > 0 else Call("recip", (product,))


def _told(index: Any) -> str:
    """An index as a reader knows it; what is long is only said to be computed."""
    text = str(index)
    return text if len(text) <= _SHORT else "computed from the place of the result"


def _widens(cast: tirx.Cast) -> bool:
    """Whether a cast of a narrow integer keeps its value."""
    return str(cast.value.ty.dtype) in _WIDE_ENOUGH and str(cast.ty.dtype) == "int32"
