"""Tensors for the models of the tests."""

import io

import numpy as np
import onnx


def npz_of(model: bytes, value: float = 0) -> bytes:
    """An npz file that fits the model's inputs: this value everywhere."""
    arrays = {}
    for put in onnx.load_from_string(model).graph.input:
        tensor = put.type.tensor_type
        shape = [dimension.dim_value for dimension in tensor.shape.dim]
        arrays[put.name] = np.full(shape, value, onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()
