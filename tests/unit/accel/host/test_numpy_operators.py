"""Operators of host graphs in numpy, against TVM's compiler, onnx's reference and Python's integers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from onnx.reference import ReferenceEvaluator
from tvm import relax

from accel.host.host_executor import HostFunction
from accel.host.host_graph import OPSET, HostGraph, HostNode, write_host_graph
from accel.host.host_graph_reader import read_host_graph
from accel.host.relax_rules import RULES
from accel.host.relax_translation import UntranslatableError, translate
from tests.helpers.marking import share
from tests.reference.host import compile_module, run_compiled

INTEGERS = ["int8", "int16", "int32", "int64", "uint8"]


class Chain:
    """A graph that grows operator by operator; all of its values come back."""

    def __init__(self, draw, shape, dtype):
        self.draw = draw
        self.builder = relax.BlockBuilder()
        self.x = relax.Var("x", relax.TensorType(shape, dtype))
        self.last, self.found = self.x, []

    def shape(self):
        return [int(extent) for extent in self.last.ty.shape.values]

    def dtype(self):
        return str(self.last.ty.dtype)

    def number(self, low=-100, high=100, shape=()):
        size = int(np.prod(shape))
        values = self.draw(st.lists(st.integers(low, high), min_size=size, max_size=size))
        return relax.const(np.array(values).reshape(shape), self.dtype())

    def arithmetic(self):
        of = self.draw(st.sampled_from([relax.op.add, relax.op.subtract, relax.op.multiply]))
        channels = self.shape()[-1]
        other = self.draw(st.sampled_from([lambda: self.last, self.number, lambda: self.number(shape=(channels,))]))
        return of(self.last, other())

    def bounds(self):
        of = self.draw(st.sampled_from([relax.op.maximum, relax.op.minimum]))
        return of(self.last, self.number())

    def shift(self):
        width = np.dtype(self.dtype()).itemsize * 8 - (self.dtype()[0] == "i")
        of = self.draw(st.sampled_from([relax.op.left_shift, relax.op.right_shift]))
        return of(self.last, self.number(0, width - 1))

    def clip(self):
        low = self.draw(st.integers(0, 60))
        return relax.op.clip(self.last, low, self.draw(st.integers(low, 120)))

    def cast(self):
        return relax.op.astype(self.last, self.draw(st.sampled_from(INTEGERS)))

    def transpose(self):
        rank = len(self.shape())
        return relax.op.permute_dims(self.last, self.draw(st.sampled_from([None, [*range(1, rank), 0]])))

    def reshape(self):
        first, *rest = self.shape()
        return relax.op.reshape(self.last, self.draw(st.sampled_from([[-1], [*rest, first], [1, first, *rest]])))

    def pad(self):
        width = self.draw(st.lists(st.integers(0, 2), min_size=2 * len(self.shape()), max_size=2 * len(self.shape())))
        return relax.op.nn.pad(self.last, width, pad_value=self.draw(st.integers(0, 9)))

    def part(self):
        size = self.shape()[0]
        begin = self.draw(st.integers(0, size - 1))
        end = self.draw(st.integers(begin + 1, size))
        return relax.op.strided_slice(self.last, [0], [begin], [end], self.draw(st.sampled_from([None, [2]])))

    def concat(self):
        return relax.op.concat([self.last, self.last], axis=self.draw(st.sampled_from([0, -1])))

    def requantize(self):
        real = relax.op.multiply(relax.op.astype(self.last, "float32"), relax.const(np.float32(0.37)))
        return relax.op.astype(relax.op.clip(relax.op.round(real), -128, 127), "int8")

    def module(self, steps):
        with self.builder.function("main", [self.x]):
            with self.builder.dataflow():
                for step in steps:
                    self.last = self.builder.emit(getattr(self, step)())
                    self.found.append(self.last)
                results = [self.builder.emit_output(value) for value in self.found]
            self.builder.emit_func_output(results[0] if len(results) == 1 else relax.Tuple(results))
        return self.builder.get()


STEPS = [name for name in vars(Chain) if name[0] != "_" and name not in ("shape", "dtype", "number", "module")]


def host_function(module):
    text = write_host_graph(translate(module, RULES))
    return HostFunction(read_host_graph(text))


def in_numpy(function):
    return all(stage._session is None for stage in function._stages)


@pytest.mark.slow
@settings(max_examples=share(10), deadline=None)
@given(data=st.data())
def test_it_computes_what_functions_compiled_by_tvm_do(data):
    shape = data.draw(st.lists(st.integers(1, 5), min_size=2, max_size=4))
    dtype = data.draw(st.sampled_from(INTEGERS))
    steps = data.draw(st.lists(st.sampled_from(STEPS), min_size=3, max_size=9))
    made = Chain(data.draw, shape, dtype).module(steps)
    function = host_function(made)
    limits = np.iinfo(dtype)
    x = np.random.default_rng(0).integers(limits.min, limits.max, shape, dtype, endpoint=True)
    assert in_numpy(function)
    for one, other in zip(function.run([x]), run_compiled(compile_module(made), [x]), strict=True):
        np.testing.assert_array_equal(one, other, strict=True)
        assert not np.shares_memory(one, x)


X = relax.Var("x", relax.TensorType([4, 3], "int32"))
OTHERS = {
    "a float that no integer may hold": lambda: relax.op.astype(relax.op.astype(X, "float32"), "int8"),
    "an operator of floats": lambda: relax.op.exp(relax.op.astype(X, "float32")),
}
REFUSED = {
    "a shift by what is not known": lambda: relax.op.left_shift(X, X),
    "a shift by more than there are bits": lambda: relax.op.right_shift(X, relax.const(np.int32(32))),
    "a limit beyond the type": lambda: relax.op.clip(X, 0, 1 << 40),
}


def of_one(make, x=X):
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(builder.emit(make()))
        builder.emit_func_output(result)
    return builder.get()


@pytest.mark.parametrize("name", OTHERS)
def test_what_leaves_a_choice_is_onnxruntimes(name):
    assert not in_numpy(host_function(of_one(OTHERS[name])))


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_result_is_refused(name):
    with pytest.raises(UntranslatableError):
        translate(of_one(REFUSED[name]), RULES)


def test_floats_from_outside_are_onnxruntimes():
    x = relax.Var("x", relax.TensorType([4], "float32"))
    assert not in_numpy(host_function(of_one(lambda: relax.op.clip(x, 0, 1), x)))


def run(op, *arrays, **attributes):
    inputs = {f"x{i}": (array.shape, str(array.dtype)) for i, array in enumerate(arrays)}
    graph = HostGraph(OPSET, inputs, {}, (HostNode(op, tuple(inputs), ("y",), attributes),), ("y",))
    function = HostFunction(read_host_graph(write_host_graph(graph)))
    assert in_numpy(function)
    return function.run(arrays)[0]


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8"])
@pytest.mark.parametrize("fmod", [0, 1])
def test_integers_may_be_divided_by_anything(fmod, dtype):
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    a, b = np.meshgrid(np.array([low, low + 1, 0, 1, 7, high], dtype), np.array([0, 1, 3, high, low], dtype))
    if low:
        b[4] = -1
    one = np.where(b == 0, 1, b).astype(object)
    floor = a.astype(object) // one
    rest = a.astype(object) - floor * one
    inexact = (rest != 0) & ((a < 0) != (one < 0))
    truncated, remainder = floor + inexact, rest - np.where(inexact, one, 0)
    wrapped = (truncated.astype(object) - low) % (1 << (8 * a.itemsize)) + low
    np.testing.assert_array_equal(run("Div", a, b), wrapped.astype(dtype))
    np.testing.assert_array_equal(run("Mod", a, b, fmod=fmod), (remainder if fmod else rest).astype(dtype))


@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_products_of_integers_are_exact(data):
    """Where onnxruntime saturates sums of uint8 and int8, on processors without VNNI, and beyond what float32 holds."""
    rank, groups = data.draw(st.integers(1, 2)), data.draw(st.sampled_from([1, 2]))
    draw = st.integers(1, 3)
    channels, filters = groups * data.draw(st.sampled_from([1, 3, 200])), groups * data.draw(draw)
    kernel, strides, dilations = ([data.draw(draw) for _ in range(rank)] for _ in range(3))
    pads = [data.draw(st.integers(0, 2)) for _ in range(2 * rank)]
    sizes = [data.draw(st.integers(7, 9)) for _ in range(rank)]
    kinds = [data.draw(st.sampled_from(["int8", "uint8"])) for _ in range(2)]
    x = np.full((2, channels, *sizes), np.iinfo(kinds[0]).max, kinds[0])
    x[:, ::3] = np.iinfo(kinds[0]).min
    w = np.full((filters, channels // groups, *kernel), np.iinfo(kinds[1]).max, kinds[1])
    w[1:, ::2] = np.iinfo(kinds[1]).min
    walk = {"strides": strides, "dilations": dilations, "pads": pads, "group": groups}
    got = run("ConvInteger", x, w, **walk)
    node = helper.make_node("Conv", ["x", "w"], ["y"], **walk)
    expected = ReferenceEvaluator(
        helper.make_model(
            helper.make_graph(
                [node],
                "conv",
                [helper.make_tensor_value_info(name, helper.TensorProto.DOUBLE, None) for name in "xw"],
                [helper.make_tensor_value_info("y", helper.TensorProto.DOUBLE, None)],
            )
        )
    ).run(None, {"x": x.astype(np.float64), "w": w.astype(np.float64)})[0]
    np.testing.assert_array_equal(got, expected.astype(np.int64).astype(np.int32))
    rows = x.reshape(2 * channels, -1)
    matrix = run("MatMulInteger", rows, rows.T.copy())
    np.testing.assert_array_equal(matrix, (rows.astype(np.int64) @ rows.T.astype(np.int64)).astype(np.int32))
