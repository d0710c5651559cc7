import numpy as np
import pytest

from accel.errors import VerificationError
from accel.verify.output_comparison import SQNR_CEILING_DB, check_equal, cosine, sqnr_db

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


def test_equal_are_equal_bits() -> None:
    check_equal({"y": np.array([NAN, INF, -0.0], np.float32)}, {"y": np.array([NAN, INF, -0.0], np.float32)})


@pytest.mark.parametrize(
    ("got", "expected", "message"),
    [
        (np.int8([[1, 2], [3, 4]]), np.int8([[1, 2], [5, 6]]), r"2 of 4 elements .* \[1, 0\]: got 3, expected 5"),
        (np.float32([-0.0]), np.float32([0.0]), "1 of 1 elements"),
        (np.int8([1]), np.uint8([1]), r"y is int8\[1\]; expected uint8\[1\]"),
        (np.int8([1, 2]), np.int8([[1, 2]]), r"y is int8\[2\]; expected int8\[1, 2\]"),
    ],
)
def test_any_other_bit_type_or_shape_is_told(got: np.ndarray, expected: np.ndarray, message: str) -> None:
    with pytest.raises(VerificationError, match=message) as caught:
        check_equal({"x": expected, "y": got}, {"x": expected, "y": expected})
    assert caught.value.field == "y"
