"""Streams without loops need no unroller: they come out of it as they are, and leave the same registers."""

import numpy as np
import pytest

from accel.isa.gemmini.document import rocc_encoding as rocc
from accel.isa.gemmini.document.gemmini_parameters import GemminiParameters
from accel.isa.gemmini.stream import loop_expansion
from accel.isa.gemmini.stream.loop_expansion import expand_loops, loop_registers

_PARAMETERS = GemminiParameters()
_PLAIN = [*range(rocc.LOOP_WS), rocc.MVIN3, rocc.COUNTER, rocc.FENCE]


@pytest.mark.parametrize("count", [0, 1, 500])
@pytest.mark.parametrize("alternate", [False, True])
def test_it_is_what_the_unroller_makes(count: int, alternate: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(count)
    words = random.integers(0, 1 << 64, (count, 3), np.uint64)
    words[:, 0] = random.choice(_PLAIN, count)
    words[::2, 1] &= np.uint64(~0b111 & (1 << 64) - 1)  # many config_ld among the configurations
    words[::2, 1] |= np.uint64(rocc.CONFIG_LD)
    registers, others = loop_registers(), loop_registers()
    found = expand_loops(words, _PARAMETERS, registers, alternate=alternate)
    monkeypatch.setattr(loop_expansion, "has_no_loops", lambda _: False)
    expected = expand_loops(words, _PARAMETERS, others, alternate=alternate)
    assert np.array_equal(found.words, expected.words)
    assert np.array_equal(found.origin, expected.origin)
    assert np.array_equal(registers, others)
    assert count < 500 or registers.any()
