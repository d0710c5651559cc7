"""What further tiles take where units wait for one another within a tile, by hand."""

from dataclasses import dataclass

import numpy as np
import pytest

from accel.lowering.vector.tiles.tile_overlap import cycles_of_further_tiles, units_alternate


@dataclass(frozen=True)
class Step:
    unit: str
    writes: str
    reads: tuple[str, ...] = ()


def gate(second: str) -> list[Step]:
    """A product of two operands, of which one is computed with before the other is loaded into ``second``."""
    return [
        Step("load", "b0", ()),
        Step("vector", "b1", ("b0",)),
        Step("load", second, ()),
        Step("vector", second, ("b1", second)),
        Step("store", "y", (second,)),
    ]


CYCLES = np.array([[100.0], [30.0], [80.0], [20.0], [10.0]])


def test_units_alternate_where_a_load_comes_into_what_was_used() -> None:
    assert units_alternate(gate("b0"))
    assert not units_alternate(gate("b2"))


@pytest.mark.parametrize("contexts", [2, 3])
def test_a_load_that_waits_holds_up_the_next_tile(contexts: int) -> None:
    """100 + 30 + 80 from a tile's first load to the next one's; 100 + 80 where the second waits for nothing."""
    assert cycles_of_further_tiles(gate("b0"), CYCLES, contexts) == pytest.approx(210)
    assert cycles_of_further_tiles(gate("b2"), CYCLES, contexts) == pytest.approx(180)


def test_a_buffer_is_loaded_again_when_its_last_reader_has_ended() -> None:
    """With two copies of a buffer that is held for 10 + 60 + 50 cycles a tile begins every 60."""
    steps = [Step("load", "b0"), Step("vector", "b0", ("b0",)), Step("store", "y", ("b0",))]
    assert cycles_of_further_tiles(steps, np.array([[10.0], [60.0], [50.0]]), 2) == pytest.approx(60)
    assert cycles_of_further_tiles(steps, np.array([[10.0], [40.0], [90.0]]), 2) == pytest.approx(90)
