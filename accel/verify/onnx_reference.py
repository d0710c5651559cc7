"""Nodes of a model by onnxruntime, between tensors that are known: what the reference has of the model itself."""

import math
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
import onnx
import onnxruntime
from onnx import helper

from accel.errors import CompileError
from accel.frontend.onnx_model.external_data import embedded
from accel.host.host_executor import open_session
from accel.util.arrays import Array
from accel.util.deadline import Deadline
from accel.verify.wide_operators import run_wide


class ModelNodes:
    """The nodes of a model by what they make."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._model = model
        self._makers = {name: at for at, node in enumerate(model.graph.node) for name in node.output if name}
        self._constants = {tensor.name: tensor for tensor in model.graph.initializer}
        self._folded = set(self._constants)  # and what nodes make of constants alone; nodes come after what they read
        for node in model.graph.node:
            if self._folded.issuperset(node.input):
                self._folded.update(node.output)

    def run(
        self, wanted: Sequence[str], known: Mapping[str, Array], between: Collection[str], deadline: Deadline
    ) -> list[Array]:
        """Returns the tensors ``wanted``, computed from ``known`` ones by the model's own nodes, one by one.

        Args:
            wanted: names of tensors.
            known: arrays by the name of their tensor.
            between: the tensors that may be made on the way.
            deadline: when to give up.

        Raises:
            CompileError: another tensor would have to be made on the way.
            OutOfTimeError: the deadline has passed.
        """
        model, inputs = self._part(wanted, known, between)
        session = open_session(model.SerializeToString())
        fed = {name: np.asarray(known[name], order="C") for name in inputs}
        return _run_until(session, wanted, fed, deadline)

    def run_wide(self, wanted: str, known: Mapping[str, Array], between: Collection[str]) -> Array:
        """Returns a tensor as ONNX's own evaluator computes it, in numpy, of floats in double precision.

        The arguments are as for :meth:`run`.

        Raises:
            CompileError: another tensor would have to be made on the way, or the evaluator has no such operator.
        """
        model, inputs = self._part([wanted], known, between)
        try:
            return run_wide(model, wanted, {name: known[name] for name in inputs})
        except Exception as error:  # its errors have no base class of their own
            raise CompileError(f"ONNX's evaluator does not compute {wanted}: {error}", field=wanted) from error

    def _part(
        self, wanted: Sequence[str], known: Mapping[str, Array], between: Collection[str]
    ) -> tuple[onnx.ModelProto, dict[str, None]]:
        """The model's nodes that make ``wanted`` of what is known, as a model, and the names of its inputs."""
        nodes, inputs, constants, lacking = self._between(wanted, known)
        if lacking:
            raise CompileError(f"the reference has no tensor {lacking[0]}", field=lacking[0])
        for at in nodes:
            names = [name for name in self._model.graph.node[at].output if name]
            if not any(name in between for name in names) and names[0] not in self._folded:
                raise CompileError(f"the reference lacks the tensor {names[0]}", field=names[0])
        graph = helper.make_graph(
            [self._model.graph.node[at] for at in sorted(nodes)],
            "reference",
            [
                helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
                for name, array in ((name, known[name]) for name in inputs)
            ],
            [onnx.ValueInfoProto(name=name) for name in wanted],
            [embedded(self._constants[name]) for name in constants],
        )
        made = helper.make_model(graph, opset_imports=self._model.opset_import, ir_version=self._model.ir_version)
        return made, inputs

    def lacking(self, wanted: str, known: Mapping[str, Array]) -> list[str]:
        """Returns the tensors that ``wanted`` is made of, and that no node of the model makes."""
        return self._between([wanted], known)[3]

    def _between(
        self, wanted: Iterable[str], known: Mapping[str, Array]
    ) -> tuple[set[int], dict[str, None], dict[str, None], list[str]]:
        """The nodes, the known tensors and the constants that tensors are made of, and what nothing makes."""
        nodes: set[int] = set()
        inputs: dict[str, None] = {}
        constants: dict[str, None] = {}
        lacking = list[str]()
        pending, seen = list(wanted), set[str]()
        while pending:
            name = pending.pop()
            if not name or name in seen:
                continue
            seen.add(name)
            if name in known:
                inputs[name] = None
            elif name in self._constants:
                constants[name] = None
            elif name in self._makers:
                nodes.add(self._makers[name])
                pending += self._model.graph.node[self._makers[name]].input
            else:
                lacking.append(name)
        return nodes, inputs, constants, lacking


def _run_until(
    session: onnxruntime.InferenceSession, wanted: Sequence[str], fed: dict[str, Array], deadline: Deadline
) -> list[Array]:
    """The results; onnxruntime looks between two nodes whether it shall go on."""
    options, seconds = onnxruntime.RunOptions(), deadline.remaining()
    options.log_severity_level = 4
    timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), setattr, (options, "terminate", True))
    timer.daemon = True
    if math.isfinite(seconds):
        timer.start()
    try:
        results: list[Array] = session.run(list(wanted), fed, options)
    except Exception:
        deadline.remaining()  # raises, if that is why
        raise
    finally:
        timer.cancel()
    return results
