import pytest

from service.jobs.wait_preference import parse_wait


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ([], None),
        (["wait=10"], 10),
        (["wait=0"], 0),
        (["wait=61"], 60),
        (["wait=999999999"], 60),
        (["Wait = 5"], 5),
        (['wait="5"'], 5),
        (["respond-async, wait=7"], 7),
        (["respond-async", "wait=7"], 7),
        (["wait=7; x=1, handling=lenient"], 7),
        (['note="a, wait=3", wait=4'], 4),
        (["wait=4, wait=9"], 4),
        (["wait"], None),
        (["wait="], None),
        (["wait=soon"], None),
        (["wait=-1"], None),
        (["wait=1.5"], None),
        (["wait=1 2"], None),
        (["wait=x, wait=9"], None),
        (["wait=\u0661"], None),
        (["wait=9999999999"], None),
        (["waiting=5"], None),
        (['"'], None),
        (['=,;,"\\'], None),
    ],
)
def test_what_is_asked_for(headers: list[str], seconds: int | None) -> None:
    assert parse_wait(headers, 60) == seconds


def test_a_long_header_takes_no_time() -> None:
    assert parse_wait(['"' * 50_000, "a=" * 20_000], 60) is None
