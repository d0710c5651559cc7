"""What launches allow if the seams between them cost nothing."""

from accel.isa.family import Work
from accel.report.seam_cycles import LaunchSpan, row_cycles


def span(before, working, after, compute, bus):
    return LaunchSpan("layer", before, working, after, Work(compute, compute, bus, max(compute, bus)))


def test_only_the_ends_of_a_row_cost_beside_what_bottlenecks_work():
    first, second, third = span(30, 100, 20, 90, 40), span(50, 200, 10, 150, 60), span(5, 70, 8, 10, 60)
    assert row_cycles([first]) == 30 + 100 + 20
    assert row_cycles([first, second, third]) == 30 + 100 + 200 + 70 + 8


def test_a_row_allows_nothing_below_its_bound():
    """Catches loads of layers that compute for long, which all have to go over the bus beside the products."""
    assert row_cycles([span(0, 100, 0, 100, 95), span(0, 10, 0, 5, 10), span(0, 20, 0, 20, 40)]) == 145
