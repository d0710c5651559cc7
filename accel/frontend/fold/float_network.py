"""A float model that is being folded: who makes and reads each tensor, and what is constant."""

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper

from accel.frontend.onnx_model.external_data import LARGE, array_of, folders_of, written_constants
from accel.frontend.onnx_model.onnx_nodes import unique_name
from accel.frontend.onnx_model.shape_inference import Shape, known_shapes
from accel.util.arrays import Float32


class FloatNetwork:
    """The graph of ``model``, whose nodes have names; it is changed in place.

    Args:
        model: its constants are in it, or in files.
        directory: where large new constants go, in a file that must outlive the model, if its others are in files of
            this folder alone; None: they go into the model.
    """

    def __init__(self, model: onnx.ModelProto, directory: Path | None = None) -> None:
        self._graph = model.graph
        self._directory = directory if directory is not None and folders_of(model) <= {directory} else None
        self.shapes: dict[str, Shape] = known_shapes(model)
        self.inputs = {info.name for info in model.graph.input}
        self._outputs = {info.name for info in model.graph.output}
        self._constants = {tensor.name: tensor for tensor in model.graph.initializer}
        self._values: dict[str, Float32] = {}
        self._added: dict[str, npt.NDArray[np.float32 | np.int64]] = {}
        nodes = list(model.graph.node)
        self._taken = {name for node in nodes for name in (node.name, *node.input, *node.output)}
        self._taken |= self.inputs | set(self._constants)
        self._places = [[node] for node in nodes]  # where each node was, and what stands there now
        self._place_of: dict[str, int] = {}
        self._indexed: dict[str, onnx.NodeProto] = {}  # by name, with what follows of them as it was then
        self._names: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}
        self._readers: dict[str, dict[str, int]] = {}  # how often each node reads a tensor
        self._makers: dict[str, onnx.NodeProto] = {}
        for at, node in enumerate(nodes):
            self._enter(node, at)

    @property
    def nodes(self) -> list[onnx.NodeProto]:
        """The nodes in their order."""
        return [node for place in self._places for node in place]

    def constant(self, name: str) -> Float32 | None:
        """Returns the value of a constant of float32, which is not for writing."""
        if name in self._added:
            added = self._added[name]
            return added if added.dtype == np.float32 and name not in self._outputs else None  # type: ignore[return-value]
        tensor = self._constants.get(name)
        if tensor is None or tensor.data_type != onnx.TensorProto.FLOAT or name in self._outputs:
            return None
        if name not in self._values:
            self._values[name] = array_of(tensor)
        return self._values[name]

    def is_constant(self, name: str) -> bool:
        """Returns whether ``name`` is a constant of any type."""
        return name in self._constants or name in self._added

    def is_output(self, name: str) -> bool:
        """Returns whether ``name`` is an output of the model."""
        return name in self._outputs

    def readers(self, name: str) -> list[onnx.NodeProto]:
        """Returns the nodes that read the tensor, once for each time."""
        found = self._readers.get(name, {})
        return [self._indexed[reader] for reader, times in found.items() for _ in range(times)]

    def only_reader(self, name: str) -> onnx.NodeProto | None:
        """Returns the node that alone reads the tensor, once."""
        readers = self._readers.get(name, {})
        if len(readers) != 1 or name in self._outputs:
            return None
        ((reader, times),) = readers.items()
        return self._indexed[reader] if times == 1 else None

    def maker(self, name: str) -> onnx.NodeProto | None:
        """Returns the node that makes the tensor."""
        return self._makers.get(name)

    def add_constant(self, value: npt.NDArray[np.float32 | np.int64], like: str) -> str:
        """Adds a constant, with a name after ``like``; returns the name. Nobody writes into ``value`` any more."""
        name = self.name(like)
        self._added[name] = np.ascontiguousarray(value)
        return name

    def name(self, like: str) -> str:
        """Returns a name that nothing has."""
        return unique_name(like, self._taken)

    def replace(
        self,
        removed: Iterable[onnx.NodeProto],
        replacements: Iterable[onnx.NodeProto],
        shape: Shape = (),
        *,
        changed: Iterable[onnx.NodeProto] = (),
    ) -> None:
        """Puts ``replacements`` where the last of ``removed`` was, if any; new tensors between them have ``shape``.

        ``changed`` are nodes that stay and have other inputs or outputs now. The time is that of these nodes alone.
        """
        names, added, at = [node.name for node in removed], list(replacements), 0
        if names:
            last = max(names, key=lambda name: (self._place_of[name], self._within(name)))
            at, within = self._place_of[last], self._within(last)
            self._places[at][within + 1 : within + 1] = added
        for name in names:
            self._leave(name)
        for node in changed:
            self._forget(node.name)
            self._index(node)
        for node in added:
            self._enter(node, at)
            for output in node.output:
                self.shapes.setdefault(output, shape)

    def _within(self, name: str) -> int:
        """Where in its place a node stands."""
        return next(at for at, node in enumerate(self._places[self._place_of[name]]) if node is self._indexed[name])

    def finish(self) -> None:
        """Writes the nodes back to the model, without the constants that no node reads."""
        nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in self.nodes]
        del self._graph.node[:]
        self._graph.node.extend(nodes)
        read = {name for node in nodes for name in node.input} | self._outputs
        for at in reversed(range(len(self._graph.initializer))):
            if self._graph.initializer[at].name not in read:
                del self._graph.initializer[at]
        self._write_added(read)
        outputs = {name for node in nodes for name in node.output}
        infos = [info for info in self._graph.value_info if info.name in outputs]
        infos = [onnx.ValueInfoProto.FromString(info.SerializeToString()) for info in infos]
        del self._graph.value_info[:]
        self._graph.value_info.extend(infos)

    def _write_added(self, read: Collection[str]) -> None:
        """Put the new constants that are read into the model, the large ones of them into a file, if they may be."""
        added = {name: value for name, value in self._added.items() if name in read}
        apart = {name: value for name, value in added.items() if self._directory is not None and value.size > LARGE}
        written: Iterator[onnx.TensorProto] = iter(())
        if apart and self._directory is not None:
            written = written_constants(apart.items(), self._directory)
        for name, value in added.items():
            self._graph.initializer.append(next(written) if name in apart else numpy_helper.from_array(value, name))

    def _enter(self, node: onnx.NodeProto, at: int) -> None:
        """Note a node that stands at a place."""
        self._place_of[node.name] = at
        self._indexed[node.name] = node
        self._index(node)

    def _leave(self, name: str) -> None:
        """Forget a node, and take it away from its place."""
        self._places[self._place_of[name]].pop(self._within(name))
        del self._place_of[name]
        self._forget(name)
        del self._indexed[name]

    def _index(self, node: onnx.NodeProto) -> None:
        """Note what a node reads and makes."""
        self._names[node.name] = tuple(map(str, node.input)), tuple(map(str, node.output))
        for read in node.input:
            readers = self._readers.setdefault(read, {})
            readers[node.name] = readers.get(node.name, 0) + 1
        for made in node.output:
            self._makers[made] = node

    def _forget(self, name: str) -> None:
        """Forget what a node read and made."""
        inputs, outputs = self._names.pop(name)
        for read in dict.fromkeys(inputs):
            del self._readers[read][name]
        for made in outputs:
            if self._makers.get(made) is self._indexed[name]:
                del self._makers[made]
