"""The operators of composites in numpy, against TVM's compiler, at the ends of their types."""

import math

import numpy as np
from tvm import relax

from accel.host.host_executor import compile_module, run_compiled
from accel.util.deadline import Deadline
from accel.verify.reference_graph import run_reference
from accel.verify.reference_operators import _RULES, is_known

INT32 = np.array([-(2**31), 1 - 2**31, -(2**16), -129, -128, -3, -1, 0, 1, 2, 127, 128, 2**16, 2**31 - 1], np.int32)
INT8 = np.array([-128, -127, -2, -1, 0, 1, 3, 4, 5, 6, 64, 100, 126, 127], np.int8)
FLOAT = np.array([-3e9, -2.5, -1.5, -0.5, -0.0, 0.0, 0.5, 1.5, 2.5, 3.5, 126.5, 127.5, 1e-40, 2**24 + 2], np.float32)
SHIFT = np.arange(len(INT32), dtype=np.int32) * 2
IMAGES = (INT8[:9].reshape(1, 1, 3, 3), INT8[5:].reshape(1, 1, 3, 3))
MATRICES = (INT8[:6].reshape(2, 3), INT8[6:12].reshape(3, 2))

CASES = {
    "conv2d": (lambda x, w: relax.op.nn.conv2d(x, w, padding=(1, 0, 0, 1), out_dtype="int32"), IMAGES),
    "matmul": (lambda a, b: relax.op.matmul(a, b, out_dtype="int32"), MATRICES),
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
    "astype, narrowing": (lambda x: relax.op.astype(x, "int8"), (INT32,)),
    "astype, float": (lambda x: relax.op.astype(x, "float32"), (INT32,)),
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
    expected = run_compiled(compile_module(module), arrays)
    for name, got, wanted in zip(CASES, run_reference(module, arrays, Deadline(math.inf)), expected, strict=True):
        assert (got.dtype, got.shape, got.tobytes()) == (wanted.dtype, wanted.shape, wanted.tobytes()), name
