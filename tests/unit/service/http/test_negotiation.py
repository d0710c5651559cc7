import pytest

from service.http.negotiation import negotiate
from service.http.problems import ProblemError

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
        (None, "text/*;q=0, */*", "json"),
        (None, "text/csv;q=0, text/*", "text"),
        (None, "*/*, text/plain;q=0, application/json;q=0", "csv"),
        (None, "application/json;q=0.5, text/*", "csv"),
        (None, "text/csv, */*", "csv"),
        (None, "text/plain;charset=utf-8;Q=0.2, text/csv;q=0.1", "text"),
        (None, "application/json;q=nan, text/plain;q=0.001", "text"),
        (None, "", "json"),
        ("text", "text/csv", "text"),
    ],
)
def test_chooses(requested: str | None, accept: str | None, chosen: str) -> None:
    assert negotiate(FORMATS, requested, accept) == chosen


@pytest.mark.parametrize(
    "accept", ["image/png", "text/csv;q=0", "text/csv;q=x", "text/csv;q=2", "text/*;q=0", "*/*;q=0", "application"]
)
def test_nothing_acceptable(accept: str) -> None:
    with pytest.raises(ProblemError, match="application/json") as caught:
        negotiate(FORMATS, None, accept)
    assert caught.value.status_code == 406
