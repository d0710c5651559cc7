"""Instructions that a machine starts in order, sent as they would start: they do the same, and units overlap."""

import numpy as np
import pytest

from accel.isa.decode import decode
from accel.isa.explicit.document_function import ExplicitMachine
from accel.isa.explicit.explicit_family import FAMILY
from accel.util.arrays import aligned_zeros
from tests.helpers.documents.explicit_documents import document, random_rows, row, stream

DRAM = 512
_WHOLE = document({"kind": "in_order"})
ACCELERATOR = _WHOLE.model_copy(
    update={"instructions": tuple(each for each in _WHOLE.instructions if each.kind != "sync")}
)


def ran(words):
    machine, dram = ExplicitMachine(ACCELERATOR), aligned_zeros(DRAM)
    dram[:] = np.random.default_rng(5).integers(0, 256, DRAM)
    machine.run(decode(ACCELERATOR, words), dram)
    return [dram, *(machine.contents(name) for name in ("x", "w", "c"))]


def test_random_streams_do_the_same_and_units_keep_their_order():
    """Catches an access that the order passes over, on the chip or in DRAM, and words without their places."""
    rng, moved = np.random.default_rng(0), 0
    units = [each.unit for each in ACCELERATOR.instructions]
    for _ in range(60):
        rows = [each for each in random_rows(rng, 40, ACCELERATOR, DRAM) if each["op"] != "nop"]
        words = stream(ACCELERATOR, rows).words
        sent, places = FAMILY.arranged(words, ACCELERATOR)
        np.testing.assert_array_equal(sent, words[places])
        for before, after in zip(ran(words), ran(sent), strict=True):
            np.testing.assert_array_equal(before, after)
        for unit in set(units):
            own = [place for place in places.tolist() if units[decode(ACCELERATOR, words).kind[place]] == unit]
            assert own == sorted(own)
        moved += bool((places != np.arange(len(places))).any())
    assert moved > 40


def test_the_loads_of_a_tile_go_before_the_store_of_the_one_before():
    def tile(c):
        return [
            row("load_x", sram=c, dram=8 * c),
            row("gemm", x=c, c=c, inner=4),
            row("store", sram=c, dram=200 + 8 * c),
        ]

    decoded = stream(ACCELERATOR, [*tile(0), *tile(3)])
    sent, places = FAMILY.arranged(decoded.words, ACCELERATOR)
    assert places.tolist().index(3) < places.tolist().index(2)
    assert FAMILY.time(decode(ACCELERATOR, sent), {}).cycles < FAMILY.time(decoded, {}).cycles


@pytest.mark.parametrize("synchronisation", [{"kind": "hazards"}, {"kind": "tokens"}, {"kind": "in_order"}])
def test_others_are_sent_as_they_are(synchronisation):
    """Those whose units run apart; and those with an instruction that only waits, as ``nop`` here."""
    accelerator = document(synchronisation)
    words = stream(accelerator, [row("load_x"), row("gemm"), row("store"), row("load_x", sram=4)]).words
    np.testing.assert_array_equal(FAMILY.arranged(words, accelerator)[1], np.arange(4))
