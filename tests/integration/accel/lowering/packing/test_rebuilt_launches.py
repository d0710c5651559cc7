"""Graphs of launches that are put together again after movement: what is read is made before."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tvm import ir, relax

from accel.accelerator.target import Target
from accel.catalog.load_accelerator import load_accelerator
from accel.lowering.ir.host_runs import free_vars
from accel.lowering.movement.launch_costs import LaunchCosts
from accel.lowering.movement.launch_graph import Launch, LaunchGraph
from accel.lowering.movement.movement_operators import shape_of_value
from accel.lowering.movement.region_prices import RegionPrices
from accel.lowering.packing.graph_packing import pack
from accel.region.kinds import VectorRegion
from tests.helpers.models.build_models import lower


def two_functions() -> onnx.ModelProto:
    """Two vector programs that stay two, as the second has other rows."""
    nodes = [
        helper.make_node("Softmax", ["x"], ["h"], name="rows", axis=-1),
        helper.make_node("Reshape", ["h", "shape"], ["shorter"], name="shorter"),
        helper.make_node("Softmax", ["shorter"], ["y"], name="others", axis=-1),
    ]
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", [1, 8, 16]), ("y", [1, 16, 8]))
    )
    shape = numpy_helper.from_array(np.array([1, 16, 8], np.int64), "shape")
    graph = helper.make_graph(nodes, "functions", [x], [y], [shape])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def unbound(module: ir.IRModule) -> set[str]:
    """What ``main`` reads that nothing before has made."""
    main = module["main"]
    known, missing = set(main.params), set[str]()
    for binding in (binding for block in main.body.blocks for binding in block.bindings):
        missing |= {str(var.name) for var in free_vars(binding.value) if var not in known}
        known.add(binding.var)
    return missing | {str(var.name) for var in free_vars(main.body.body) if var not in known}


@pytest.mark.parametrize("pieces", [0, 2])
def test_what_is_stored_in_another_order_and_moved_back_is_made(pieces: int) -> None:
    """It would catch a program that takes the place of the launch whose result it moves."""
    target = Target(load_accelerator("npu"))
    graph = LaunchGraph(pack(lower(two_functions(), target.accelerator, "partition"), target), target.contraction)
    launch = next(each for each in graph.launches.values() if each.var not in graph.returned)
    assert isinstance(launch.region, VectorRegion)
    was = launch.var
    lying = relax.DataflowVar(f"{was.name}_lying", relax.TensorType((16, 8, 1), "float32"))
    back = relax.BlockBuilder().normalize(relax.op.permute_dims(lying, [2, 1, 0]))
    graph.order(was, back)
    launch.var, launch.changed = lying, True
    costs = LaunchCosts(graph, RegionPrices(target, lambda regions: [1] * len(regions)))
    program = next(costs.programs([was, lying], was, None))
    if pieces:
        graph.joined[was] = [_piece(program, number) for number in range(pieces)]
    else:
        graph.moves[was] = program
    rebuilt = graph.rebuilt()
    assert unbound(rebuilt) == set()
    made = [binding.var for block in rebuilt["main"].body.blocks for binding in block.bindings]
    assert [var for var in made if var.same_as(lying) or var.same_as(was)] == [lying, was]


def test_a_supposition_leaves_the_graph_as_it_is() -> None:
    """It would catch prices that change the graph which later launches are priced in."""
    target = Target(load_accelerator("npu"))
    graph = LaunchGraph(pack(lower(two_functions(), target.accelerator, "partition"), target), target.contraction)
    launch = next(each for each in graph.launches.values() if each.var not in graph.returned)
    before = dict(graph.values)
    lying = relax.DataflowVar("lying", launch.var.ty)
    supposed = graph.supposing(launch.var, relax.BlockBuilder().normalize(relax.op.permute_dims(lying, [0, 1, 2])))
    found = supposed.source(launch.var, {lying})
    assert found is not None
    assert found[0].same_as(lying)
    assert np.array_equal(found[2].shape, shape_of_value(launch.var))
    assert graph.values == before
    assert graph.source(launch.var, {lying}) is None


def _piece(program: Launch, number: int) -> Launch:
    var = relax.DataflowVar(f"piece{number}", program.var.ty)
    return Launch(var, program.region, program.arguments, program.info, None, changed=True)
