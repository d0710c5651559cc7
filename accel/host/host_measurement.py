"""Measuring a host: operators of each class, as host steps run them, timed on the machine at hand.

What is found are the numbers of a document's host by which :mod:`accel.host.host_prices` prices an operator: a time to
begin one, a rate for each class, and bytes a cycle. Nothing of an accelerator can be measured without one.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any

import numpy as np

from accel.accelerator.host_costs import ElementRates, OperatorClass
from accel.host.host_executor import HostFunction
from accel.host.host_graph import OPSET, HostGraph, HostNode
from accel.host.host_graph_reader import CheckedGraph, check_graph
from accel.host.json_fields import Tensor
from accel.host.operator_work import OperatorWork, graph_work

Samples = list[float]
"""Seconds of runs of one operator."""

_SIZES = (1 << 12, 1 << 15, 1 << 18, 1 << 21)  # elements: from a small cache to beyond most
_SIDES = (32, 64, 128, 256)  # of square matrices
_FEW = 16  # elements of an operator that only begins
_RUNS = 15
_AS_GOOD = 1.02  # times the least distance
_LONG = 0.2  # seconds of one operator, from which on it runs no more often


@dataclass(frozen=True)
class MeasuredOperator:
    """An operator of one size, and the time that it took: the middle of its runs, and how far these spread.

    ``spread`` is the distance of the quartiles, as a share of the middle.
    """

    kind: OperatorClass
    work: OperatorWork
    seconds: float
    spread: float

    @property
    def elements(self) -> int:
        """Of its class; a measured operator has no other."""
        return self.work.elements[self.kind]


@dataclass(frozen=True)
class HostMeasurement:
    """What was found, in seconds, and what it was found from."""

    begin_seconds: float
    seconds_per_byte: float
    seconds_per_element: dict[OperatorClass, float]
    operators: tuple[MeasuredOperator, ...]

    def predicted(self, measured: MeasuredOperator) -> float:
        """Returns the seconds of an operator as these numbers price it."""
        computing = measured.elements * self.seconds_per_element[measured.kind]
        return self.begin_seconds + max(computing, measured.work.nbytes * self.seconds_per_byte)

    @property
    def errors(self) -> list[float]:
        """How far each operator is from its price, as a share of what it took."""
        return [self.predicted(each) / each.seconds - 1 for each in self.operators]

    def rates(self, clock_mhz: float) -> ElementRates:
        """Returns the elements a cycle of a clock."""
        return ElementRates(
            **{kind: _rounded(1 / (seconds * clock_mhz * 1e6)) for kind, seconds in self.seconds_per_element.items()}
        )


def _rounded(value: float) -> float:
    """Three digits: more were noise."""
    return float(f"{value:.3g}")


def measure_host(run: Callable[[CheckedGraph], Samples] | None = None) -> HostMeasurement:
    """Returns the times of the operators on this machine; it takes some seconds.

    Args:
        run: gives the times of some runs of a graph of one operator; None: runs it as host steps are run.
    """
    timed = run or time_graph
    small = [median(timed(_graph(name, _FEW))) for name in _UNARY]
    begin = median(small)
    copies = [_measured("movement", _graph("Concat", size), timed) for size in _SIZES]
    operators = (*copies, *(_measured(kind, graph, timed) for kind, graph in _graphs()))
    per_byte, per_element = _fit(operators, begin)
    return HostMeasurement(begin, per_byte, per_element, operators)


def _fit(operators: Sequence[MeasuredOperator], begin: float) -> tuple[float, dict[OperatorClass, float]]:
    """Seconds a byte, and an element of each class: what is least far from all operators, by the sum of ratios' logs.

    Squares would follow the few runs that something else disturbed.
    """
    steps = 10.0 ** np.arange(-13, -6, 1 / 32)  # seconds: 7% from one to the next
    found: dict[OperatorClass, tuple[Any, Any]] = {}
    for kind in _OPERATORS:
        own = [each for each in operators if each.kind == kind]
        seconds, elements, nbytes = np.array([(each.seconds, each.elements, each.work.nbytes) for each in own]).T
        computing = steps[None, :, None] * elements
        moving = steps[:, None, None] * nbytes
        off = np.abs(np.log((begin + np.maximum(computing, moving)) / seconds)).sum(axis=-1)  # by byte, by element
        # of rates that are as good, as where memory is what takes time, the one that takes longest
        last = len(steps) - 1 - np.argmin(off[:, ::-1], axis=1)
        found[kind] = off[np.arange(len(steps)), last], last
    total = sum(off for off, _ in found.values())
    best = int(np.flatnonzero(total <= _AS_GOOD * total.min())[-1])  # and the memory not faster than was seen
    return float(steps[best]), {kind: float(steps[last[best]]) for kind, (_, last) in found.items()}


def _measured(kind: OperatorClass, graph: CheckedGraph, run: Callable[[CheckedGraph], Samples]) -> MeasuredOperator:
    samples = run(graph)
    (work,) = graph_work(graph)
    low, middle, high = quantiles(samples, n=4) if len(samples) > 1 else samples * 3
    return MeasuredOperator(kind, work, middle, (high - low) / middle if middle else 0.0)


def time_graph(graph: CheckedGraph) -> Samples:
    """Returns the seconds of some runs of a graph, on random elements, after one that is not counted."""
    function, random = HostFunction(graph), np.random.default_rng(0)
    given = [_drawn(tensor, random) for tensor in graph.graph.inputs.values()]
    function.run(given)
    samples: Samples = []
    while len(samples) < 3 or (len(samples) < _RUNS and sum(samples) < _LONG):
        begun = time.perf_counter()
        function.run(given)
        samples.append(time.perf_counter() - begun)
    return samples


def _drawn(tensor: Tensor, random: np.random.Generator) -> Any:
    shape, dtype = tensor
    if dtype == "float32":
        return random.random(shape, np.float32)
    return random.integers(-100, 100, shape).astype(dtype)


_UNARY = ("Abs", "Add", "Exp", "Transpose")
_OPERATORS: dict[OperatorClass, tuple[str, ...]] = {
    "elementwise": ("Abs", "Add", "Mul"),
    "reduction": ("ReduceMax", "ReduceSum"),
    "exponential": ("Erf", "Exp", "Tanh"),
    "contraction": ("MatMul",),
    "movement": ("Slice", "Transpose"),
}
"""What is timed, at sizes in caches and beyond them."""


def _graphs() -> Iterator[tuple[OperatorClass, CheckedGraph]]:
    for kind, operators in _OPERATORS.items():
        for op in operators:
            for size in _SIDES if kind == "contraction" else _SIZES:
                yield kind, _graph(op, size)


def _graph(op: str, size: int) -> CheckedGraph:
    """One operator: of ``size`` float32 elements as rows, or of square matrices with ``size`` rows."""
    rows = 1 << (size.bit_length() - 1) // 2
    shape = (size, size) if op == "MatMul" else (rows, size // rows)
    constants: dict[str, Any] = {}
    inputs: dict[str, Tensor] = {"a": (shape, "float32")}
    attributes: dict[str, Any] = {}
    if op in ("Add", "Concat", "MatMul", "Mul"):
        inputs["b"] = shape, "float32"
    if op == "Concat":
        attributes["axis"] = 0
    if op == "Transpose":
        attributes["perm"] = [1, 0]
    if op.startswith("Reduce"):
        constants["axes"] = np.array([1])
    if op == "Slice":  # all but the borders, as what lays images out
        constants |= {"begin": np.array([1, 1]), "end": np.array([shape[0], shape[1]])}
    node = HostNode(op, (*inputs, *constants), ("y",), attributes)
    return check_graph(HostGraph(OPSET, inputs, constants, (node,), ("y",)))
