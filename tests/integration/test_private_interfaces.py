"""Private interfaces of TVM, zipfile and pytest: each is used in one place, and is still what we take it for."""

import ast
import inspect
import io
import sys
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm_ffi
from onnx import TensorProto, helper, numpy_helper
from tvm import relax, runtime
from tvm.relax.frontend.onnx.onnx_frontend import ONNXGraphImporter
from tvm_ffi import registry

from accel.frontend.relax_import import relax_importer
from accel.host.relax_operators import Field, attribute_fields
from worker.execution import zip_limits

ROOT = Path(__file__).parents[2]
USES = {
    "accel/frontend/relax_import/relax_importer.py": {"_end_block"},
    "accel/host/relax_operators.py": {"_lookup_or_register_type_info_from_type_key"},
    "worker/execution/zip_limits.py": {"_EndRecData", "_ECD_SIZE"},
}
DOCUMENTED = {"_replace", "_asdict", "_fields", "_exit"}  # of named tuples, and of os
HOOKS = ("_check_for_unsupported_ops", "_parse_array", "_convert_operator")  # relax_importer overrides them


def foreign_names(path: Path) -> set[str]:
    """Private attributes of something else than ``self``, but for those that the file defines itself."""
    tree = ast.parse(path.read_text())
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    used = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or not node.attr.startswith("_") or node.attr.endswith("__"):
            continue
        holder = node.value.func if isinstance(node.value, ast.Call) else node.value
        if isinstance(holder, ast.Name) and holder.id in ("self", "cls", "super"):
            own.add(node.attr)
        else:
            used.add(node.attr)
    return used - own - DOCUMENTED


def test_each_is_used_in_one_place() -> None:
    found = {
        str(path.relative_to(ROOT)): names
        for room in ("accel", "worker")
        for path in (ROOT / room).rglob("*.py")
        if (names := foreign_names(path))
    }
    assert found == USES


def test_tvms_names_are_listed_once_and_none_is_missed() -> None:
    """Catches a release of TVM whose modules would be empty, or whose import would be slow again."""
    assert registry.list_global_func_names.__module__ == "accel"
    before = registry.list_global_func_names()
    assert registry.list_global_func_names() is before
    tvm_ffi.register_global_func("cyclops.test.listed", lambda: None)
    try:
        assert set(registry.list_global_func_names()) == {*before, "cyclops.test.listed"}
    finally:
        registry.remove_global_func("cyclops.test.listed")


def test_tvms_builder_ends_blocks() -> None:
    assert list(inspect.signature(relax.BlockBuilder._end_block).parameters) == ["self"]


@pytest.mark.parametrize("hook", HOOKS)
def test_tvms_importer_has_the_methods_that_ours_replaces(hook: str) -> None:
    theirs, ours = (getattr(each, hook) for each in (ONNXGraphImporter, relax_importer._NamedImporter))
    assert list(inspect.signature(theirs).parameters) == list(inspect.signature(ours).parameters)


def test_tvms_importer_calls_them(monkeypatch: pytest.MonkeyPatch) -> None:
    called = []
    for hook in HOOKS:
        ours = getattr(relax_importer._NamedImporter, hook)

        def record(*arguments, hook=hook, ours=ours):
            called.append(hook)
            return ours(*arguments)

        monkeypatch.setattr(relax_importer._NamedImporter, hook, record)
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        "sum",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])],
        [numpy_helper.from_array(np.ones(2, np.float32), "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    onnx.checker.check_model(model)
    assert relax_importer.import_onnx(model).operators
    assert set(called) == set(HOOKS)


def test_tvm_tells_an_operators_attributes() -> None:
    fields = attribute_fields("relax.attrs.Conv2DAttrs")
    assert fields["strides"] == Field("strides", "int", optional=False, many=True, boxed="")
    assert fields["out_dtype"] == Field("out_dtype", "dtype", optional=True, many=False, boxed="")


def test_zipfile_tells_the_size_of_the_directory() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a", b"")
        archive.writestr("b", b"")
    end = zipfile._EndRecData(file)
    assert end[zipfile._ECD_SIZE] == len(file.getvalue()) - end[zipfile._ECD_OFFSET] - zipfile.sizeEndCentDir == 2 * 47
    assert not zip_limits.unpacked_bytes(file)


def test_the_tests_of_a_file_stay_in_one_process(request: pytest.FixtureRequest) -> None:
    """By pytest's ``_nodeid``, to which pytest-xdist appends the group. Without it they run in any order, anywhere."""
    if not request.config.getoption("loadgroup", False):
        pytest.skip("not distributed by groups")
    assert request.node.nodeid.endswith("@tests/integration/test_private_interfaces.py")


def test_tvm_is_imported_without_what_ends_in_errors() -> None:
    """By ``sys.modules`` and a variable of the environment, both in ``accel/__init__.py``."""
    assert runtime.disco is None
    assert "tvm.runtime.disco.session" not in sys.modules
    assert "tvm.backend.cuda.script" not in sys.modules
