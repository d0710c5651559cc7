"""Operators of the graph as statements: TVM legalises one, and the stores of its blocks are read.

Nothing here knows an operator: what TVM writes as loops over stores of whole elements, of sums, of maxima or of
minima, can be said; what it writes otherwise cannot, and the reason says where.
"""

import contextlib
import functools
import io
import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from tvm import ir, relax
from tvm.relax.frontend.onnx import from_onnx
from tvm_ffi import StructuralKey

from accel.expression.syntax_tree import Access, walk
from accel.host.onnx_calls import OnnxCall, read_onnx_call
from accel.lowering.vector.block_statements import BlockStatements, ShiftedInteger, UnsaidError
from accel.lowering.vector.inlined_conditions import without_conditions
from accel.lowering.vector.whole_floats import FLOAT, LegalOperator, LegalStatement, LegalTensor, Range, as_floats

_INTERPOLATIONS = ("GridSample", "Resize", "Upsample")
_BETWEEN = (
    "expressions read elements, and nothing between two of them; a ConvTranspose with the factors of its interpolation "
    "as weights would be a layer"
)


class Legalizer:
    """Legalises operators, each kind of call once."""

    def __init__(self) -> None:
        self._known: dict[Hashable, LegalOperator | str] = {}

    def read(
        self,
        value: ir.Call,
        result: relax.TensorType,
        composite: relax.Function | None,
        ranges: Mapping[relax.Expr, Range],
    ) -> tuple[LegalOperator, list[relax.Expr]]:
        """Returns an operator as statements, and the operands that its inputs stand for.

        Constants of one element are numbers in the statements. ``composite`` is the function that is called, if one is;
        ``ranges`` are those of wide integers.

        Raises:
            UnsaidError: it is no tensor program that statements can say.
        """
        call = read_onnx_call(value)
        if composite is not None:
            given = list(value.args)
            operator = self._found(StructuralKey(composite), lambda: _module_of(composite), given, ranges)
            return operator, [*given, *operator.constants]
        if call is None and not (isinstance(value.op, ir.Op) and value.op.name.startswith("relax.")):
            raise UnsaidError("it is a function of its own")
        if call is not None and call.op in _INTERPOLATIONS:
            raise UnsaidError(_BETWEEN)
        arguments = _operands(value) if call is None else [each for each in call.operands if each is not None]
        floats = str(result.dtype) == FLOAT
        given = list(
            dict.fromkeys(arg for arg in arguments if not (_is_number(arg) or (floats and call and _says_where(arg))))
        )
        if any(not isinstance(arg.ty, relax.TensorType) for arg in given):
            raise UnsaidError("an operand is no tensor")

        def legalised() -> ir.IRModule:
            return _module(value, given) if call is None else _module_of_onnx(call, given, result)

        operator = self._found(_key(value, call, given), legalised, given, ranges)
        return operator, [*given, *operator.constants]

    def _found(
        self,
        kind: Hashable,
        legalised: Callable[[], ir.IRModule],
        given: Sequence[relax.Expr],
        ranges: Mapping[relax.Expr, Range],
    ) -> LegalOperator:
        known = tuple(_constant_range(each) or ranges.get(each) for each in given)
        key = kind, known
        if key not in self._known:
            try:
                read = without_conditions(_read_module(legalised()))
                self._known[key] = as_floats(read, (*known, *map(_constant_range, read.constants)))
            except UnsaidError as error:
                self._known[key] = str(error)
            except Exception as error:  # noqa: BLE001 - a front end of TVM raises what it likes
                self._known[key] = f"TVM does not legalise it: {str(error).splitlines()[0] if str(error) else error!r}"
        found = self._known[key]
        if isinstance(found, str):
            raise UnsaidError(found)
        return found


def _constant_range(value: relax.Expr) -> Range | None:
    """The least and the greatest of a constant's integers."""
    if not isinstance(value, ir.GenericConst):
        return None
    array = value.value.numpy()
    return (float(array.min()), float(array.max())) if array.size and array.dtype.kind in "iu" else None


def _operands(value: ir.Call) -> list[relax.Expr]:
    flat: list[relax.Expr] = []
    for arg in value.args:
        flat += list(arg.fields) if isinstance(arg, relax.Tuple) else [arg]
    return [arg for arg in flat if isinstance(arg, relax.Var | ir.GenericConst)]


def _is_number(arg: relax.Expr) -> bool:
    return isinstance(arg, ir.GenericConst) and arg.value.numpy().size == 1


