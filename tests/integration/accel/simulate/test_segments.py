from dataclasses import replace

import numpy as np
import pytest

from accel.errors import SimulationError
from accel.isa.vta.timing.vta_work import boxes_of
from accel.program.program_model import Program, Segment
from accel.simulate.engine import simulate
from accel.simulate.segment_bounds import Stray, accesses_outside, extents
from tests.helpers.programs.golden import board
from tests.helpers.programs.streams import small_program, stream

VTA = board()
COPY = {"y_size": 3, "x_size": 2, "x_stride": 8}  # of 16 bytes: rows of 32 bytes, 128 apart


def program(*spans: tuple[int, int], granularity: int = 1) -> Program:
    segments = {f"s{begin}": Segment(f"s{begin}", begin, (end - begin,), "uint8") for begin, end in spans}
    return replace(small_program(), segments=segments, granularity=granularity)


def test_rows_may_lie_in_segments_of_their_own():
    decoded = stream(VTA, [("load_inp", COPY)])
    assert list(accesses_outside(boxes_of(decoded), extents(program((0, 32), (128, 160), (256, 288))))) == []
    assert list(accesses_outside(boxes_of(decoded), extents(program((0, 288))))) == []


def test_the_row_that_leaves_its_segment_is_named():
    decoded = stream(VTA, [("load_inp", {}), ("load_inp", COPY)])
    assert boxes_of(decoded).instruction.tolist() == [1]
    assert list(accesses_outside(boxes_of(decoded), extents(program((0, 32), (128, 159), (256, 288))))) == [
        (0, 159, 160)
    ]


def test_segments_side_by_side_are_one_stretch():
    decoded = stream(VTA, [("load_inp", COPY)])
    assert list(accesses_outside(boxes_of(decoded), extents(program((0, 144), (144, 288))))) == []


def test_a_segment_within_another_changes_nothing():
    inside = extents(program((0, 40), (8, 16), (60, 70)))
    assert list(inside.gaps(0, 70)) == [(40, 60)]


def test_what_lies_between_segments_is_named():
    inside = extents(program((10, 20), (30, 40)))
    assert list(inside.gaps(0, 50)) == [(0, 10), (20, 30), (40, 50)]
    assert list(inside.gaps(12, 18)) == []
    assert list(inside.gaps(15, 35)) == [(20, 30)]
    assert list(inside.gaps(40, 41)) == [(40, 41)]


def test_many_rows_are_looked_at_in_parts(monkeypatch):
    monkeypatch.setattr("accel.simulate.segment_bounds._ROWS", 7)
    decoded = stream(VTA, [("load_inp", COPY)] * 50 + [("load_inp", COPY | {"dram_base": 1})])
    inside = extents(program((0, 32), (128, 160), (256, 288)))
    wrong = [(50, 32, 48), (50, 160, 176), (50, 288, 304)]
    assert list(accesses_outside(boxes_of(decoded), inside)) == wrong
    assert list(accesses_outside(boxes_of(stream(VTA, [("load_inp", COPY)] * 50)), inside)) == []


def test_a_program_that_leaves_its_segments_is_refused():
    base = small_program()
    x = {"x": np.zeros((4, 16), np.int8)}
    short = replace(base, segments=base.segments | {"sum": Segment("sum", 512, (3, 16), "int8")})
    detail = r"launch first: instruction 3 \(store_out\): it writes DRAM bytes 560 to 576, which no segment holds"
    with pytest.raises(SimulationError, match=detail) as caught:
        simulate(short, x)
    assert (caught.value.kind, caught.value.instruction) == ("dram-range", 3)
    moved = replace(base, segments=base.segments | {"microops": Segment("microops", 260, (1,), "uint32")})
    with pytest.raises(SimulationError, match=r"instruction 0 \(load_uop\): it reads DRAM bytes 256 to 260"):
        simulate(moved, x)


def test_where_segments_are_known_by_pages_a_page_may_be_written_and_anything_read():
    base = small_program()
    x = {"x": np.zeros((4, 16), np.int8)}
    segments = base.segments | {"microops": Segment("microops", 3072, (1,), "uint32")}
    pages = replace(base, segments=segments, granularity=1024)
    warned = simulate(pages, x).hazards.unwritten
    assert [(read.instruction, read.memory, read.begin) for read in warned][:1] == [(0, "dram", 256)]


def test_zeros_may_be_written_where_segments_are_known_by_pages():
    base = small_program()
    segments = base.segments | {
        name: replace(base.segments[name], address=at) for name, at in (("x", 3072), ("y", 2048))
    }
    segments = {n: s for n, s in segments.items() if n != "sum"} | {"wide": Segment("wide", 0, (4, 16), "int32")}
    steps = tuple(replace(step, outputs=()) for step in base.steps[1:3])
    quiet = replace(base, segments=segments, steps=steps, inputs=(), outputs=(), granularity=256)
    quiet = replace(quiet, image={"microops": base.image["microops"], "wide": np.full((4, 16), -2, np.int32)})
    assert simulate(replace(quiet, steps=steps[:1]), {}).strays == (Stray(3, 512, 576),)
    zeros = replace(quiet, image=quiet.image | {"wide": np.full((4, 16), -1, np.int32)}, steps=steps[:1])
    assert simulate(zeros, {}).strays == ()


def test_a_program_without_segments_is_bound_by_the_addresses_alone():
    words = small_program().words
    bare = replace(small_program(), segments={}, image={}, inputs=(), outputs=(), words=words)
    bare = replace(bare, steps=tuple(s for s in bare.steps if hasattr(s, "count")))
    assert simulate(bare, {}).hazards is None
