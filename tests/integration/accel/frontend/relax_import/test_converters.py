"""Operators that are imported as Relax's own, against onnxruntime."""

import numpy as np
import pytest
from tvm import relax

from accel.frontend.relax_import.relax_importer import import_onnx
from tests.reference.host import draw_inputs, run_onnx, run_relax
from tests.reference.operators import CONVERTED


@pytest.mark.parametrize("name", CONVERTED)
def test_they_compute_what_onnxruntime_does_and_need_no_code(name: str) -> None:
    model = CONVERTED[name].model()
    imported = import_onnx(model)
    assert all(isinstance(function, relax.Function) for function in imported.module.functions.values())
    inputs = draw_inputs(model)
    if name == "clip by tensors":
        inputs |= {"x1": np.array(-0.5, np.float32), "x2": np.array(0.5, np.float32)}
    (result,), (expected,) = run_relax(imported.module, *inputs.values()), run_onnx(model, inputs)
    assert result.dtype == expected.dtype
    moved = not name.startswith(("einsum", "resize"))
    np.testing.assert_allclose(result, expected, rtol=0, atol=0 if moved else 1e-6)


def test_a_bound_that_is_no_number_is_none() -> None:
    model = CONVERTED["clip by tensors"].model()
    inputs = draw_inputs(model) | {"x1": np.array(np.nan, np.float32), "x2": np.array(0.5, np.float32)}
    (result,) = run_relax(import_onnx(model).module, *inputs.values())
    np.testing.assert_array_equal(result, np.minimum(inputs["x0"], np.float32(0.5)))
