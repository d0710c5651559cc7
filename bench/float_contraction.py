"""Multiply-accumulates a second of the functional engine on float32 products, one thread, beside onnxruntime's MatMul.

The sums have the document's order, each product and each sum rounded by itself; the goal is 10 G MAC/s a core. Machines
differ in what one instruction does: a row or a tile of results, with weights whose last axis is summed or is not. All
of the engine counts: decoding, bounds, the table of the launch. Each result must be that of numpy, one sum after the
other. Loads are not timed.
"""

import accel  # noqa: F401  isort: skip - before onnxruntime, which it keeps from reporting

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
from onnx import helper

from accel.accelerator.checks.document_checks import check_document
from accel.accelerator.document import Accelerator
from accel.isa.decode import decode
from accel.isa.explicit.document_function import ExplicitMachine
from accel.isa.explicit.explicit_family import FAMILY as EXPLICIT
from accel.util.arrays import aligned_zeros

Float32 = npt.NDArray[np.float32]
GOAL = 10.0  # G MAC/s a core
ROWS, DEPTH, COLUMNS = 256, 512, 256
_RUNS = 9
_BITS = 20  # of a field


@dataclass(frozen=True)
class Form:
    """What one multiplication does: its statement, and the extents of its axes m (of a row 1), k and n."""

    does: str
    m: int
    k: int
    n: int

    @property
    def transposed(self) -> bool:
        """Whether the summed axis of the weights is the last."""
        return "B[n, k]" in self.does


FORMS = {
    "row of 32": Form("C[n] += A[k] * B[k, n]", 1, 32, 32),
    "row of 32, weights n k": Form("C[n] += A[k] * B[n, k]", 1, 32, 32),
    "row of 16, weights n k": Form("C[n] += A[k] * B[n, k]", 1, 16, 16),
    "tile of 16": Form("C[m, n] += A[m, k] * B[k, n]", 16, 16, 16),
    "tile of 16, weights n k": Form("C[m, n] += A[m, k] * B[n, k]", 16, 16, 16),
    "tile of 8, weights n k": Form("C[m, n] += A[m, k] * B[n, k]", 8, 8, 8),
}


