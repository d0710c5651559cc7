"""A trial: a region compiled by itself, as far as its instructions, to be timed."""

from tvm import ir, transform

from accel.accelerator.document import Accelerator
from accel.lowering.allocate import allocate
from accel.lowering.attributes import REGION, Region, dump_region
from accel.lowering.capabilities import Capabilities
from accel.lowering.expressions import region_function
from accel.lowering.flatten import flatten
from accel.lowering.inject import inject
from accel.lowering.region_code import Words
from accel.lowering.region_object import region_object
from accel.lowering.schedule import schedule
from accel.lowering.survey import instances, survey
from accel.lowering.sync import synchronise

_NAME = "trial"
_APART = 1 << 12  # units of DRAM between tensors: no copy then shares a page with another
_MOST = 100_000  # instructions


def trial_words(region: Region, able: Capabilities) -> Words | None:
    """The instruction words (n, words_each) of a region whose tensors lie anywhere; None if there are too many."""
    accelerator = able.accelerator
    function = region_function(region, able.gemm).with_attr("global_symbol", _NAME)
    module = ir.IRModule({_NAME: function.with_attr(REGION, dump_region(region))})
    with transform.PassContext():  # what follows a job's passes does not follow these
        for stage in (schedule, flatten, inject, synchronise):
            module = stage(module, accelerator)
        if _count(module, accelerator) > _MOST:
            return None
        made = region_object(allocate(module, accelerator)[_NAME], accelerator)
    bases = [place * _APART for place in range(len(made.units) + bool(made.tables))]
    words, _ = made.code.link(bases, accelerator)
    return words


def _count(module: ir.IRModule, accelerator: Accelerator) -> int:
    return sum(instances(site.loops) for site in survey(module[_NAME], accelerator).sites)
