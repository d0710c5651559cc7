import io

import pytest
from rich.console import Console

from service.cli.report_tables import print_report

LAYER = {
    "name": "conv1",
    "op": "conv2d",
    "cycles": 750,
    "utilisation": 0.5,
    "bytes_read": 1000,
    "bytes_written": 234,
}


def printed(**changes: object) -> str:
    report = {"accelerator": "vta", "cycles": 1000, "layers": [LAYER], "host_ops": [], "verified": True}
    text = io.StringIO()
    print_report(report | changes, Console(file=text, width=100))
    return text.getvalue()


def test_a_row_a_layer() -> None:
    row = next(line for line in printed().splitlines() if "conv1" in line)
    assert [cell.strip() for cell in row.strip("│").split("│")] == ["conv1", "conv2d", "750", "75.0%", "50.0%", "1,234"]


def test_energy_where_the_accelerator_says_it() -> None:
    assert "energy" not in printed()
    assert "energy" not in printed(energy_pj=None)
    assert "energy: 1,235 pJ" in printed(energy_pj=1234.6)
    whole = {"instructions": None, "dram": 1000.0, "host": 2000.0, "total": 3000.0, "unknown": ["instructions"]}
    text = printed(energy=whole, energy_pj=None)
    assert "energy: 3,000 pJ: DRAM 1,000, host 2,000; no cost is given for instructions" in text


def test_bytes_beside_the_compulsory_ones() -> None:
    dram = {"bytes_read": 1500, "bytes_written": 500, "compulsory_read": 900, "compulsory_written": 100, "ratio": 2.0}
    assert "1,500 bytes read, 500 written; 2.00 times the 1,000 that any schedule must move" in printed(dram=dram)
    assert "any schedule" not in printed()


@pytest.mark.parametrize(
    ("verified", "words"), [(True, "outputs equal the reference"), (False, "DIFFER"), (None, "nothing to verify")]
)
def test_the_verdict(verified: bool | None, words: str) -> None:
    assert words in printed(verified=verified, layers=[] if verified is None else [LAYER])


def test_a_network_that_stays_on_the_host() -> None:
    text = printed(cycles=0, layers=[], host_ops=[{"node": "s[0]", "op": "Softmax", "reason": "no instruction"}])
    assert "on the host: s[0] (Softmax): no instruction" in text


def test_many_nodes_of_one_reason_are_one_line() -> None:
    """Fails if a reason that a hundred nodes share is printed a hundred times, or hides what has another one."""
    ops = [{"node": f"n{each}", "op": "Mul" if each % 2 else "Sigmoid", "reason": "no table"} for each in range(5)]
    text = printed(host_ops=[*ops, {"node": "p", "op": "MaxPool", "reason": "no maximum"}])
    assert "on the host: 5 nodes (3 Sigmoid, 2 Mul), n0 among them: no table" in text
    assert "on the host: p (MaxPool): no maximum" in text
    assert "on the host: n0 (Sigmoid): no table" in printed(host_ops=ops[:3])


def test_what_was_not_compared_is_not_verified() -> None:
    warning = {"kind": "not-verified", "launch": None, "instruction": None, "detail": "it took too long"}
    text = printed(verified=None, warnings=[warning])
    assert "warning: it took too long" in text
    assert "NOT verified" in text


def test_the_layer_where_most_is_lost_is_named_if_anything_is() -> None:
    worst = {"tensor": "relu1_out", "node": "relu1", "sqnr_db": 21.51, "before_db": 23.82}
    outputs = [{"output": "y", "sqnr_db": 32.94}]
    text = printed(quantisation=outputs, most_lost=worst)
    assert "accuracy: y is 32.9 dB from the model as uploaded" in text
    assert "most is lost at node relu1: relu1_out is 21.5 dB from the float network, what it is" in text.replace(
        "\n", " "
    )
    assert "accuracy" not in printed(quantisation=[{"output": "y", "sqnr_db": 200.0}], most_lost=worst)