def _says_where(arg: relax.Expr) -> bool:
    """Whether an operand of a node that makes floats is a list of axes or extents, and no data."""
    return isinstance(arg, ir.GenericConst) and str(arg.ty.dtype) == "int64" and arg.value.numpy().ndim == 1


def _key(value: ir.Call, call: OnnxCall | None, given: list[relax.Expr]) -> str:
    """The same for calls that differ in nothing but the names of operands and the contents of their constants."""
    places = {arg: number for number, arg in enumerate(given)}
    types = [str(arg.ty) for arg in given]
    if call is None:
        attributes = str(value.attrs)
        named = [_named(arg, places) for arg in value.args]
        return f"{value.op.name} {attributes} {named} {types}"
    attributes = repr(sorted((name, repr(item)) for name, item in call.attributes.items()))
    named = ["" if operand is None else _named(operand, places) for operand in call.operands]
    return f"onnx {call.opset} {call.op} {attributes} {named} {types} {call.outputs}"


def _named(arg: Any, places: Mapping[relax.Expr, int]) -> str:
    if isinstance(arg, relax.Tuple):
        return str([_named(field, places) for field in arg.fields])
    if arg in places:
        return f"%{places[arg]}"
    if isinstance(arg, ir.GenericConst):
        array = arg.value.numpy()
        return f"{array.dtype}{array.shape}{array.tolist()!r}"
    return str(arg)


def _module_of(composite: relax.Function) -> ir.IRModule:
    """A module whose ``main`` is a composite."""
    plain = relax.Function(composite.params, composite.body, composite.ret_ty, is_pure=True)
    return relax.transform.LegalizeOps()(ir.IRModule({"main": plain.with_attr("global_symbol", "main")}))


_Renamed = Callable[[relax.Expr], relax.Expr]


def _module_that(make: Callable[[relax.BlockBuilder, _Renamed], relax.Expr], given: list[relax.Expr]) -> ir.IRModule:
    """A module whose ``main`` is what ``make`` builds of parameters in place of what is given."""
    builder = relax.BlockBuilder()
    parameters = [relax.Var(f"x{number}", arg.ty) for number, arg in enumerate(given)]
    names = dict(zip(given, parameters, strict=True))
    with builder.function("main", parameters):
        with builder.dataflow():
            result = builder.emit_output(make(builder, lambda arg: names.get(arg, arg)))
        builder.emit_func_output(result)
    return relax.transform.LegalizeOps()(builder.get())


def _module(value: ir.Call, given: list[relax.Expr]) -> ir.IRModule:
    """A module whose ``main`` is the call."""

    def make(_builder: relax.BlockBuilder, renamed: _Renamed) -> relax.Expr:
        def argument(arg: Any) -> Any:
            return (
                relax.Tuple([renamed(field) for field in arg.fields]) if isinstance(arg, relax.Tuple) else renamed(arg)
            )

        return ir.Call(value.op, [argument(arg) for arg in value.args], value.attrs, value.ty_args)

    return _module_that(make, given)


def _module_of_onnx(call: OnnxCall, given: list[relax.Expr], result: relax.TensorType) -> ir.IRModule:
    """A module whose ``main`` is the node, as TVM's front end of ONNX has it.

    That stacks the operands of a maximum or a minimum, which is no loop over whole elements: these are made here.
    """
    if call.op in _STACKED:
        return _module_of_pairs(_STACKED[call.op], [each for each in call.operands if each is not None], given)
    names = {arg: f"x{number}" for number, arg in enumerate(given)}
    inputs, constants = [], []
    for number, operand in enumerate(call.operands):
        if operand is None:
            inputs.append("")
        elif operand in names:
            inputs.append(names[operand])
        else:
            constants.append(onnx.numpy_helper.from_array(operand.value.numpy(), f"c{number}"))
            inputs.append(f"c{number}")
    outputs = ["y" if number == 0 else "" for number, there in enumerate(call.outputs) if there]
    node = onnx.helper.make_node(call.op, inputs, outputs, **call.attributes)
    values = [_value_info(name, arg.ty) for arg, name in names.items()]
    graph = onnx.helper.make_graph([node], "operator", values, [_value_info("y", result)], constants)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", call.opset)])
    with contextlib.redirect_stdout(io.StringIO()):  # on which TVM says what its error says too
        imported = from_onnx(model, keep_params_in_input=False)
    # bounds of a Clip, which may be no numbers, are computed of constants
    return relax.transform.FoldConstant()(relax.transform.LegalizeOps()(imported))


