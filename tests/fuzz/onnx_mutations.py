"""Structure-aware mutations of ONNX files: of the graph, of tensors, of any field of any message, and of bytes."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from onnx import AttributeProto, GraphProto, ModelProto, TensorProto, helper

Change = Callable[[ModelProto, random.Random], None]
_LARGEST = 1 << 20  # bytes of a mutated file
_INTEGERS = (0, 1, -1, 2, 3, 7, 16, 127, 255, 1 << 16, (1 << 31) - 1, -(1 << 31), 1 << 32, (1 << 63) - 1, -(1 << 63))
_DIMENSIONS = (*_INTEGERS, 1 << 20, 1 << 40, 4, 8)
_FLOATS = (0.0, -0.0, 1.0, -1.0, 1e-45, 3.4e38, float("inf"), float("-inf"), float("nan"), 1e-8, 0.5)
_TEXTS = (
    "", "x", "\x00", "a" * 513, "../../etc/passwd", "/etc/passwd", "\N{RIGHT-TO-LEFT OVERRIDE}x", "com.microsoft",
    "ai.onnx", "ai.onnx.ml", "node:x", "\n", "%s%n", "{0}", "\U0001f600", "NOTSET", "SAME_UPPER", "cyclops",
)  # fmt: skip
_OPERATORS = sorted({schema.name for schema in onnx.defs.get_all_schemas()})
_INTEGRAL = (FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64)


def mutated(model: ModelProto, chance: random.Random) -> bytes:
    """The file of a model with one to five changes, some of the files also damaged as bytes."""
    changed = ModelProto()
    changed.CopyFrom(model)
    for _ in range(min(1 + int(chance.expovariate(1.6)), 5)):
        chance.choices(_CHANGES, _SHARES)[0](changed, chance)
        if changed.ByteSize() > _LARGEST:
            break
    data = changed.SerializeToString()
    return damaged(data, chance) if chance.random() < 0.15 else data


def damaged(data: bytes, chance: random.Random) -> bytes:
    """Bytes flipped, cut, repeated, spliced, or a length made to promise more."""
    whole = bytearray(data[:_LARGEST])
    for _ in range(chance.choice((1, 1, 2, 8))):
        if not whole:
            break
        at = chance.randrange(len(whole))
        kind = chance.randrange(6)
        if kind == 0:
            whole[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del whole[at:]
        elif kind == 2:
            del whole[at : at + chance.choice((1, 2, 16, 300))]
        elif kind == 3:
            end = at + chance.choice((1, 8, 200))
            whole[at:at] = whole[at:end] * chance.choice((1, 2, 50))
        elif kind == 4:
            other = chance.randrange(len(whole))
            whole[at : at + 64] = whole[other : other + chance.choice((1, 64, 999))]
        else:  # a length of up to 2^63
            whole[at:at] = b"\xff" * chance.choice((1, 4, 9)) + b"\x01"
    return bytes(whole)


def _messages(message: Message, most: int = 400) -> Iterator[Message]:
    """A message and those in it, so many of them."""
    left = [message]
    while left and most:
        found = left.pop()
        most -= 1
        yield found
        for field, value in found.ListFields():
            if field.message_type is not None:
                left.extend(list(value)[:40] if field.is_repeated else [value])


def _any_field(model: ModelProto, chance: random.Random) -> None:
    """Of a message somewhere, a field that may be unset: cleared, doubled, turned around or given another value."""
    message = chance.choice(list(_messages(model)))
    field = chance.choice(message.DESCRIPTOR.fields)
    if chance.random() < 0.2:
        message.ClearField(field.name)
    elif field.is_repeated:
        _any_list(getattr(message, field.name), field, chance)
    elif field.message_type is not None:
        getattr(message, field.name).SetInParent()
    else:
        setattr(message, field.name, _scalar(field, chance))


def _any_list(values: Any, field: FieldDescriptor, chance: random.Random) -> None:
    kind = chance.randrange(4)
    if kind == 0 and len(values):
        del values[chance.randrange(len(values))]
    elif field.message_type is not None:
        values.add().CopyFrom(chance.choice(values)) if len(values) and kind == 1 else values.add()
    elif kind == 1:
        values.extend([_scalar(field, chance)] * chance.choice((1, 2, 9, 1000)))
    elif len(values):
        values[chance.randrange(len(values))] = _scalar(field, chance)


def _scalar(field: FieldDescriptor, chance: random.Random) -> Any:
    if field.enum_type is not None:
        return chance.choice(field.enum_type.values).number
    if field.cpp_type in _INTEGRAL:
        value = chance.choice(_INTEGERS)
        if field.cpp_type == FieldDescriptor.CPPTYPE_INT32:
            return max(min(value, (1 << 31) - 1), -(1 << 31))
        return abs(value) if field.cpp_type == FieldDescriptor.CPPTYPE_UINT64 else value
    if field.type == FieldDescriptor.TYPE_BYTES:
        return chance.randbytes(chance.choice((0, 1, 4, 100)))
    return chance.choice(_TEXTS) if field.type == FieldDescriptor.TYPE_STRING else chance.choice(_FLOATS)


def _node(model: ModelProto, chance: random.Random) -> Any:
    nodes = model.graph.node
    return chance.choice(nodes) if nodes else nodes.add()


def _name(model: ModelProto, chance: random.Random) -> str:
    """The name of some tensor, or of none."""
    names = [name for node in model.graph.node for name in (*node.input, *node.output)]
    return chance.choice([*names, "", "nobody"])


def _drop_node(model: ModelProto, chance: random.Random) -> None:
    if model.graph.node:
        del model.graph.node[chance.randrange(len(model.graph.node))]


def _repeat_node(model: ModelProto, chance: random.Random) -> None:
    node = _node(model, chance)
    for _ in range(chance.choice((1, 1, 2, 200))):
        model.graph.node.add().CopyFrom(node)


def _swap_nodes(model: ModelProto, chance: random.Random) -> None:
    nodes = list(model.graph.node)
    chance.shuffle(nodes)
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def _other_operator(model: ModelProto, chance: random.Random) -> None:
    node = _node(model, chance)
    node.op_type = chance.choice([*_OPERATORS, *_TEXTS]) if chance.random() < 0.7 else _node(model, chance).op_type


def _rewire(model: ModelProto, chance: random.Random) -> None:
    """Another input or output: a cycle, a name that two write, one that nobody does, or none at all."""
    node = _node(model, chance)
    names = node.input if chance.random() < 0.7 else node.output
    if names and chance.random() < 0.8:
        names[chance.randrange(len(names))] = _name(model, chance)
    else:
        names.extend([_name(model, chance)] * chance.choice((1, 1, 3, 40)))


def _own_input(model: ModelProto, chance: random.Random) -> None:
    node = _node(model, chance)
    node.input.extend(node.output)


def _attribute(model: ModelProto, chance: random.Random) -> None:
    """An attribute of another value, type or operator."""
    node = _node(model, chance)
    known = [attribute.name for other in model.graph.node for attribute in other.attribute]
    if node.attribute and chance.random() < 0.7:
        attribute = chance.choice(node.attribute)
    else:
        attribute = node.attribute.add(name=chance.choice([*known, "axis", "perm", "pads", "group", "to", "value"]))
    name = attribute.name
    value = chance.choice((
        chance.choice(_INTEGERS),
        chance.choice(_FLOATS),
        chance.choice(_TEXTS),
        [chance.choice(_DIMENSIONS) for _ in range(chance.choice((0, 1, 2, 4, 9)))],
        [chance.choice(_FLOATS) for _ in range(3)],
        _tensor(chance),
    ))  # fmt: skip
    if isinstance(value, list) and not value:
        attribute.Clear()
        attribute.name, attribute.type = name, AttributeProto.INTS
    else:
        attribute.CopyFrom(helper.make_attribute(name, value))


def _tensor(chance: random.Random) -> TensorProto:
    dims = [chance.choice((0, 1, 2, 3, 8, 1 << 30)) for _ in range(chance.randrange(4))]
    kind = chance.choice(list(TensorProto.DataType.values()))
    return TensorProto(name="made", dims=dims, data_type=kind, raw_data=chance.randbytes(chance.choice((0, 4, 64))))


def _constant(model: ModelProto, chance: random.Random) -> TensorProto:
    tensors = model.graph.initializer
    return chance.choice(tensors) if tensors else tensors.add()


def _dims(model: ModelProto, chance: random.Random) -> None:
    tensor = _constant(model, chance)
    if tensor.dims and chance.random() < 0.8:
        tensor.dims[chance.randrange(len(tensor.dims))] = chance.choice(_DIMENSIONS)
    else:
        tensor.dims.extend([chance.choice((1, 1, *_DIMENSIONS))] * chance.choice((1, 1, 9, 500)))


def _data(model: ModelProto, chance: random.Random) -> None:
    """Data that are longer, shorter or other than the shape says; or special numbers of the right length."""
    tensor = _constant(model, chance)
    raw = tensor.raw_data
    kind = chance.randrange(4)
    if kind == 0:
        tensor.raw_data = raw[: len(raw) // 2]
    elif kind == 1:
        tensor.raw_data = raw + chance.randbytes(4)
    elif kind == 2:
        tensor.float_data.extend([chance.choice(_FLOATS)] * 3)
    else:
        pattern = chance.choice(
            (b"\x00\x00\xc0\x7f", b"\x00\x00\x80\x7f", b"\xff\xff\xff\xff", b"\x00\x00\x00\x80", b"\0")
        )
        tensor.raw_data = (pattern * (len(raw) // len(pattern) + 1))[: len(raw)]


def _data_type(model: ModelProto, chance: random.Random) -> None:
    _constant(model, chance).data_type = chance.choice([*TensorProto.DataType.values(), 99, -1])


def _external(model: ModelProto, chance: random.Random) -> None:
    tensor = _constant(model, chance)
    tensor.data_location = TensorProto.EXTERNAL
    location = tensor.external_data.add()
    location.key, location.value = "location", chance.choice(("/etc/passwd", "../../x", "", "\x00", "a" * 5000))


def _sparse(model: ModelProto, chance: random.Random) -> None:
    sparse = model.graph.sparse_initializer.add() if chance.random() < 0.5 else _node(model, chance).attribute.add(
        name="value", type=AttributeProto.SPARSE_TENSOR).sparse_tensor  # fmt: skip
    sparse.values.CopyFrom(_tensor(chance))
    sparse.indices.CopyFrom(_tensor(chance))
    sparse.dims.extend([1 << 40])


def _rename(model: ModelProto, chance: random.Random) -> None:
    """Two of a name, or an odd one."""
    name = _name(model, chance) if chance.random() < 0.6 else chance.choice(_TEXTS)
    named = chance.choice((model.graph.initializer, model.graph.input, model.graph.output, model.graph.node))
    if named:
        chance.choice(named).name = name


def _stated_shape(model: ModelProto, chance: random.Random) -> None:
    """Of an input, an output or a value: another dimension, rank or type."""
    values = [*model.graph.input, *model.graph.output, *model.graph.value_info]
    value = chance.choice(values) if values else model.graph.input.add()
    kind = value.type.tensor_type
    which = chance.randrange(5)
    if which == 0 and kind.shape.dim:
        chance.choice(kind.shape.dim).dim_value = chance.choice(_DIMENSIONS)
    elif which == 1 and kind.shape.dim:
        chance.choice(kind.shape.dim).dim_param = chance.choice(_TEXTS)
    elif which == 2:
        kind.elem_type = chance.choice([*TensorProto.DataType.values(), 99])
    elif which == 3:
        kind.shape.dim.add().dim_value = chance.choice(_DIMENSIONS)
    else:
        value.type.sequence_type.elem_type.tensor_type.elem_type = TensorProto.FLOAT


def _subgraphs(model: ModelProto, chance: random.Random) -> None:
    """Graphs in graphs, up to more of them than protobuf reads."""
    inner = GraphProto(name="inner", node=[helper.make_node("Identity", ["x"], ["y"])])
    for _ in range(chance.choice((1, 3, 20, 60))):
        outer = GraphProto(name="outer")
        outer.node.add(op_type="If", input=["c"], output=["y"]).attribute.add(
            name="then_branch", type=AttributeProto.GRAPH
        ).g.CopyFrom(inner)
        inner = outer
    _node(model, chance).attribute.add(name="body", type=AttributeProto.GRAPH).g.CopyFrom(inner)


def _functions(model: ModelProto, chance: random.Random) -> None:
    """Functions that call each other."""
    for name, other in (("f", "g"), ("g", "f")):
        function = model.functions.add(name=name, domain="own", input=["x"], output=["y"])
        function.node.add(op_type=other, domain="own", input=["x"], output=["y"])
        function.opset_import.add(domain="own", version=1)
    model.opset_import.add(domain="own", version=1)
    node = _node(model, chance)
    node.op_type, node.domain = "f", "own"


def _opset(model: ModelProto, chance: random.Random) -> None:
    if model.opset_import and chance.random() < 0.7:
        chance.choice(model.opset_import).version = chance.choice((*range(31), *_INTEGERS))
    else:
        model.opset_import.add(domain=chance.choice(_TEXTS), version=chance.choice(_INTEGERS))


def _splice(model: ModelProto, chance: random.Random) -> None:
    """A part in the place of another of its kind."""
    lists = [model.graph.node, model.graph.initializer, model.graph.input, model.graph.output]
    values = chance.choice([each for each in lists if len(each) > 1] or [model.graph.node])
    if len(values) > 1:
        first, second = chance.sample(range(len(values)), 2)
        values[first].CopyFrom(values[second])


_WEIGHTED: tuple[tuple[Change, float], ...] = (
    (_any_field, 6), (_attribute, 6), (_dims, 3), (_data, 3), (_data_type, 2), (_stated_shape, 4), (_rewire, 5),
    (_other_operator, 5), (_splice, 3), (_drop_node, 1), (_repeat_node, 1), (_swap_nodes, 0.5), (_own_input, 0.5),
    (_rename, 2), (_external, 0.5), (_sparse, 0.5), (_subgraphs, 0.5), (_functions, 0.5), (_opset, 2),
)  # fmt: skip
_CHANGES = [change for change, _ in _WEIGHTED]
_SHARES = [share for _, share in _WEIGHTED]
