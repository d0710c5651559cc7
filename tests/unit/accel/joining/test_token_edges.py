"""Tokens that are added to a queue, against the order that all of them together ask for."""

from hypothesis import given
from hypothesis import strategies as st

from accel.joining.token_edges import TokenEdges

_EDGES = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=12)


@given(_EDGES)
def test_a_queue_orders_all_that_was_asked_for_and_nothing_besides(asked):
    """Catches a token that is left out though no other implies it, and one that is taken for another."""
    edges = TokenEdges()
    for sent, taken in asked:
        edges.add(sent, taken)
    assert edges.sent == sorted(set(edges.sent))
    assert edges.taken == sorted(set(edges.taken))
    assert set(zip(edges.sent, edges.taken, strict=True)) <= set(asked)
    for sent, taken in asked:
        # by way of the units, which do one instruction after the other
        assert any(sent <= one and other <= taken for one, other in zip(edges.sent, edges.taken, strict=True))
