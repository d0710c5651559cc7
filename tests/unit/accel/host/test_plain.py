"""Host graphs in numpy, against the same graphs compiled by TVM."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax

from accel.host.host_executor import compile_module, run_compiled
from accel.host.host_graph_reader import read_host_graph
from accel.host.host_graph_writer import write_host_graph
from accel.host.numpy_executor import run_in_numpy, runs_in_numpy

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
        width = np.dtype(self.dtype()).itemsize * 8
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


@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_it_computes_what_compiled_functions_do(data):
    shape = data.draw(st.lists(st.integers(1, 5), min_size=2, max_size=4))
    dtype = data.draw(st.sampled_from(INTEGERS))
    steps = data.draw(st.lists(st.sampled_from(STEPS), min_size=3, max_size=9))
    made = Chain(data.draw, shape, dtype).module(steps)
    module = read_host_graph(write_host_graph(made))
    limits = np.iinfo(dtype)
    x = np.random.default_rng(0).integers(limits.min, limits.max, shape, dtype, endpoint=True)
    assert runs_in_numpy(module)
    found = run_in_numpy(module, [x])
    for one, other in zip(found, run_compiled(compile_module(module), [x]), strict=True):
        np.testing.assert_array_equal(one, other, strict=True)
        assert not np.shares_memory(one, x)


X = relax.Var("x", relax.TensorType([4, 3], "int32"))
NOT_PLAIN = {
    "a division": lambda: relax.op.floor_divide(X, relax.const(np.int32(0))),
    "a shift by what is not known": lambda: relax.op.left_shift(X, X),
    "a shift by more than there are bits": lambda: relax.op.right_shift(X, relax.const(np.int32(32))),
    "a float that no integer may hold": lambda: relax.op.astype(relax.op.astype(X, "float32"), "int8"),
    "a limit beyond the type": lambda: relax.op.clip(X, 0, 1 << 40),
    "an operator of floats": lambda: relax.op.exp(relax.op.astype(X, "float32")),
    "a tensor that is too large": lambda: relax.op.nn.pad(X, [0, 1 << 15, 0, 1 << 15]),
}


@pytest.mark.parametrize("name", NOT_PLAIN)
def test_what_leaves_a_choice_is_compiled(name):
    builder = relax.BlockBuilder()
    with builder.function("main", [X]):
        with builder.dataflow():
            result = builder.emit_output(builder.emit(NOT_PLAIN[name]()))
        builder.emit_func_output(result)
    assert not runs_in_numpy(builder.get())


def test_floats_from_outside_are_compiled():
    x = relax.Var("x", relax.TensorType([4], "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(builder.emit(relax.op.clip(x, 0, 1)))
        builder.emit_func_output(result)
    assert not runs_in_numpy(builder.get())
