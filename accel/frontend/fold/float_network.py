"""A float model that is being folded: who makes and reads each tensor, and what is constant."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper

from accel.frontend.onnx_model.external_data import array_of
from accel.frontend.onnx_model.onnx_nodes import unique_name
from accel.frontend.onnx_model.shape_inference import Shape, known_shapes
from accel.util.arrays import Float32


class FloatNetwork:
    """The graph of ``model``, whose nodes have names; it is changed in place."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._graph = model.graph
        self.nodes = list(model.graph.node)
        self.shapes: dict[str, Shape] = known_shapes(model)
        self.inputs = {info.name for info in model.graph.input}
        self._outputs = {info.name for info in model.graph.output}
        self._constants = {tensor.name: tensor for tensor in model.graph.initializer}
        self._values: dict[str, Float32] = {}
        self._taken = {name for node in self.nodes for name in (node.name, *node.input, *node.output)}
        self._taken |= self.inputs | set(self._constants)
        self._index()

    def constant(self, name: str) -> Float32 | None:
        """The value of a constant of float32."""
        tensor = self._constants.get(name)
        if tensor is None or tensor.data_type != onnx.TensorProto.FLOAT or name in self._outputs:
            return None
        if name not in self._values:
            self._values[name] = array_of(tensor)
        return self._values[name]

    def is_constant(self, name: str) -> bool:
        """Whether ``name`` is a constant of any type."""
        return name in self._constants

    def readers(self, name: str) -> list[onnx.NodeProto]:
        """The nodes that read the tensor, once for each time."""
        return self._readers.get(name, [])

    def only_reader(self, name: str) -> onnx.NodeProto | None:
        """The node that alone reads the tensor, once."""
        readers = self.readers(name)
        return readers[0] if len(readers) == 1 and name not in self._outputs else None

    def maker(self, name: str) -> onnx.NodeProto | None:
        """The node that makes the tensor."""
        return self._makers.get(name)

    def add_constant(self, value: npt.NDArray[np.float32 | np.int64], like: str) -> str:
        """A new constant, with a name after ``like``; returns the name."""
        name = self.name(like)
        tensor = numpy_helper.from_array(np.ascontiguousarray(value), name)
        self._graph.initializer.append(tensor)
        self._constants[name] = tensor
        return name

    def name(self, like: str) -> str:
        """A name that nothing has."""
        return unique_name(like, self._taken)

    def replace(self, gone: Iterable[onnx.NodeProto], made: Iterable[onnx.NodeProto], shape: Shape = ()) -> None:
        """Put the nodes ``made`` where the last of ``gone`` was; ``shape`` is that of all tensors new between them."""
        names = {node.name for node in gone}
        at = max(index for index, node in enumerate(self.nodes) if node.name in names)
        added = list(made)
        before, after = self.nodes[:at], self.nodes[at + 1 :]
        self.nodes = [*(node for node in before if node.name not in names), *added, *after]
        for node in added:
            for output in node.output:
                self.shapes.setdefault(output, shape)
        self._index()

    def finish(self) -> None:
        """Write the nodes back, and leave out the constants that nothing reads."""
        nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in self.nodes]
        del self._graph.node[:]
        self._graph.node.extend(nodes)
        read = {name for node in nodes for name in node.input} | self._outputs
        kept = [tensor for tensor in self._graph.initializer if tensor.name in read]
        if len(kept) < len(self._graph.initializer):
            kept = [onnx.TensorProto.FromString(tensor.SerializeToString()) for tensor in kept]
            del self._graph.initializer[:]
            self._graph.initializer.extend(kept)
        made = {name for node in nodes for name in node.output}
        infos = [info for info in self._graph.value_info if info.name in made]
        infos = [onnx.ValueInfoProto.FromString(info.SerializeToString()) for info in infos]
        del self._graph.value_info[:]
        self._graph.value_info.extend(infos)

    def _index(self) -> None:
        self._readers: dict[str, list[onnx.NodeProto]] = {}
        self._makers = {name: node for node in self.nodes for name in node.output}
        for node in self.nodes:
            for name in node.input:
                self._readers.setdefault(name, []).append(node)
