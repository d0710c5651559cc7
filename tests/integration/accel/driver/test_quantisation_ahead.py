"""A model that another process quantises, against the same one quantised here."""

import socket
from pathlib import Path

import onnx
import pytest

from accel.driver.helpers.quantisation_ahead import QuantisationAhead, quantisation_ahead
from accel.frontend.quantize.quantize_model import quantize_model
from accel.frontend.quantize.scale_grid import Scheme
from accel.frontend.read.load_model import load_model
from accel.frontend.read.model_info import NO_AXES, Axes
from accel.util.helper_process import may_help
from examples.networks import build
from examples.single import Conv, conv_model

SCHEME = Scheme(scales="free", zero_points="all")
AXES = Axes({"images": 2}, {})
alone = pytest.mark.skipif(not may_help(), reason="there is one processor, or no fork")


def _float_model() -> onnx.ModelProto:
    model = build("resnet8")
    for each in (*model.graph.input, *model.graph.output):
        each.type.tensor_type.shape.dim[0].dim_param = "images"
    return model


def _quantised_ahead(model: bytes, folder: Path, scheme: Scheme = SCHEME) -> onnx.ModelProto | None:
    path = folder / "model.onnx"
    path.write_bytes(model)
    with quantisation_ahead(path, AXES, 3) as ahead:
        assert ahead is not None
        ahead.begin(SCHEME)
        return ahead.quantised(scheme)


@alone
def test_the_model_is_the_one_that_the_job_makes(tmp_path: Path) -> None:
    """Samples of another seed or shape, or another scheme, would leave other scales."""
    model = _float_model().SerializeToString()
    wanted = quantize_model(load_model(model, axes=AXES).model, seed=3, scheme=SCHEME)
    assert _quantised_ahead(model, tmp_path) == wanted


@alone
@pytest.mark.parametrize("model", [b"nothing", conv_model(Conv(4, 4, 4, 4)).SerializeToString()], ids=["bad", "QDQ"])
def test_what_is_not_quantised_ahead_is_left_to_the_job(model: bytes, tmp_path: Path) -> None:
    """The job tells what is wrong with a model, and takes one that is quantised already as it is."""
    assert _quantised_ahead(model, tmp_path) is None


@alone
def test_a_model_for_another_scheme_is_not_taken(tmp_path: Path) -> None:
    assert _quantised_ahead(_float_model().SerializeToString(), tmp_path, Scheme()) is None


@alone
def test_it_ends_with_the_block_and_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody asks it where the program of an earlier job is there, or the job is refused."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with quantisation_ahead(tmp_path / "none.onnx", NO_AXES, 0):
        assert list(tmp_path.iterdir())
    assert not list(tmp_path.iterdir())


def test_a_process_that_is_gone_changes_nothing() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        theirs.close()
        assert QuantisationAhead(ours).quantised(SCHEME) is None
