"""The table of Relax operators, which converts old files, operator by operator against the same Relax by TVM."""

import numpy as np
import onnx
import pytest

from accel.frontend.relax_import.relax_importer import import_onnx
from accel.host.relax_translation import UntranslatableError
from tests.reference.host import compile_module, run_compiled, run_host
from tests.reference.operators import CONVERTED, PLAIN

REFUSED = (
    *("AffineGrid", "GridSample", "GroupNormalization", "Resize nearest", "Resize linear", "Resize cubic"),
    *("Resize of volumes", "resize some axes"),
)
CASES = {name: case for name, case in (PLAIN | CONVERTED).items() if name not in REFUSED}


def drawn(info: onnx.ValueInfoProto) -> np.ndarray:
    """Numbers by which one may divide; of int64, indices."""
    random, shape = np.random.default_rng(0), [size.dim_value for size in info.type.tensor_type.shape.dim]
    dtype = onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
    if dtype.kind == "f":
        return np.asarray(random.standard_normal(shape)).astype(dtype)
    low, high = (0, 2) if dtype.kind == "b" or dtype.itemsize == 8 else (1, 100)
    return np.asarray(random.integers(low, high, shape)).astype(dtype)


@pytest.mark.parametrize("name", CASES)
def test_the_nodes_compute_what_the_operator_does(name: str) -> None:
    model = CASES[name].model()
    module, inputs = import_onnx(model).module, [drawn(info) for info in model.graph.input]
    expected = run_compiled(compile_module(module), inputs)
    for got, wanted in zip(run_host(module, *inputs), expected, strict=True):
        assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
        if got.dtype.kind == "f":
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
        else:
            np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_equal_is_refused(name: str) -> None:
    model = (PLAIN | CONVERTED)[name].model()
    with pytest.raises(UntranslatableError, match="is no operator that ONNX has"):
        run_host(import_onnx(model).module, *map(drawn, model.graph.input))
