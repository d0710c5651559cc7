"""Run as a program: what a job does, in confined children of a process that has the libraries loaded, as a worker."""

import sys
from pathlib import Path

import numpy as np
import onnxruntime
import tvm
from tvm import te

import worker.runner.supervisor  # noqa: F401
from accel.isa.kernels.compiled_kernels import Signature, cache_folder, compiled
from accel.isa.kernels.kernel_types import SCALAR, VECTOR
from accel.util.arrays import Int64
from examples.single import Conv, conv_model
from tests.helpers.confined import told_by_child, told_by_confined
from worker.sandbox.confinement import prepare_confinement

ROOT = Path(sys.argv[1])


def total(values: Int64, count: int) -> int:
    result = 0
    for index in range(count):
        result += values[index]
    return result


def warm() -> None:
    Signature(compiled(total), VECTOR, SCALAR).compile()


def use_llvm() -> str:
    before = code_files()
    assert before
    assert compiled(total)(np.arange(10), 10) == 45
    assert code_files() == before
    return "llvm"


def code_files() -> dict[Path, int]:
    folder = cache_folder()
    return {} if folder is None else {path: path.stat().st_mtime_ns for path in folder.iterdir()}


def use_onnxruntime() -> str:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    model = conv_model(Conv(16, 16, 8, 8)).SerializeToString()
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    session.run(None, {given.name: np.zeros(given.shape, np.int8)})
    return "onnxruntime"


def use_tvm() -> str:
    a = te.placeholder((1024, 64), name="a")
    b = te.compute(a.shape, lambda i, j: a[i, j] + 1.0, name="b")
    schedule = tvm.s_tir.Schedule(te.create_prim_func([a, b]))
    schedule.parallel(schedule.get_loops("b")[0])
    library = tvm.compile(schedule.mod, target="llvm")
    given, result = (tvm.runtime.tensor(np.zeros((1024, 64), np.float32)) for _ in range(2))
    library["main"](given, result)
    assert (result.numpy() == 1).all()
    return "tvm"


def main() -> None:
    prepare_confinement()
    told_by_child(warm)
    for use in (use_onnxruntime, use_llvm, use_tvm):
        print(told_by_confined(ROOT, use), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
