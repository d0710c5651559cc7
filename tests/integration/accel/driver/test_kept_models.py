"""The QDQ form of a float model, which is kept from job to job."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from accel.catalog.load_accelerator import load_accelerator
from accel.driver import compile_stages
from accel.driver import run_model as driver
from accel.driver.run_options import Options
from accel.util.content_cache import FolderCache

QUICK: dict[str, Any] = {"verify_seconds": 0, "trace": False, "schedule": "quick"}


def dense(factor: float = 1.0) -> bytes:
    """A float layer."""
    weights = np.linspace(-1, 1, 16 * 16, dtype=np.float32).reshape(16, 16) * np.float32(factor)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], "layer")],
        "dense",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 16])],
        [numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model.SerializeToString()


@pytest.fixture
def quantised(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What has been quantised."""
    found: list[object] = []
    quantise = compile_stages.ensure_quantised

    def note(*given: Any, **named: Any) -> onnx.ModelProto:
        found.append(named)
        return quantise(*given, **named)

    monkeypatch.setattr(compile_stages, "ensure_quantised", note)
    return found


def run(
    folder: Path,
    name: str,
    preset: str = "vta",
    model: bytes = b"",
    samples: Mapping[str, Any] | None = None,
    **options: Any,
) -> bytes:
    out = folder / name
    out.mkdir()
    driver.run_model(
        model or dense(),
        load_accelerator(preset),
        Options(**QUICK | options),
        out,
        calibration=None if samples is None else dict(samples),
        cache=FolderCache(folder / "cache"),
    )
    return (out / "model.qdq.onnx").read_bytes()


@pytest.mark.slow
def test_it_is_quantised_once_for_all_documents_of_one_kind_of_scales(tmp_path: Path, quantised: list[object]) -> None:
    first = run(tmp_path, "first")
    assert run(tmp_path, "again") == run(tmp_path, "smaller", "vta-small") == first
    assert len(quantised) == 1
    run(tmp_path, "free", "gemmini")
    assert len(quantised) == 2


@pytest.mark.slow
def test_what_it_depends_on_makes_it_another(tmp_path: Path, quantised: list[object]) -> None:
    samples = {"x": np.ones((2, 1, 16), np.float32)}
    ways: list[dict[str, Any]] = [
        {},
        {"model": dense(3.0)},
        {"seed": 1},
        {"samples": samples},
        {"samples": {"x": 2 * samples["x"]}},
    ]
    for number, way in enumerate(ways):
        run(tmp_path, str(number), **way)
    assert len(quantised) == len(ways)


@pytest.mark.slow
def test_a_damaged_entry_is_made_anew(tmp_path: Path, quantised: list[object]) -> None:
    first = run(tmp_path, "first")
    for entry in (tmp_path / "cache").iterdir():
        entry.write_bytes(entry.read_bytes()[:-1])
    assert run(tmp_path, "again") == first
    assert len(quantised) == 2
