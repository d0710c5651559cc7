"""The cycles of launches for a plan: of those too large to be timed from parts of them, of small ones run as one."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from tvm import ir

from accel.accelerator.target import Target
from accel.driver.trials.region_timer import RegionTimer
from accel.errors import CyclopsError
from accel.isa.family_registry import arrangement_of, family_of, reserved_bytes
from accel.joining.joined_launches import can_join, join_launches
from accel.joining.launch_parts import MOST
from accel.lowering.codegen.program_linking import emit
from accel.lowering.codegen.region_cache import RegionCache
from accel.lowering.codegen.region_lowering import LoweredRegion
from accel.lowering.ir.function_attributes import REGION, load_region, region_functions
from accel.lowering.ir.host_runs import LaunchRun, split_main
from accel.lowering.pipeline import REGION_STAGES
from accel.program.program_model import Launch
from accel.region.kinds import AnyRegion, Region
from accel.region.shapes import Convolution
from accel.simulate.engine import simulate

CycleTimer = Callable[[AnyRegion], int | None]
"""Times a region alone; None where it cannot, or has too many instructions."""

CyclesOfTiles = Callable[[int], int | None]
"""Times so many tiles along an axis."""


def launch_cycles(region: AnyRegion, timer: CycleTimer) -> int | None:
    """Returns the cycles of a launch alone; None where they cannot be said.

    A convolution or dense layer of many tiles takes as long for each of them, but for what it loads for the first of a
    row, or of a stack of output channels. One that ``timer`` leaves takes what its parts of a few tiles do, and goes on
    as these.

    Args:
        region: after the stage ``pack``.
        timer: what times a region alone.
    """
    cycles = timer(region)
    if cycles is not None or not isinstance(region, Region):
        return cycles
    conv = region.shape
    if not isinstance(conv, Convolution) or conv.groups > 1 or conv.addend is not None:
        return None
    stacks = math.ceil(conv.out_blocks / region.tiling.out_blocks)
    rows = math.ceil(conv.out_height / region.tiling.out_rows)
    of_stacks = _line(lambda count: timer(_part(region, conv, count, rows)), stacks)
    if of_stacks is not None:
        return of_stacks.at(stacks)
    stack = _line(lambda count: timer(_part(region, conv, count, 1)), stacks)
    row = _line(lambda count: timer(_part(region, conv, 1, count)), rows)
    if stack is None or row is None:
        return None
    both = min(stack.more, row.more)  # what the first tile of a row or a stack loads is there for further ones
    return round(stack.at(stacks) + (rows - 1) * row.more + (stacks - 1) * (rows - 1) * both)


def joined_cycles(packed: ir.IRModule, target: Target, timer: RegionTimer) -> list[int] | None:
    """Returns the cycles of each launch as they run as one, those of a job's layers.

    None where the accelerator joins none, or where that is not known of all: a launch was not compiled whole, or they
    are more instructions than run as one.

    Args:
        packed: after the stage ``pack``.
        target: what it is for.
        timer: has timed the regions.
    """
    accelerator = target.accelerator
    family, runs = family_of(accelerator), [run for run in split_main(packed) if isinstance(run, LaunchRun)]
    if not can_join(accelerator, family):
        return None
    marked = region_functions(packed).items()
    regions = {name: timer.find_lowered(load_region(str(function.attrs[REGION]))) for name, function in marked}
    called = [regions[run.call.args[0]] for run in runs]
    made = [each.made for each in called if isinstance(each, LoweredRegion)]
    if len(made) < max(len(runs), 2) or sum(len(each.code.words) for each in made) > MOST:
        return None
    stages = {stage.name: stage.run for stage in REGION_STAGES}
    try:
        module = RegionCache(packed, target, stages, None, timer.lowered).lowered()
        arrange, reserved = arrangement_of(accelerator), reserved_bytes(accelerator)
        program = join_launches(emit(module, accelerator, arrange, reserved=reserved), family)
        if not any(isinstance(step, Launch) and step.joined for step in program.steps):
            return None
        results = simulate(program, {}, function=False).launches
    except CyclopsError:  # what a job would say, and a launch by itself may not
        return None
    return [result.timing.cycles for result in results if result.timing is not None]


@dataclass(frozen=True)
class _Line:
    """The cycles of ``count`` tiles along an axis, and how many more each further one takes."""

    count: int
    cycles: int
    more: float

    def at(self, count: int) -> int:
        """Returns the cycles of ``count`` tiles."""
        return round(self.cycles + (count - self.count) * self.more)


def _line(timed: CyclesOfTiles, tiles: int) -> _Line | None:
    """What some tiles of an axis take; None where not even one can be timed.

    Where there are two contexts, two tiles in turn may take unlike times, so that four are compared with two. If two
    cannot be timed they take twice what one does.
    """
    two = timed(2) if tiles > 1 else None
    four = timed(4) if two is not None and tiles > 4 else None
    if two is not None and four is not None:
        return _Line(2, two, (four - two) / 2)
    one = timed(1)
    return None if one is None else _Line(1, one, one if two is None else two - one)


def _part(region: Region, conv: Convolution, stacks: int, tiles: int) -> Region:
    """The first stacks of output channels of a launch, and the first tiles of its rows; data lie as they do."""
    blocks = min(stacks * region.tiling.out_blocks, conv.out_blocks)
    rows = min(tiles * region.tiling.out_rows, conv.out_height)
    shape = replace(conv, out_blocks=blocks)
    if rows == conv.out_height:
        return replace(region, shape=shape)
    top, left, bottom, right = conv.padding
    reached = (rows - 1) * conv.strides[0] + (conv.kernel[0] - 1) * conv.dilation[0] + 1
    height = min(max(reached - top, 1), conv.data.height)  # what lies below the part is data, not padding
    below = min(max(reached - top - height, 0), bottom)
    data = replace(conv.data, height=height)
    shape = replace(shape, data=data, out_height=rows, padding=(top, left, below, right))
    return replace(region, shape=shape, tiling=replace(region.tiling, out_pitch_h=rows))