_STACKED: dict[str, Callable[[relax.Expr, relax.Expr], relax.Expr]] = {
    "Max": relax.op.maximum,
    "Min": relax.op.minimum,
}


def _module_of_pairs(
    operation: Callable[[relax.Expr, relax.Expr], relax.Expr], operands: list[relax.Expr], given: list[relax.Expr]
) -> ir.IRModule:
    """A module whose ``main`` joins operands from the left."""

    def make(builder: relax.BlockBuilder, renamed: _Renamed) -> relax.Expr:
        first, *others = map(renamed, operands)
        return functools.reduce(lambda value, other: builder.emit(operation(value, other)), others, first)

    return _module_that(make, given)


def _value_info(name: str, ty: relax.TensorType) -> onnx.ValueInfoProto:
    dtype = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(str(ty.dtype)))
    return onnx.helper.make_tensor_value_info(name, dtype, [int(extent) for extent in ty.shape.values])


def _read_module(module: ir.IRModule) -> LegalOperator:
    """The functions of ``main``, one behind the other."""
    main = module["main"]
    tensors: dict[str, LegalTensor] = {}
    names: dict[relax.Expr, str] = {}
    for parameter in main.params:
        names[parameter] = str(parameter.name)
        tensors[names[parameter]] = _tensor(parameter.ty)
    statements: list[LegalStatement] = []
    numbers: dict[str, float] = {}
    constants: dict[str, ir.GenericConst] = {}
    shifted: dict[str, ShiftedInteger] = {}
    parts: dict[relax.Expr, list[str]] = {}
    inner = itertools.count()
    for block in main.body.blocks:
        for binding in block.bindings:
            value = binding.value
            if isinstance(value, relax.Var):
                names[binding.var] = names[value]
                continue
            if isinstance(value, relax.TupleGetItem) and value.tuple_value in parts:
                names[binding.var] = parts[value.tuple_value][value.index]
                continue
            if not isinstance(value, ir.Call) or getattr(value.op, "name", "") != "relax.call_tir":
                raise UnsaidError(f"TVM makes {getattr(getattr(value, 'op', None), 'name', value)} of it, not loops")
            made = {f"t{next(inner)}": _tensor(ty) for ty in getattr(binding.var.ty, "fields", [binding.var.ty])}
            parts[binding.var], tensors = [*made], tensors | made
            names[binding.var] = next(iter(made))
            arguments = [_argument(arg, names, numbers, constants) for arg in value.args[1].fields]
            tensors |= {each: _tensor(constant.ty) for each, constant in constants.items()}
            function = BlockStatements(module[value.args[0]], [*arguments, *made], tensors, numbers, inner, shifted)
            statements += function.statements()
    if main.body.body not in names:
        raise UnsaidError("it has several results")
    statements = _needed(statements, names[main.body.body])
    looked_up = {access.name for statement in statements for access in statement.looked_up}
    if not looked_up >= {*constants}:
        raise UnsaidError("TVM makes a constant for it")
    return LegalOperator(
        {name: tensor for name, tensor in tensors.items() if name not in shifted},
        (*(str(p.name) for p in main.params), *constants),
        names[main.body.body],
        tuple(statements),
        constants=tuple(constants.values()),
    )


def _needed(statements: Sequence[LegalStatement], result: str) -> list[LegalStatement]:
    """Those that a result comes of: a norm leaves its moments too."""
    wanted, kept = {result}, list[LegalStatement]()
    for statement in reversed(statements):
        if statement.target.name in wanted:
            wanted.update(leaf.name for leaf in walk(statement.value) if isinstance(leaf, Access))
            kept.append(statement)
    return kept[::-1]


def _argument(
    arg: relax.Expr,
    names: Mapping[relax.Expr, str],
    numbers: dict[str, float],
    constants: dict[str, ir.GenericConst],
) -> str:
    """What an argument is called; a constant whose elements are equal is a number."""
    if arg in names:
        return names[arg]
    if not isinstance(arg, ir.GenericConst):
        raise UnsaidError("an argument is no tensor")
    values = np.unique(arg.value.numpy())
    if values.size == 1:
        name = f"k{len(numbers)}"
        numbers[name] = values.item()
        return name
    name = f"c{len(constants)}"
    constants[name] = arg
    return name


def _tensor(ty: relax.TensorType) -> LegalTensor:
    try:
        return LegalTensor(tuple(int(extent) for extent in ty.shape.values), str(ty.dtype))
    except (AttributeError, TypeError):
        raise UnsaidError("its shape depends on data") from None
