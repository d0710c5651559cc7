"""Verdicts of reports in words."""

from accel.report.documents.verdicts import report_verdict


def test_a_verdict_says_that_an_earlier_run_computed_the_outputs() -> None:
    """Catches a report that was only timed and reads as if its outputs had been computed."""
    own = {"verified": True, "floats": [], "layers": [{}]}
    kept = {**own, "verification_kept": True}
    assert report_verdict(own) == "verified: the outputs equal the reference, bit by bit"
    assert report_verdict(kept) == report_verdict(own) + "; an earlier run computed them, of the same words and inputs"