def document(form: Form) -> Accelerator:
    """A machine that multiplies in a form, in two loops: over rows of data and results, and over blocks of a sum."""
    data, weights, result = (form.m, form.k), (form.k, form.n), (form.m, form.n)
    weights = weights[::-1] if form.transposed else weights
    shapes = {"a": data if form.m > 1 else data[1:], "b": weights, "c": result if form.m > 1 else result[1:]}
    depths = {"a": ROWS * DEPTH, "b": DEPTH * COLUMNS, "c": ROWS * COLUMNS}
    memories = [
        {"name": name, "scope": f"local.{name}", "dtype": "float32", "shape": shape,
         "depth": depths[name] // int(np.prod(shape))}
        for name, shape in shapes.items()
    ]  # fmt: skip
    names = ("a", "b", "c", "rows", "sums", "a_row", "c_row", "a_sum", "b_sum")
    multiply = {
        "name": "multiply", "kind": "compute", "pragma": "pragma_multiply", "unit": "matrix",
        "operands": {name.upper(): {"memory": name, "address": name} for name in shapes},
        "operations": [{"name": "multiply", "does": form.does}],
        "loops": [
            {"extent": "sums", "factors": {"A": "a_sum", "B": "b_sum"}},
            {"extent": "rows", "factors": {"A": "a_row", "C": "c_row"}},
        ],
        "fields": [
            _field("opcode", 0, 16, value=9), *(_field(name, 64 + 32 * at, _BITS) for at, name in enumerate(names)),
        ],
        "cycles": "rows * sums",
    }  # fmt: skip
    found = Accelerator.model_validate({
        "schema_version": 2, "name": "floats", "title": "Float32 products", "family": "explicit", "word_bits": 384,
        "memories": memories, "units": ["load", "matrix"], "synchronisation": {"kind": "in_order"},
        "dram": {"bus_bytes": 64, "read_latency": 1},
        "instructions": [*(_copy(name, at) for at, name in enumerate(shapes)), multiply],
    })  # fmt: skip
    check_document(found)  # not that models can be compiled for it, whose layers are of integers
    EXPLICIT.check(found)
    return found


def _field(name: str, lsb: int, bits: int, **more: int) -> dict[str, Any]:
    return {"name": name, "lsb": lsb, "bits": bits, **more}


def _copy(memory: str, opcode: int) -> dict[str, Any]:
    """A load of the first elements of a memory, or a store of results."""
    direction, names = "store" if memory == "c" else "load", ("dram", "sram", "rows", "columns", "row_stride")
    return {
        "name": f"{direction}_{memory}", "kind": "copy", "pragma": f"pragma_{memory}", "unit": "load",
        "direction": direction, "memory": memory, "dram_dtype": "float32", "dram_unit": "byte",
        "copy_fields": {name: name for name in names},
        "fields": [_field("opcode", 0, 16, value=opcode)] + [
            _field(name, 64 + 32 * at, 32 if name == "dram" else _BITS) for at, name in enumerate(names)
        ],
        "cycles": "ceil(bytes / bus_bytes)",
    }  # fmt: skip


def words(accelerator: Accelerator, rows: Sequence[tuple[str, dict[str, int]]]) -> npt.NDArray[np.uint64]:
    """The words of instructions, each by its name and its fields."""
    found = np.zeros((len(rows), accelerator.word_bits // 64), np.uint64)
    for at, (name, values) in enumerate(rows):
        fields = accelerator.instruction(name).fields
        number = sum((values[f.name] if f.value is None else f.value) << f.lsb for f in fields)
        found[at] = [number >> 64 * place & (1 << 64) - 1 for place in range(found.shape[1])]
    return found


class Engine:
    """The functional engine with the operands on the chip."""

    def __init__(self, form: Form, a: Float32, b: Float32) -> None:
        self.form, self.accelerator = form, document(form)
        self.machine = ExplicitMachine(self.accelerator)
        tiles = _tiles(a, form.m, form.k), _tiles(b.T, form.n, form.k) if form.transposed else _tiles(b, form.k, form.n)
        self.dram = aligned_zeros(4 * (a.size + b.size + ROWS * COLUMNS))
        self.dram.view(np.float32)[: a.size + b.size] = np.concatenate([each.reshape(-1) for each in tiles])
        self.kept = 4 * (a.size + b.size)
        self._copy("load_a", 0, a.size // (form.m * form.k))
        self._copy("load_b", 4 * a.size, b.size // (form.k * form.n))
        self._multiplied = words(self.accelerator, list(self._products()))

    def _copy(self, name: str, dram: int, elements: int) -> None:
        values = {"dram": dram, "sram": 0, "rows": 1, "columns": elements, "row_stride": elements}
        self.machine.run(decode(self.accelerator, words(self.accelerator, [(name, values)])), self.dram)

    def _products(self) -> Any:
        """An instruction for each block of columns: all parts of its sums, and all rows."""
        form = self.form
        rows, sums, columns = ROWS // form.m, DEPTH // form.k, COLUMNS // form.n
        for block in range(columns):
            first, step = (block * sums, 1) if form.transposed else (block, columns)
            yield "multiply", {
                "a": 0, "b": first, "c": block, "rows": rows, "sums": sums,
                "a_row": sums, "c_row": columns, "a_sum": 1, "b_sum": step,
            }  # fmt: skip

    def act(self) -> None:
        """Multiply, and add to what is there."""
        self.machine.run(decode(self.accelerator, self._multiplied), self.dram)

    def result(self) -> Float32:
        """What the first multiplication leaves."""
        self.act()
        form = self.form
        self._copy("store_c", self.kept, ROWS * COLUMNS // (form.m * form.n))
        tiles = self.dram[self.kept :].view(np.float32).reshape(ROWS // form.m, COLUMNS // form.n, form.m, form.n)
        return tiles.swapaxes(1, 2).reshape(ROWS, COLUMNS)


def _tiles(x: Float32, height: int, width: int) -> Float32:
    """A matrix in tiles, row by row of them."""
    rows, columns = x.shape
    return np.ascontiguousarray(x.reshape(rows // height, height, columns // width, width).swapaxes(1, 2))


def onnxruntime_product(a: Float32, b: Float32) -> Callable[[], None]:
    """One MatMul in one thread."""
    types = [helper.make_tensor_value_info(name, 1, shape) for name, shape in (("a", a.shape), ("b", b.shape))]
    result = helper.make_tensor_value_info("c", 1, None)
    graph = helper.make_graph([helper.make_node("MatMul", ["a", "b"], ["c"])], "product", types, [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"a": a, "b": b})


def least(act: Callable[[], None]) -> float:
    """Seconds of the fastest of some runs, after one that does not count."""
    act()
    seconds = []
    for _ in range(_RUNS):
        begun = time.perf_counter()
        act()
        seconds.append(time.perf_counter() - begun)
    return min(seconds)


def in_order(a: Float32, b: Float32) -> Float32:
    """The product as the document has it: one term of the sums after the other."""
    total = np.zeros((len(a), b.shape[1]), np.float32)
    for k in range(a.shape[1]):
        total += a[:, k, None] * b[k]
    return total


def main() -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    random = np.random.default_rng(0)
    a, b = (random.normal(size=shape).astype(np.float32) for shape in ((ROWS, DEPTH), (DEPTH, COLUMNS)))
    wanted, work = in_order(a, b), ROWS * DEPTH * COLUMNS / 1e9
    product = onnxruntime_product(a, b)
    print(f"float32, {ROWS} x {DEPTH} by {DEPTH} x {COLUMNS}; G MAC/s, one thread")
    print(f"{'an instruction':26} {'engine':>8} {'onnxruntime':>12} {'ratio':>7}")
    for name, form in FORMS.items():
        engine = Engine(form, a, b)
        assert np.array_equal(engine.result(), wanted), f"{name}: the sums differ from numpy's"
        speed, other = work / least(engine.act), work / least(product)
        met = "" if speed >= GOAL else f"  below the goal of {GOAL:g}"
        print(f"{name:26} {speed:8.2f} {other:12.2f} {speed / other:7.3f}{met}")


if __name__ == "__main__":
    main()
