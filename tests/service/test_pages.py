from hypothesis import given
from hypothesis import strategies as st

from service.pages import page_of_ids


@given(st.sets(st.text("abc", min_size=1, max_size=5)), st.integers(1, 7))
def test_pages_hold_every_id_once(ids: set[str], limit: int) -> None:
    ordered = sorted(ids, reverse=True)
    seen, cursor = [], None
    while True:
        page, cursor = page_of_ids(ordered, cursor, limit)
        assert len(page) <= limit
        seen += page
        if cursor is None:
            break
    assert seen == ordered


def test_new_jobs_do_not_move_a_page() -> None:
    page, cursor = page_of_ids(["d", "c", "b", "a"], None, 2)
    assert (page, cursor) == (["d", "c"], "c")
    assert page_of_ids(["f", "e", "d", "c", "b", "a"], cursor, 2) == (["b", "a"], None)
