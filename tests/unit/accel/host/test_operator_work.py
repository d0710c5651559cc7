"""The work of host operators against counts by hand, and their price."""

from typing import Any

import numpy as np
import pytest

from accel.host.host_graph import HostGraph, HostNode
from accel.host.host_graph_reader import check_graph
from accel.host.host_operators import OPERATORS
from accel.host.host_prices import cache_cycles, operator_cycles, step_price
from accel.host.operator_work import _MOVES, _RULES, _VIEWS, OperatorWork, graph_work, operations
from tests.helpers.documents.host_by_hand import HOST

F32, I8 = "float32", "int8"


def works(
    op: str, inputs: dict[str, tuple[tuple[int, ...], str]], constants: dict[str, Any] | None = None, **attributes: Any
) -> list[OperatorWork]:
    given = {name: np.asarray(value) for name, value in (constants or {}).items()}
    node = HostNode(op, (*inputs, *given), ("y",), attributes)
    return graph_work(check_graph(HostGraph(18, inputs, given, (node,), ("y",))))


@pytest.mark.parametrize(
    ("op", "inputs", "constants", "attributes", "elements", "nbytes"),
    [
        # 6 results of two operands, the second one read once
        ("Add", {"a": ((2, 3), F32), "b": ((3,), F32)}, {}, {}, {"elementwise": 6}, (6 + 3 + 6) * 4),
        ("Max", {"a": ((4,), F32), "b": ((4,), F32), "c": ((4,), F32)}, {}, {}, {"elementwise": 8}, 64),
        ("Exp", {"a": ((5,), F32)}, {}, {}, {"exponential": 5}, 40),
        ("Softmax", {"a": ((2, 8), F32)}, {}, {}, {"reduction": 32, "elementwise": 32, "exponential": 16}, 128),
        ("ReduceMax", {"a": ((4, 8), I8)}, {}, {"keepdims": 1}, {"reduction": 32}, 33),
        ("MaxPool", {"a": ((1, 3, 6, 6), F32)}, {}, {"kernel_shape": [3, 3]}, {"reduction": 3 * 16 * 9}, 4 * 156),
        # 2 x 8 x 4 x 4 results of 4 channels and 3 x 3 taps
        ("Conv", {"a": ((2, 4, 6, 6), F32)}, {"w": np.zeros((8, 4, 3, 3), np.float32)}, {},
         {"contraction": 2 * 8 * 16 * 36}, 4 * (288 + 288 + 256)),
        # groups: 2 channels a result
        ("Conv", {"a": ((1, 4, 6, 6), F32)}, {"w": np.zeros((4, 2, 3, 3), np.float32)}, {"group": 2},
         {"contraction": 64 * 18}, 4 * (144 + 72 + 64)),
        # every operand element meets each of the 6 weights of its channel
        ("ConvTranspose", {"a": ((1, 4, 5, 5), F32)}, {"w": np.zeros((4, 3, 1, 2), np.float32)}, {"strides": [2, 2]},
         {"contraction": 100 * 6}, 4 * (100 + 24 + 3 * 9 * 10)),
        ("MatMul", {"a": ((2, 3, 5), F32), "b": ((5, 7), F32)}, {}, {}, {"contraction": 210}, 4 * (30 + 35 + 42)),
        ("Gemm", {"a": ((5, 3), F32), "b": ((5, 7), F32)}, {}, {"transA": 1}, {"contraction": 105}, 4 * (15 + 35 + 21)),
        ("Einsum", {"a": ((2, 3, 5), F32), "b": ((2, 5, 7), F32)}, {}, {"equation": "...ij,...jk->...ik"},
         {"contraction": 210}, 4 * (30 + 70 + 42)),
        # what is moved is read as it is written: of the table two rows
        ("Gather", {"a": ((1000, 4), F32), "i": ((2,), "int64")}, {}, {}, {"movement": 8}, 64),
        ("Transpose", {"a": ((4, 8), I8)}, {}, {"perm": [1, 0]}, {"movement": 32}, 64),
        # eight bytes, and a shape of sixteen
        ("Expand", {"a": ((1, 8), I8)}, {"s": np.array([4, 8])}, {}, {"movement": 32}, 24 + 32),
    ],
)  # fmt: skip
def test_work_by_hand(
    op: str, inputs: Any, constants: Any, attributes: Any, elements: dict[str, int], nbytes: int
) -> None:
    (found,) = works(op, inputs, constants, **attributes)
    assert found.elements == elements
    assert found.nbytes == nbytes


