"""The form of a host step in Relax; and of version 1 of its file the operators, and the attributes of each."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import tvm_ffi
from tvm import ir, relax


def host_graph(
    parameters: Sequence[relax.Var], bindings: Sequence[relax.VarBinding], results: Sequence[relax.Var]
) -> Any:
    """Returns the module of ``bindings``; ``main`` returns one result as a tensor, several as a tuple."""
    leaving = [relax.Var(f"{var.name}_result", var.ty) for var in results]
    leave = [relax.VarBinding(result, var) for result, var in zip(leaving, results, strict=True)]
    value: Any = leaving[0] if len(leaving) == 1 else relax.Tuple(leaving)
    body = relax.SeqExpr([relax.DataflowBlock([*bindings, *leave])], value)
    function = relax.Function(list(parameters), body, value.ty).with_attr("global_symbol", "main")
    return relax.transform.Normalize()(ir.IRModule({"main": function}))


_ELEMENTWISE = (
    "abs acos acosh add asin asinh astype atan atanh bitwise_and bitwise_not bitwise_or bitwise_xor ceil clip cos cosh "
    "divide equal erf exp floor floor_divide floor_mod greater greater_equal isfinite isinf isnan left_shift less "
    "less_equal log logical_and logical_not logical_or logical_xor maximum minimum mod multiply negative not_equal "
    "power right_shift round rsqrt sigmoid sign sin sinh sqrt square subtract tan tanh trunc where "
    "nn.gelu nn.gelu_tanh nn.leakyrelu nn.prelu nn.relu nn.selu nn.silu nn.softplus"
)
_REDUCTIONS = "argmax argmin max mean min prod std sum variance nn.log_softmax nn.softmax"
_CONTRACTIONS = (
    "einsum matmul nn.attention nn.attention_bias nn.conv1d nn.conv1d_transpose nn.conv2d nn.conv2d_transpose "
    "nn.conv3d nn.conv3d_transpose"
)
_WINDOWS = (
    "nn.adaptive_avg_pool1d nn.adaptive_avg_pool2d nn.adaptive_avg_pool3d nn.avg_pool1d nn.avg_pool2d nn.avg_pool3d "
    "nn.max_pool1d nn.max_pool2d nn.max_pool3d image.affine_grid image.grid_sample image.resize2d image.resize3d"
)
_NORMALISATIONS = (
    "dequantize quantize nn.batch_norm nn.dropout nn.group_norm nn.instance_norm nn.layer_norm nn.rms_norm"
)
_SHAPES = (
    "broadcast_to concat expand_dims flatten flip permute_dims repeat reshape split squeeze stack strided_slice tile "
    "tril triu nn.batch_flatten nn.pad nn.pixel_shuffle"
)
_INDEXING = "gather_elements gather_nd one_hot scatter_elements scatter_nd take"
_CREATION = "arange eye eye_like full full_like ones ones_like zeros zeros_like"

OPERATORS = frozenset(
    f"relax.{name}"
    for group in (
        _ELEMENTWISE,
        _REDUCTIONS,
        _CONTRACTIONS,
        _WINDOWS,
        _NORMALISATIONS,
        _SHAPES,
        _INDEXING,
        _CREATION,
    )
    for name in group.split()
)

# Operators of which TVM's registry does not tell the type of their attributes.
_UNSTATED = {
    "relax.matmul": "relax.attrs.MatmulAttrs",
    **dict.fromkeys(("relax.argmax", "relax.argmin"), "relax.attrs.ArgmaxArgminAttrs"),
    **dict.fromkeys(
        [f"relax.{name}" for name in ("max", "mean", "min", "prod", "std", "sum", "variance")],
        "relax.attrs.StatisticalAttrs",
    ),
}

Kind = Literal["int", "bool", "float", "string", "dtype", "sections"]
_KINDS: dict[str, Kind] = {
    "int": "int",
    "bool": "bool",
    "float": "float",
    "ffi.String": "string",
    "DataType": "dtype",
    "ir.FloatImm": "float",
    "ir.IntImm": "int",
    "ffi.Object": "sections",  # of split alone: a number of parts, or where to cut
}


@dataclass(frozen=True)
class Field:
    """A field of an operator's attributes; ``boxed`` is TVM's type of a number that it holds as an object, or empty."""

    name: str
    kind: Kind
    optional: bool
    many: bool
    boxed: str


def attributes_type(operator: str) -> str:
    """Returns the key of TVM's type of an operator's attributes; empty if it has none."""
    return str(ir.Op.get(operator).attrs_type_key) or _UNSTATED.get(operator, "")


@cache
def attribute_fields(key: str) -> dict[str, Field]:
    """Returns the fields, by name, of the type of attributes with this ``key``."""
    info = tvm_ffi.core._lookup_or_register_type_info_from_type_key(key)  # noqa: SLF001 # there is no public way
    return {field.name: _field(field.name, json.loads(field.metadata["type_schema"])) for field in info.fields}


def _field(name: str, schema: dict[str, Any]) -> Field:
    optional = schema["type"] == "Optional"
    if optional:
        (schema,) = schema["args"]
    many = schema["type"] == "ffi.Array"
    if many:
        (schema,) = schema["args"]
    kind = str(schema["type"])
    return Field(str(name), _KINDS[kind], optional, many, kind if kind.endswith("Imm") else "")
