"""Files with habits of exporters that are no matter of layers: what runs is verified, and near what onnxruntime has."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from accel.catalog.load_accelerator import load_accelerator
from accel.driver.dry_run import plan_model
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.errors import CyclopsError, InvalidModel, ModelTooLarge
from accel.frontend.onnx_model.model_limits import LIMITS
from accel.frontend.read.load_model import load_model
from accel.frontend.read.model_inspection import inspect_model, inspect_upload
from accel.verify.output_comparison import sqnr_db
from tests.helpers.marking import others_all, rest_all, rest_slow
from tests.helpers.models import exported_files
from tests.helpers.models.exported_files import DOMAIN, FILES, REFUSED, function, graph, info, model, node, untyped

VTA = load_accelerator("vta-pynq")
UNKNOWN = ("bfloat16", "bfloat16 inside")  # onnxruntime has no kernels for it


# of loops, branches, types, names and empty tensors one each
KEPT = (
    "a loop",
    "a branch",
    "functions",
    "an empty list",
    "an index",
    "unread outputs",
    "a scalar",
    "scalars alone",
    "bfloat16",
    "float64",
)


@pytest.mark.slow
@pytest.mark.parametrize("name", others_all(FILES, KEPT))
def test_a_file_runs_as_it_is_planned_and_is_measured_against_itself(name: str, tmp_path: Path) -> None:
    made = FILES[name]()
    data = made.SerializeToString()
    plan = plan_model(data, VTA, Options(seed=2))
    options = Options(seed=2, schedule="quick", trace=False)
    report = run_model(data, VTA, options, tmp_path)
    assert report.verified is not False
    assert [launch.name for launch in plan.launches] == [layer.name for layer in report.layers]
    assert plan.estimated_cycles == pytest.approx(report.cycles, rel=0.05)
    kinds = [warning.kind for warning in report.warnings]
    assert [warning.kind for warning in plan.warnings] == [kind for kind in kinds if kind != "no-quality"]
    assert ("converted-floats" in kinds) == ("float" in name)
    with np.load(tmp_path / "inputs.npz") as inputs, np.load(tmp_path / "outputs.npz") as outputs:
        assert {array.dtype for array in outputs.values()} == {np.dtype(np.float32)}
        if name in UNKNOWN:
            assert ("no-quality" in kinds, report.quantisation) == (True, [])
            return
        types = {item.name: item.dtype for item in inspect_upload(data).inputs}
        fed = {key: array.astype(types[key]) for key, array in inputs.items()}
        expected = onnxruntime.InferenceSession(data).run(list(outputs), fed)
        for told, (key, got), array in zip(report.quantisation, outputs.items(), expected, strict=True):
            assert got.shape == array.shape
            assert told.sqnr_db == pytest.approx(sqnr_db(got, array), abs=0.01), key
            assert told.sqnr_db > 12, key


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "a loop without end")) for name in REFUSED]
)
def test_what_is_refused_names_the_node_and_what_would_help(name: str, tmp_path: Path) -> None:
    make, field, told = REFUSED[name]
    data = make().SerializeToString()
    for door in (
        lambda: inspect_upload(data), lambda: plan_model(data, VTA), lambda: run_model(data, VTA, Options(), tmp_path)
    ):  # fmt: skip
        with pytest.raises(CyclopsError) as caught:
            door()
        assert (caught.value.field, told in caught.value.detail) == (field, True), caught.value.detail


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_inputs_are_taken_in_the_models_type_and_in_float32(dtype: type[np.generic], tmp_path: Path) -> None:
    data = FILES["float16"]().SerializeToString()
    x = np.random.default_rng(3).standard_normal((2, 8)).astype(np.float16)
    run_model(data, VTA, Options(), tmp_path, inputs={"x": x.astype(dtype)}, calibration={"x": x.astype(dtype)})
    with np.load(tmp_path / "inputs.npz") as inputs:
        assert np.array_equal(inputs["x"], x.astype(np.float32))
    described = inspect_upload(data)
    assert (described.inputs[0].dtype, described.outputs[0].dtype) == ("float16", "float16")


def test_nodes_of_functions_and_loops_are_called_after_them() -> None:
    names = [each.name for each in load_model(FILES["functions"]().SerializeToString()).model.graph.node]
    assert "block0/linear/MatMul_1" in names
    loaded = load_model(FILES["a loop"]().SerializeToString()).model.graph
    assert {"steps/0/MatMul_0", "steps/2/MatMul_0"} <= {each.name for each in loaded.node}
    assert sum(tensor.name.startswith("nought") for tensor in loaded.initializer) == 1  # one for all iterations


def calling(depth: int, width: int) -> onnx.ModelProto:
    """Functions that call the next one several times each."""
    functions = []
    for level in range(depth):
        op, domain = (f"f{level + 1}", DOMAIN) if level + 1 < depth else ("Relu", "")
        calls = [node(op, [f"t{at}"], [f"t{at + 1}"], domain=domain) for at in range(width)]
        functions.append(function(f"f{level}", ["t0"], [f"t{width}"], calls))
    return model([node("f0", ["x"], ["y"], domain=DOMAIN)], [info("x", 4)], [info("y", 4)], functions=functions)


def recursive() -> onnx.ModelProto:
    again = function("f0", ["x"], ["y"], [node("f0", ["x"], ["y"], domain=DOMAIN)])
    return model([node("f0", ["x"], ["y"], domain=DOMAIN)], [info("x", 4)], [info("y", 4)], functions=[again])


def empty_calls() -> onnx.ModelProto:
    """As many calls as before, at whose end there is no node."""
    made = calling(12, 10)
    last = made.functions[-1]
    del last.node[:]
    last.output[:] = ["t0"]
    return made


def nested_loops(depth: int) -> onnx.ModelProto:
    """500 iterations in each other."""
    body = [node("Relu", ["h"], ["r"])]
    inputs = [info("i", kind=7), info("c", kind=9), untyped("h")]
    for _ in range(depth):
        inner = graph([*body, node("Identity", ["c"], ["d"])], inputs, [info("d", kind=9), untyped("r")])
        body = [node("Loop", ["m", "", "h"], ["r"], body=inner, name="nest")]
    first = node("Identity", ["x"], ["h"])
    constant = exported_files.constant("m", 500)
    return model([first, *body, node("Relu", ["r"], ["y"])], [info("x", 4)], [untyped("y")], [constant])


def vast_sparse() -> onnx.ModelProto:
    made = FILES["sparse weights"]()
    made.graph.sparse_initializer[0].dims[:] = [2**13, 2**14]
    for index in range(3):
        again = made.graph.sparse_initializer.add()
        again.CopyFrom(made.graph.sparse_initializer[0])
        again.values.name = f"w{index}"
    return made


BOMBS = {
    "calls": (lambda: calling(12, 10), ModelTooLarge),
    "a circle of calls": (recursive, InvalidModel),
    "calls of nothing": (empty_calls, ModelTooLarge),
    "loops": (lambda: nested_loops(3), ModelTooLarge),
    "sparse constants": (vast_sparse, InvalidModel),
}
SLOW_BOMBS = ("loops", "sparse constants")


@pytest.mark.parametrize("name", [*(name for name in BOMBS if name not in SLOW_BOMBS), *rest_slow(SLOW_BOMBS, keep=0)])
def test_what_grows_without_bound_is_refused_at_once(name: str) -> None:
    make, error = BOMBS[name]
    with pytest.raises(error, match=r"limit is|which is the limit|called by itself"):
        inspect_model(make().SerializeToString())


def test_a_graph_of_calls_may_have_as_many_nodes_as_any() -> None:
    assert inspect_model(calling(3, 10).SerializeToString()).nodes == 1001  # and an Identity for the output
    assert LIMITS.nodes > 1000


@pytest.mark.slow
@pytest.mark.parametrize("name", rest_all(["a loop", "functions", "unread outputs"]))
def test_nothing_is_written_to_the_standard_error(name: str, tmp_path: Path) -> None:
    """TVM's C++ warns past Python's streams, so another process is looked at."""
    path = tmp_path / "model.onnx"
    path.write_bytes(FILES[name]().SerializeToString())
    for command in (["plan"], ["run", "--out", str(tmp_path / "out")]):
        done = subprocess.run(
            [sys.executable, "-m", "service.cli", command[0], str(path), "--accelerator", "vta-pynq", *command[1:]],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_a_refused_import_writes_its_reason_alone(tmp_path: Path) -> None:
    """TVM warned of the blocks that such an import leaves open."""
    path = tmp_path / "model.onnx"
    nodes = [node("Relu", ["x"], ["a"]), node("Det", ["a"], ["y"], name="det")]
    path.write_bytes(model(nodes, [info("x", 3, 3)], [info("y")]).SerializeToString())
    command = [sys.executable, "-m", "service.cli", "plan", str(path), "--accelerator", "vta-pynq"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, "node:det" in done.stderr) == (2, True)
    assert "block_builder" not in done.stderr
    assert "Warning" not in done.stderr
