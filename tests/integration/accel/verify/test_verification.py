import numpy as np
import pytest

from accel.verify.output_comparison import SQNR_CEILING_DB, cosine, sqnr_db

INF, NAN = np.inf, np.nan


@pytest.mark.parametrize(
    ("got", "expected", "sqnr", "similarity"),
    [
        ([3, 4], [3, 4], SQNR_CEILING_DB, 1.0),
        ([0, 0], [0, 0], SQNR_CEILING_DB, 1.0),
        ([0, 0], [3, 4], 0.0, 0.0),
        ([NAN, INF, 3, 4], [NAN, INF, 3, 4], SQNR_CEILING_DB, 1.0),
        ([NAN, 4], [3, 4], -SQNR_CEILING_DB, 0.0),
        ([-INF, 4], [INF, 4], -SQNR_CEILING_DB, 0.0),
        ([3, 3.6], [3, 4], 10 * np.log10(25 / 0.16), 23.4 / 5 / np.hypot(3, 3.6)),
    ],
)
def test_quality(got: list[float], expected: list[float], sqnr: float, similarity: float) -> None:
    arrays = np.array(got), np.array(expected)
    assert sqnr_db(*arrays) == pytest.approx(sqnr)
    assert cosine(*arrays) == pytest.approx(similarity)
