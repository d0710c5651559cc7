import pytest

from service.negotiate import negotiate
from service.problems import ProblemError

FORMATS = {"json": "application/json", "csv": "text/csv", "text": "text/plain"}


@pytest.mark.parametrize(
    ("requested", "accept", "chosen"),
    [
        (None, None, "json"),
        (None, "*/*", "json"),
        (None, "text/csv", "csv"),
        (None, "text/*", "csv"),
        (None, "Text/Plain; charset=utf-8", "text"),
        (None, "text/csv;q=0.5, text/plain", "text"),
        (None, "text/csv;q=0, */*;q=0.1", "json"),
        (None, "image/png, */*;q=0.1", "json"),
        ("text", "text/csv", "text"),
    ],
)
def test_chooses(requested: str | None, accept: str | None, chosen: str) -> None:
    assert negotiate(FORMATS, requested, accept) == chosen


@pytest.mark.parametrize("accept", ["image/png", "text/csv;q=0", "text/csv;q=x", "application"])
def test_nothing_acceptable(accept: str) -> None:
    with pytest.raises(ProblemError, match="application/json") as caught:
        negotiate(FORMATS, None, accept)
    assert caught.value.status_code == 406
