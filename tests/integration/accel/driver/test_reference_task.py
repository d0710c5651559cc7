"""The reference beside the compilation: what it finds, and that it ends with the job."""

import time

import numpy as np
import pytest

from accel.driver.helpers import reference_task
from accel.driver.helpers.reference_task import ReferenceTask
from accel.frontend.integer_recovery.recover_integers import ImportedModel, import_integer_model
from accel.frontend.read.load_model import load_model
from accel.util.arrays import Array
from accel.util.deadline import Deadline, OutOfTimeError
from accel.verify.model_quality import QualityInputs
from accel.verify.reference_graph import ReferenceRun, run_reference
from examples.single import Conv, conv_model


@pytest.fixture(scope="module")
def imported() -> ImportedModel:
    return import_integer_model(conv_model(Conv(16, 16, 8, 8)), "shift")


INPUTS = [np.random.default_rng(0).integers(-128, 128, (1, 16, 8, 8), np.int8)]


def test_it_finds_what_the_graph_computes(imported: ImportedModel) -> None:
    with ReferenceTask(60) as task:
        task.start(imported, INPUTS)
        found = task.found()
    assert found is not None
    expected = run_reference(imported, INPUTS, Deadline(60)).outputs
    for ours, theirs in zip(found.outputs, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_quality_is_that_of_what_the_graph_computes(imported: ImportedModel) -> None:
    """It would catch figures of other outputs, and a job that waits for quality nobody measures."""
    model = load_model(conv_model(Conv(16, 16, 8, 8)).SerializeToString())
    feeds = {tensor.name: array for tensor, array in zip(model.info.inputs, INPUTS, strict=True)}
    inputs = QualityInputs(model.model, model.model, model.info, feeds)
    with ReferenceTask(60) as task:
        task.start(imported, INPUTS, quality=inputs)
        quality, found = task.quality(), task.found()
        assert quality is not None
        assert found is not None
    assert quality.outputs == inputs.measure(found.outputs, imported.activations, found.tensors).outputs
    assert [each.output for each in quality.outputs.figures] == [tensor.name for tensor in model.info.outputs]
    with ReferenceTask(0) as task:
        task.start(imported, INPUTS, quality=inputs)
        assert task.quality() is None


def test_without_time_nothing_is_run(imported: ImportedModel) -> None:
    with ReferenceTask(0) as task:
        task.start(imported, INPUTS)
        assert task.found() is None


def without_end(_imported: ImportedModel, _inputs: list[Array], deadline: Deadline, _measured: object) -> ReferenceRun:
    while True:
        deadline.remaining()
        time.sleep(0.01)


def test_it_ends_with_a_job_that_fails(imported: ImportedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would catch a job that fails at once, and whose process then computes for five minutes."""
    monkeypatch.setattr(reference_task, "run_reference", without_end)
    begun = time.monotonic()
    with ReferenceTask(300) as task:
        task.start(imported, INPUTS)
    assert time.monotonic() - begun < 10


def test_it_takes_no_longer_than_it_may(imported: ImportedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference_task, "run_reference", without_end)
    with ReferenceTask(0.05) as task:
        task.start(imported, INPUTS)
        with pytest.raises(OutOfTimeError):
            task.found()