def test_arithmetic_by_hand() -> None:
    """A multiply-accumulate is two operations, and neither what is moved nor what becomes another type is any."""
    given = {"a": ((2, 3, 5), F32), "b": ((5, 7), F32)}
    assert operations(works("MatMul", given)) == 2 * 210
    assert operations(works("Softmax", {"a": ((2, 8), F32)})) == 5 * 16
    assert operations(works("Transpose", {"a": ((4, 8), I8)}, perm=[1, 0])) == 0
    assert operations(works("Cast", {"a": ((4, 8), I8)}, to=1)) == 0


def test_shapes_and_constants_cost_nothing() -> None:
    """A reshape moves nothing, and what follows from constants alone is there before."""
    assert works("Reshape", {"a": ((4, 8), I8)}, {"s": np.array([8, 4])}) == []
    nodes = (
        HostNode("Neg", ("c",), ("d",)),
        HostNode("Transpose", ("d",), ("e",)),
        HostNode("Add", ("x", "e"), ("y",)),
    )
    graph = HostGraph(18, {"x": ((8, 4), F32)}, {"c": np.zeros((4, 8), np.float32)}, nodes, ("y",))
    assert [work.op for work in graph_work(check_graph(graph))] == ["Add"]


def test_movements_in_a_row_are_one() -> None:
    """Through views too; not where somebody else reads what is between, or it leaves the graph."""
    data, flip = {"x": ((4, 8), I8)}, {"perm": [1, 0]}
    pads = np.array([0, 0, 0, 2])
    nodes = (
        HostNode("Pad", ("x", "p"), ("a",)),
        HostNode("Reshape", ("a", "s"), ("b",)),
        HostNode("Transpose", ("b",), ("c",), flip),
    )
    constants = {"p": pads, "s": np.array([8, 5])}
    alone = graph_work(check_graph(HostGraph(18, data, constants, nodes, ("c",))))
    assert [(work.op, work.elements, work.nbytes) for work in alone] == [("Transpose", {"movement": 40}, 80)]
    for more, outputs in (((), ("c", "a")), ((HostNode("Abs", ("b",), ("d",)),), ("c", "d"))):
        found = graph_work(check_graph(HostGraph(18, data, constants, (*nodes, *more), outputs)))
        assert [work.op for work in found] == ["Pad", "Transpose", *(node.op for node in more)]


def test_rules_name_operators_that_there_are() -> None:
    """A misspelt name would fall back to elementwise, and be priced wrongly without a word."""
    assert set(_RULES) | _VIEWS <= OPERATORS
    assert set(_MOVES.split()).isdisjoint(_VIEWS)


def test_price_by_hand() -> None:
    """The slower of computing and memory, after what each operator takes to begin."""
    computing = OperatorWork("Exp", {"exponential": 1000}, 8000)
    assert operator_cycles(computing, HOST) == 100 + 1000 / 0.5  # 2000 cycles of memory
    bound_by_memory = OperatorWork("Add", {"elementwise": 1000}, 12_000)
    assert operator_cycles(bound_by_memory, HOST) == 100 + 12_000 / 4
    moved = OperatorWork("Transpose", {"movement": 4000}, 8000)
    price = step_price([computing, bound_by_memory, moved, computing], HOST)
    assert price.computing == 2 * 2100 + 3100
    assert price.moving == 100 + 4000
    assert price.elements == {"exponential": 2000, "elementwise": 1000, "movement": 4000}
    assert price.nbytes == 36_000


def test_caches_by_hand() -> None:
    """Whole lines, and a call for each tensor; nothing where the caches are coherent."""
    assert cache_cycles([1, 32, 33], HOST) == 3 * 50 + (1 + 1 + 2) * 2
    assert cache_cycles([1, 32, 33], HOST.model_copy(update={"cache": None})) == 0
