"""Borders in DRAM: results that lie within what a reader wants around them, so that no host pads between two launches.

The border is in DRAM before the program runs, the launch stores into what it encloses, and nobody writes it. Who wants
less of it, or nothing, reads a window.
"""

from collections.abc import Mapping

from tvm import ir, relax

from accel.accelerator.contraction import Contraction
from accel.lowering.analysis.composite import called_region, is_composite_call
from accel.lowering.analysis.image_padding import Padding, padding_of
from accel.lowering.ir.function_attributes import JOINED
from accel.lowering.kinds.registry import kind_of
from accel.region.elementwise import Elementwise
from accel.region.kinds import Region
from accel.region.pooling import Pooling
from accel.region.shapes import Convolution


def borders_of(module: ir.IRModule, gemm: Contraction, *, by_programs: bool = False) -> dict[relax.Var, Padding]:
    """The border of each result of a region that has one, by the variable of ``main``.

    ``module`` is as partition left it; ``by_programs`` says that vector programs may read what is padded. Of several
    values that readers want around a result most of them decide; the others have the host pad.
    """
    made, wanted = _regions_and_wishes(module, gemm, by_programs=by_programs)
    return {var: _enclosing(wanted[var]) for var, region in made.items() if var in wanted and _can(region)}


def _can(region: Region) -> bool:
    """Whether the stores of a region leave a border alone: its tiles are no larger than its result, an image."""
    result, tiling, shape = region.shape.result, region.tiling, region.shape
    whole = (tiling.out_pitch_h, tiling.out_pitch_w) == (result.height, result.width)
    matrix = isinstance(shape, Convolution) and shape.of_rows
    return whole and not matrix and not region.host_reason and not region.epilogue.wide


def _enclosing(wanted: list[Padding]) -> Padding:
    """The least border that has the value that most of the readers want, and room for each of these."""
    values = [padding.value for padding in wanted]
    value = max(values, key=values.count)
    sides = [padding.sides for padding in wanted if padding.value == value]
    top, left, bottom, right = (max(side) for side in zip(*sides, strict=True))
    return Padding((top, left, bottom, right), value)


def _regions_and_wishes(
    module: ir.IRModule, gemm: Contraction, *, by_programs: bool
) -> tuple[dict[relax.Var, Region], dict[relax.Var, list[Padding]]]:
    """The regions of ``main`` by their results, and what those that read a value as it lies want around it.

    These are regions, and vector programs that read what is padded.
    """
    values = {binding.var: binding.value for block in module["main"].body.blocks for binding in block.bindings}
    read = {each for value in values.values() if called_region(module, value) for each in value.args}
    made: dict[relax.Var, Region] = {}
    wanted: dict[relax.Var, list[Padding]] = {}
    for var, value in values.items():
        region = called_region(module, value)
        if region is None:
            around = padding_of(value) if by_programs and var not in read else None
            if around is not None and isinstance(value, ir.Call):
                wanted.setdefault(value.args[0], []).append(around)
            continue
        made[var] = region
        if not _reads_results(region, gemm):
            continue
        own = kind_of(region).padding_of_data(region)
        for place, operand in enumerate(_operands(module, value, values)):
            value_read = values.get(operand) if isinstance(operand, relax.Var) else None
            around = padding_of(value_read)
            if around is not None and isinstance(value_read, ir.Call):
                wanted.setdefault(value_read.args[0], []).append(around)
            elif place == 0 and any(own.sides):
                wanted.setdefault(operand, []).append(own)
    return made, wanted


def _reads_results(region: Region, gemm: Contraction) -> bool:
    """Whether a region reads images of results as they lie."""
    shape = region.shape
    if isinstance(shape, Convolution):
        return shape.unfolded is None and gemm.results_are_data
    return gemm.results_are_data or (isinstance(shape, Pooling | Elementwise) and shape.direct)


def _operands(module: ir.IRModule, call: ir.Call, values: Mapping[relax.Var, relax.Expr]) -> list[relax.Expr]:
    """What a region reads, the data first; those of a contraction that an addition takes in are its own."""
    for place, operand in enumerate(call.args):
        joined = values.get(operand) if isinstance(operand, relax.Var) else None
        if isinstance(joined, ir.Call) and is_composite_call(module, joined) and JOINED in module[joined.op].attrs:
            return [*joined.args, *call.args[:place], *call.args[place + 1 :]]
    return list(call.args)
