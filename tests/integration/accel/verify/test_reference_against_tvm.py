"""The operators of the reference in numpy, against TVM's compiler, at the ends of their types."""

import math

import numpy as np
from tvm import relax

from accel.util.deadline import Deadline
from accel.verify.reference_operators import _RULES, is_known, run
from tests.reference.host import compile_module, run_compiled

INT32 = np.array([-(2**31), 1 - 2**31, -(2**16), -129, -128, -3, -1, 0, 1, 2, 127, 128, 2**16, 2**31 - 1], np.int32)
INT8 = np.array([-128, -127, -2, -1, 0, 1, 3, 4, 5, 6, 64, 100, 126, 127], np.int8)
FLOAT = np.array([-3e9, -2.5, -1.5, -0.5, -0.0, 0.0, 0.5, 1.5, 2.5, 3.5, 126.5, 127.5, 1e-40, 2**24 + 2], np.float32)
SHIFT = np.arange(len(INT32), dtype=np.int32) * 2
IMAGES = (INT8[:9].reshape(1, 1, 3, 3), INT8[5:].reshape(1, 1, 3, 3))
MATRICES = (INT8[:6].reshape(2, 3), INT8[6:12].reshape(3, 2))

CASES = {
    "conv2d": (lambda x, w: relax.op.nn.conv2d(x, w, padding=(1, 0, 0, 1), out_dtype="int32"), IMAGES),
    "matmul": (lambda a, b: relax.op.matmul(a, b, out_dtype="int32"), MATRICES),
    "matmul, stacked": (
        lambda a, b: relax.op.matmul(a, b, out_dtype="int32"),
        (INT8[:12].reshape(2, 2, 3), INT8[2:].reshape(2, 3, 2)),
    ),
    "sum": (lambda x: relax.op.sum(relax.op.astype(x, "int32"), [1], keepdims=True), MATRICES[:1]),
    "add": (relax.op.add, (INT32, INT32[::-1].copy())),
    "add, wrapping": (relax.op.add, (INT32, INT32)),
    "subtract": (relax.op.subtract, (INT32, INT32[::-1].copy())),
    "multiply": (relax.op.multiply, (INT32, INT32[::-1].copy())),
    "multiply, float": (relax.op.multiply, (FLOAT, FLOAT[::-1].copy())),
    "left_shift": (relax.op.left_shift, (INT32, SHIFT)),
    "right_shift": (relax.op.right_shift, (INT32, SHIFT)),
    "maximum": (relax.op.maximum, (INT32, INT32[::-1].copy())),
    "minimum": (relax.op.minimum, (INT32, INT32[::-1].copy())),
    "round": (relax.op.round, (FLOAT,)),
    "clip": (lambda x: relax.op.clip(x, -128, 127), (INT32,)),
    "clip, float": (lambda x: relax.op.clip(x, -1.5, 126.5), (FLOAT,)),
    "astype": (lambda x: relax.op.astype(x, "int32"), (INT8,)),
    "max": (lambda x: relax.op.max(x, [1], keepdims=True), (INT32.reshape(2, 7),)),
    "divide": (relax.op.divide, (FLOAT, np.flip(FLOAT) + np.float32(0.7))),
    "divide, wide": (relax.op.divide, (INT32.astype(np.float64), np.full(14, 768.0))),
    "sqrt": (relax.op.sqrt, (np.abs(INT32.astype(np.float64)),)),
    "astype, narrowing": (lambda x: relax.op.astype(x, "int8"), (INT32,)),
    "astype, cut": (lambda x: relax.op.astype(x, "int32"), (INT32.astype(np.float64) / 768,)),
    "astype, float": (lambda x: relax.op.astype(x, "float32"), (INT32,)),
    "max_pool1d": (lambda x: relax.op.nn.max_pool1d(x, (2,), (2,), (1, 0)), (INT8[:14].reshape(1, 2, 7),)),
    "max_pool3d": (
        lambda x: relax.op.nn.max_pool3d(x, (2, 1, 2), (1, 1, 2), (0, 0, 1, 1, 0, 0)),
        (INT8[:12].reshape(1, 1, 2, 2, 3),)),
    "max_pool2d": (lambda x: relax.op.nn.max_pool2d(x, (2, 2), (2, 1), (1, 0, 0, 1)), IMAGES[:1]),
    "max_pool2d, dilated": (lambda x: relax.op.nn.max_pool2d(x, (2, 2), (1, 1), (0, 0, 0, 0), (2, 2)), IMAGES[:1]),
    "max_pool2d, rounded up": (
        lambda x: relax.op.nn.max_pool2d(x, (2, 2), (2, 2), (0, 0, 0, 0), ceil_mode=True), IMAGES[:1]),
    "pad": (lambda x: relax.op.nn.pad(x, (1, 0, 2, 1), pad_value=-7), MATRICES[:1]),
    "strided_slice": (lambda x: relax.op.strided_slice(x, [0, 1], [0, 1], [2, 3], [1, 2]), MATRICES[:1]),
    "take": (lambda x: relax.op.take(x, relax.const(np.array([0, 2, 5, -1])), 1, "clip"), MATRICES[:1]),
    "concat": (lambda a, b: relax.op.concat([a, b], 0), (MATRICES[0], MATRICES[0] + np.int8(1))),
    "permute_dims": (lambda x: relax.op.permute_dims(x, [0, 2, 3, 1]), IMAGES[:1]),
    "permute_dims, backwards": (relax.op.permute_dims, MATRICES[:1]),
    "broadcast_to": (lambda x: relax.op.broadcast_to(x, (4, 2, 3)), MATRICES[:1]),
    "reshape": (lambda x: relax.op.reshape(x, (3, -1)), MATRICES[:1]),
    "flatten": (relax.op.flatten, MATRICES[:1]),
    "squeeze": (relax.op.squeeze, IMAGES[:1]),
    "expand_dims": (lambda x: relax.op.expand_dims(x, 1), MATRICES[:1]),
}  # fmt: skip


def test_every_operator_computes_what_tvm_does() -> None:
    builder, arrays, parameters = relax.BlockBuilder(), [], []
    functions = {}
    for name, (make, operands) in CASES.items():
        own = [relax.Var(f"p{i}", relax.TensorType(a.shape, str(a.dtype))) for i, a in enumerate(operands)]
        plain = name.translate(str.maketrans(", ", "__"))
        with builder.function(plain, own, private=True):
            with builder.dataflow():
                result = builder.emit_output(make(*own))
            functions[name] = builder.emit_func_output(result)
        arrays += operands
        parameters += [relax.Var(f"{plain}{i}", var.ty) for i, var in enumerate(own)]
    with builder.function("main", parameters):
        with builder.dataflow():
            left, results = list(parameters), []
            for name, (_, operands) in CASES.items():
                mine, left = left[: len(operands)], left[len(operands) :]
                results.append(builder.emit(relax.Call(functions[name], mine)))
            output = builder.emit_output(relax.Tuple(results))
        builder.emit_func_output(output)
    module = builder.get()
    assert all(is_known(module[function]) for function in functions.values())
    assert {name.split(",")[0] for name in CASES} == {name.split(".")[-1] for name in _RULES}
    expected = iter(run_compiled(compile_module(module), arrays))
    for name, (_, operands) in CASES.items():
        got, wanted = run(module[functions[name]], list(operands), Deadline(math.inf)), next(expected)
        assert (got.dtype, got.shape, got.tobytes()) == (wanted.dtype, wanted.shape, wanted.tobytes()), name
