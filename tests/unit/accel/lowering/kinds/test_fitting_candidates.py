"""Candidates that fit: they are the same at any time of a document, and as kept as they were found."""

from collections.abc import Sequence

import numpy as np
import pytest

from accel.accelerator.document import Accelerator
from accel.accelerator.target import Target
from accel.catalog.load_accelerator import load_accelerator
from accel.isa.family_registry import family_of
from accel.lowering.analysis import kept_answers as answers
from accel.lowering.analysis.kept_answers import KeptAnswers
from accel.lowering.kinds.contraction.convolution_tiling import PricedTiling, plan_convolution
from accel.lowering.kinds.contraction.fitting_candidates import dump_candidates, load_candidates
from accel.region.epilogue import Epilogue
from accel.region.shapes import Convolution, PackedActivation

NONE = (0, 0, 0, 0)
LAYERS = (
    Convolution(PackedActivation.dense(1, 2, 18, 18), 2, (3, 3), (1, 1), (1, 1), NONE, 16, 16),
    Convolution(PackedActivation.dense(1, 4, 27, 7), 4, (3, 3), (1, 1), (1, 1), NONE, 25, 5, groups=4),
    Convolution(PackedActivation.dense(1, 8, 1, 1), 8, (1, 1), (1, 1), (1, 1), NONE, 1, 1),
)
PLAIN = Epilogue(())


def planned(accelerator: Accelerator, kept: KeptAnswers, layer: Convolution) -> Sequence[PricedTiling]:
    cost, gemm = family_of(accelerator).tiling_cost, Target(accelerator).contraction
    return plan_convolution(layer, PLAIN, accelerator, gemm, cost, 40, answers=kept)


def recalled(kept: KeptAnswers, accelerator: Accelerator) -> KeptAnswers:
    again, data = KeptAnswers(accelerator), kept.dump()
    assert data is not None
    again.recall(data)
    return again


@pytest.mark.parametrize("name", ["vta", "gemmini", "output-stationary", "vector"])
def test_kept_candidates_are_priced_as_those_that_are_found(name: str) -> None:
    """Catches what fits by a time of the document, an order or an array that is lost, and answers asked anew."""
    usual = load_accelerator(name)
    dram = usual.dram.model_copy(update={"read_latency": 400, "bus_bytes": 4})
    slow = usual.model_copy(update={"dram": dram, "clock_mhz": 7.0})
    kept = KeptAnswers(usual)
    for layer in LAYERS:
        planned(usual, kept, layer)
    assert kept.asked_anew
    others = recalled(kept, slow)
    for layer in LAYERS:
        assert planned(slow, others, layer) == planned(slow, KeptAnswers(slow), layer)
    assert not others.asked_anew


def test_candidates_are_read_as_they_were_written() -> None:
    kept = KeptAnswers(load_accelerator("gemmini"))
    planned(load_accelerator("gemmini"), kept, LAYERS[0])
    (data,) = kept._answers.values()
    found = load_candidates(data)
    assert dump_candidates(found) == data
    assert [order for order, _ in found.ends] == ["stream", "weights", "data"] * 2
    assert np.unique(found.candidates.result_contexts).tolist() == [1, 2]
    assert len(np.unique(found.candidates.tiles)) > 1
    for broken in (b"", data[:-4], data[:40], b"\xff" * 80):
        with pytest.raises(ValueError):  # noqa: PT011 - any: the candidates are found anew then
            load_candidates(broken)


def test_too_many_answers_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MOST_BYTES", 100)
    kept = KeptAnswers(load_accelerator("vta"))
    kept.note("question", bytes(101))
    assert kept.dump() is None
