"""Host steps that ask for what is not there: they must neither read elsewhere nor end the process."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax

from accel.errors import SimulationError
from accel.host.host_executor import compile_module, run_compiled

X = np.arange(32, dtype=np.float32).reshape(4, 8)
FAR = np.array([-(2**62), -5, -1, 0, 3, 4, 9, 2**62])


def module(make: Callable[..., relax.Expr], *arrays: Any) -> Any:
    variables = [relax.Var(f"x{i}", relax.TensorType(array.shape, str(array.dtype))) for i, array in enumerate(arrays)]
    builder = relax.BlockBuilder()
    with builder.function("main", variables):
        with builder.dataflow():
            result = builder.emit_output(builder.emit(make(*variables)))
        builder.emit_func_output(result)
    return builder.get()


def run(make: Callable[..., relax.Expr], *arrays: Any) -> Any:
    return run_compiled(compile_module(module(make, *arrays)), arrays)[0]


def test_indices_go_to_the_nearest_element() -> None:
    rows = np.clip(FAR, 0, 3)
    np.testing.assert_array_equal(run(lambda x, i: relax.op.take(x, i, axis=0), X, FAR), X[rows])
    columns = np.arange(8)
    picked = run(lambda x, i: relax.op.gather_elements(x, i, 0), X, FAR[None])
    np.testing.assert_array_equal(picked, X[rows, columns][None])
    pairs = np.stack([FAR, FAR[::-1]], 1)
    np.testing.assert_array_equal(run(relax.op.gather_nd, X, pairs), X[rows, np.clip(FAR[::-1], 0, 7)])


def test_scattering_stays_inside() -> None:
    ones = np.ones((1, 8), np.float32)
    result = run(lambda x, i, u: relax.op.scatter_elements(x, i, u, 0), X, FAR[None], ones)
    assert result.shape == X.shape
    assert set(np.unique(result)) <= set(X.ravel())
    pairs = np.stack([FAR, FAR[::-1]], 1)
    assert run(relax.op.scatter_nd, X, pairs, ones[0]).shape == X.shape


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8"])
@pytest.mark.parametrize("op", ["divide", "floor_divide", "mod", "floor_mod"])
def test_integers_may_be_divided_by_anything(op: str, dtype: str) -> None:
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    a, b = np.meshgrid(np.array([low, low + 1, 0, 1, 7, high], dtype), np.array([0, 1, 3, high, low], dtype))
    if low:
        b[4] = -1
    got = run(getattr(relax.op, op), a, b)
    one = np.where(b == 0, 1, b).astype(dtype)
    with np.errstate(over="ignore", divide="ignore"):
        floor, rest = np.floor_divide(a, one), np.remainder(a, one)
        inexact = (rest != 0) & ((a < 0) != (one < 0))
        truncated, remainder = floor + inexact, rest - np.where(inexact, one, 0)
    expected = {"divide": truncated, "floor_divide": floor, "mod": remainder, "floor_mod": rest}[op]
    np.testing.assert_array_equal(got, expected.astype(dtype))


@settings(max_examples=15, deadline=None)
@given(pads=st.tuples(*[st.integers(0, 9)] * 4), mode=st.sampled_from(["constant", "reflect", "replicate", "circular"]))
def test_pads_larger_than_the_tensor(pads: tuple[int, ...], mode: str) -> None:
    small = np.arange(6, dtype=np.float32).reshape(2, 3)
    got = run(lambda x: relax.op.nn.pad(x, list(pads), mode), small)
    assert got.shape == (2 + pads[0] + pads[1], 3 + pads[2] + pads[3])
    assert set(np.unique(got)) <= {*small.ravel(), 0.0}


@pytest.mark.parametrize("mode", ["zeros", "border", "reflection"])
def test_grids_of_any_numbers(mode: str) -> None:
    grid = np.array([np.nan, 1e30, -1e30, np.inf, -np.inf, 0.5, 0, 2], np.float32).reshape(1, 2, 2, 2)
    image = np.ones((1, 1, 4, 4), np.float32)
    assert run(lambda x, g: relax.op.image.grid_sample(x, g, padding_mode=mode), image, grid).shape == (1, 1, 2, 2)


def test_work_beyond_the_limit_is_refused_before_it_is_done() -> None:
    wide = relax.Var("x", relax.TensorType((1 << 14, 1 << 14), "int8"))
    builder = relax.BlockBuilder()
    with builder.function("main", [wide]):
        builder.emit_func_output(builder.emit(relax.op.matmul(wide, wide, "int32")))
    with pytest.raises(SimulationError, match="steps of work; the limit is") as caught:
        compile_module(builder.get())
    assert caught.value.kind == "work-limit"


def test_temporaries_beyond_the_limit_are_refused() -> None:
    image, weight = np.zeros((1, 1, 4, 4), np.float32), np.zeros((1, 1, 1, 1), np.float32)
    far = 1 << 20
    conv = module(lambda x, w: relax.op.nn.conv2d(x, w, strides=far, padding=far), image, weight)
    with pytest.raises(SimulationError, match="bytes at once; the limit is") as caught:
        compile_module(conv)
    assert caught.value.kind == "work-limit"
