"""Constants of all forms that ONNX has as dense tensors: numbers and lists in nodes, and sparse tensors."""

import math

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from accel.errors import InvalidModel, UnsupportedShape, UnsupportedType
from accel.frontend.onnx_model.model_limits import ModelLimits
from accel.frontend.onnx_model.onnx_nodes import ONNX_DOMAINS
from accel.frontend.onnx_model.tensor_types import check_dimensions

_NUMBERS = {
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
}
_STRINGS = ("value_string", "value_strings")


class DenseConstants:
    """Makes constants dense, as long as all sparse ones together have no more bytes than a file may have."""

    def __init__(self, limits: ModelLimits) -> None:
        self._limits = limits
        self._bytes = 0

    def convert_graph(self, graph: onnx.GraphProto) -> None:
        """Makes the sparse initializers of ``graph``, and the constants of its own nodes, dense, in place.

        Raises:
            InvalidModel, UnsupportedShape, UnsupportedType: as :meth:`convert`, and :meth:`dense`.
        """
        for sparse in graph.sparse_initializer:
            graph.initializer.append(self.dense(sparse, f"initializer:{sparse.values.name}"))
        graph.ClearField("sparse_initializer")
        for node in graph.node:
            self.convert(node)

    def convert(self, node: onnx.NodeProto) -> None:
        """Gives ``node``, if it is a Constant, its value as a dense tensor, in place.

        Raises:
            InvalidModel: it has no value, or several, or a sparse one that is malformed.
            UnsupportedType: its value is a string.
            UnsupportedShape: a sparse value is larger than the limits.
        """
        if node.op_type != "Constant" or node.domain not in ONNX_DOMAINS:
            return
        field = f"node:{node.name}"
        if len(node.attribute) != 1 or not node.output:
            raise InvalidModel(f"Constant has {len(node.attribute)} values; one was expected", field=field)
        (attribute,) = node.attribute
        if attribute.name in _STRINGS:
            raise UnsupportedType("elements of type string are not supported", field=field)
        if attribute.name in _NUMBERS:
            value = np.array(helper.get_attribute_value(attribute), _NUMBERS[attribute.name])
            tensor = numpy_helper.from_array(value)
        elif attribute.name == "sparse_value":
            tensor = self.dense(attribute.sparse_tensor, field)
        elif attribute.name == "value" and attribute.HasField("t"):
            return
        else:
            raise InvalidModel(f"Constant has no attribute {attribute.name!r} of a value", field=field)
        attribute.CopyFrom(helper.make_attribute("value", tensor))

    def dense(self, sparse: onnx.SparseTensorProto, field: str) -> TensorProto:
        """Returns a sparse tensor whose parts are checked as any constants are, as a dense one of the same name.

        Raises:
            InvalidModel: its indices are not those of its elements.
            UnsupportedShape: it has too many elements, or all sparse tensors have too many bytes.
        """
        dims = tuple(sparse.dims)
        check_dimensions(dims, field, self._limits, smallest=0)
        values = np.asarray(numpy_helper.to_array(sparse.values))
        self._bytes += math.prod(dims) * values.itemsize
        if self._bytes > self._limits.file_bytes:
            raise UnsupportedShape(
                f"the sparse constants take {self._bytes} bytes once they are dense; the limit is "
                f"{self._limits.file_bytes}",
                field=field,
            )
        indices = np.asarray(numpy_helper.to_array(sparse.indices))
        listed = indices.ndim == 2 and indices.shape == (values.size, len(dims))
        bounds: tuple[int, ...] = dims if listed else (math.prod(dims),)
        fits = values.ndim == 1 and indices.dtype == np.int64 and (listed or indices.shape == values.shape)
        if not fits or (indices < 0).any() or (indices >= bounds).any():
            raise InvalidModel("the indices of a sparse tensor are not those of its elements", field=field)
        array = np.zeros(dims, values.dtype)
        array.reshape(-1)[np.ravel_multi_index(tuple(indices.T), dims) if listed else indices] = values
        return numpy_helper.from_array(array, sparse.values.name)
