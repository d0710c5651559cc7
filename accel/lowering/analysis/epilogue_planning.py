"""What of a composite's epilogue the accelerator does, and how its result leaves."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import get_args

from tvm import relax

from accel.accelerator.document import Accelerator, Operator
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.analysis.composite import CompositeRegion, clip_bounds, read_composite
from accel.lowering.analysis.store_mismatch import store_mismatch
from accel.region.epilogue import INT8, TENSOR_OPS, ChannelFactors, Epilogue, EpilogueOp, Relu, Shifting, Start, Steps

_PLANES = 4  # bytes of an accumulator
_MULTIPLICATIONS = ("multiply", "multiply_tensor")
_CLIP: tuple[EpilogueOp, EpilogueOp] = ("max", "min")  # the order in which they end an epilogue
CONTRACTED = ("conv2d", "dense", "matmul")
_WIDTHS = (64, 48)  # bits of products that are wider than sums
_RELU: Steps = (("max", 0),)
_RELUS: tuple[Relu, ...] = ("sums", "rounded", "clipped", "narrowed")  # of a store that shifts


@dataclass(frozen=True)
class EpiloguePlan:
    """The epilogue on the accelerator, and why the host does the rest; ``host_reason`` is empty where it has none.

    The host requantises sums that leave whole, and clips int8.
    """

    epilogue: Epilogue
    host_reason: str = ""


def plan_epilogue(composite: CompositeRegion, capabilities: Capabilities) -> EpiloguePlan | str:
    """How the composite ends: on the accelerator if it can, else with its int32 result on the host.

    Of the ways to begin the accumulators the first is taken that leaves least to the host. A string says why nothing
    is possible, by the way that asks least: sums that begin as the bias need nothing to add it.
    """
    starts = _initial_values(capabilities)
    if not starts:
        return f"{capabilities.accelerator.title} can neither clear its accumulators nor load them"
    refused = _undeclared(composite, capabilities.accelerator)
    if not refused:
        wholes = [_whole(composite, start, capabilities) for start in starts]
        whole = next((found for found in wholes if isinstance(found, Epilogue)), None)
        if whole is not None:
            return EpiloguePlan(whole)
        refused = next(reason for reason in reversed(wholes) if isinstance(reason, str))
    loose = None if _undeclared(composite, capabilities.accelerator) else _unclipped(composite, starts, capabilities)
    if loose is not None:
        return EpiloguePlan(loose, refused)
    wides = [_wide(composite, start, capabilities) for start in starts]
    wide = next((found for found in wides if isinstance(found, Epilogue)), None)
    if wide is not None:
        return EpiloguePlan(wide, refused if composite.narrow else "")
    obstacle = next(reason for reason in reversed(wides) if isinstance(reason, str))
    without = _without_bias(composite, starts, capabilities)
    if without is not None:
        return EpiloguePlan(without, refused if composite.narrow else obstacle)
    return refused if obstacle == refused or not composite.narrow else f"{refused}; {obstacle}"


def clips_apart(capabilities: Capabilities, function: relax.Function) -> bool:
    """Whether all of a composite goes on the accelerator but what its results are clipped to."""
    composite = read_composite(function)
    plan = plan_epilogue(composite, capabilities) if composite.narrow else ""
    return isinstance(plan, EpiloguePlan) and bool(plan.host_reason) and not plan.epilogue.wide


def _initial_values(capabilities: Capabilities) -> tuple[Start, ...]:
    """The ways to give the accumulators their first value; zeros come first, as rounding then needs no tensor."""
    loaded = (
        capabilities.load(capabilities.gemm.dst.memory.name, capabilities.gemm.dst.memory.dtype_in_dram) is not None
    )
    gemm = capabilities.gemm
    found: list[Start] = ["zero"] if gemm.zero is not None or gemm.overwrites else []
    return (*found, "bias") if loaded else tuple(found)


def _undeclared(composite: CompositeRegion, accelerator: Accelerator) -> str:
    """Why the document does not let the whole composite go at once; empty where it does."""
    wanted = composite_operators(composite)
    declared = [declared.operators for declared in accelerator.composites]
    if not declared or wanted in declared:
        return ""
    return f"{accelerator.title} declares no composite of {' + '.join(wanted)}"


def composite_operators(composite: CompositeRegion) -> tuple[Operator, ...]:
    """The composite in the terms of a document's ``composites``."""
    op = "dense" if composite.op == "matmul" else composite.op  # whatever its weights are
    found: list[Operator] = [op]  # type: ignore[list-item]
    if composite.has_bias and not composite.bias_rounds:
        found.append("bias")
    if composite.narrow:
        found += ["requantize", "clip"]
    return tuple(found)


def _whole(composite: CompositeRegion, start: Start, capabilities: Capabilities) -> Epilogue | str:
    """The whole epilogue on the accelerator, or why it cannot be."""
    if not composite.narrow:
        return _wide(composite, start, capabilities)
    reason, bounds = "", clip_bounds(composite)
    by_channel = [
        each
        for each in (capabilities.channel_factors if composite.op in CONTRACTED else ())
        # a bias in the store is a constant, and in the place of one that the sums begin as
        if not each.bias or (start == "zero" and composite.op != "matmul")
    ]
    for epilogue in narrowing_epilogues(composite, start, by_channel):
        if capabilities.store("int8", epilogue.scaling) is None:
            continue
        found = with_bias(composite, epilogue, capabilities)
        if isinstance(found, Epilogue):
            return found
        if epilogue.scaling is None or epilogue.scaling.low == bounds[0]:
            reason = reason or found
    return reason or store_mismatch(bounds, capabilities)


def _unclipped(composite: CompositeRegion, starts: tuple[Start, ...], capabilities: Capabilities) -> Epilogue | None:
    """The epilogue with wider bounds, so that the host needs only to clip int8; None if there is none."""
    low, high = clip_bounds(composite) if composite.narrow else INT8
    for bounds in dict.fromkeys(((low, INT8[1]), (INT8[0], high), INT8)):
        if bounds == (low, high):
            continue
        steps = tuple((name, dict(zip(_CLIP, bounds, strict=True)).get(name, value)) for name, value in composite.steps)
        scaling = composite.scaling and replace(composite.scaling, low=bounds[0], high=bounds[1])
        for start in starts:
            found = _whole(replace(composite, steps=steps, scaling=scaling), start, capabilities)
            if isinstance(found, Epilogue):
                return found
    return None


def narrowing_epilogues(
    composite: CompositeRegion, start: Start, by_channel: Sequence[ChannelFactors] = ()
) -> Iterator[Epilogue]:
    """The ways from int32 to int8, before there is a bias: all of it in the store, or steps and then a store.

    ``by_channel`` are where stores may read a multiplier of each channel.

    A lower bound of 0 may come first, where the store's own is lower: both kinds of rounding keep the order of numbers,
    and 0 as it is.
    """
    scaling = composite.scaling
    if scaling is not None:
        yield Epilogue(composite.steps, start=start, scaling=scaling)
        if scaling.low == 0 and scaling.gelu is None:  # a relu stands before the function
            yield Epilogue((*composite.steps, *_RELU), start=start, scaling=replace(scaling, low=INT8[0]))
            for relu in get_args(Relu)[1:]:
                yield Epilogue(composite.steps, start=start, scaling=replace(scaling, low=INT8[0], relu=relu))
        return
    yield Epilogue(composite.steps, start=start)
    first, last = _parts(composite.steps)
    shifting = None if ("narrow", 0) in last else _shifting(last, clip_bounds(composite))
    if shifting is not None:
        yield from _in_store(first, last, shifting, start)
        if first and first[-1][0] == "multiply":
            yield from _in_store(first[:-1], last, replace(shifting, factor=first[-1][1]), start)
    yield from _widely_shifted(composite, start, by_channel)
    yield from _by_channel(composite, start, by_channel)
    yield from _clipped_again(composite, start)


def _by_channel(composite: CompositeRegion, start: Start, by_channel: Sequence[ChannelFactors]) -> Iterator[Epilogue]:
    """The ways to multiply in the store by what it reads for each channel, with a product as wide as the sums.

    Where nothing is multiplied channels have a factor of one, in a product of any width.
    """
    first, last = _parts(composite.steps)
    shifting = None if ("narrow", 0) in last else _shifting(last, clip_bounds(composite))
    if shifting is None:
        return
    rounds = last[0][0] == "add"
    products = (0,) if first else (0, *_WIDTHS)
    for channels, product, narrows in itertools.product(by_channel, products, (False, True)):
        if not narrows or product:
            way = replace(shifting, rounds=rounds, channels=channels, product=product, narrows=narrows)
            yield from _with_relus(Epilogue(first[:-1], start=start, scaling=way), way)


def _with_relus(epilogue: Epilogue, way: Shifting) -> Iterator[Epilogue]:
    """An epilogue that ends in a store, and, where that clips to 0, those whose store has a relu for it."""
    yield epilogue
    if way.low == 0:
        yield from (replace(epilogue, scaling=replace(way, low=INT8[0], relu=relu)) for relu in _RELUS)


def _widely_shifted(
    composite: CompositeRegion, start: Start, by_channel: Sequence[ChannelFactors]
) -> Iterator[Epilogue]:
    """The ways to do a wide product in the store, or in an instruction that clips before it narrows."""
    steps, narrow = composite.steps, ("narrow", 0)
    if narrow not in steps:
        return
    begin, end = next(at for at, (name, _) in enumerate(steps) if name == "widen"), steps.index(narrow)
    (_, bits), (name, factor), *rest = steps[begin:end]
    if len(steps) == end + 1 + len(_CLIP):
        shifting = _shifting((*rest, *steps[end + 1 :]), clip_bounds(composite))
        rounds = any(step == "add" for step, _ in rest)
        if shifting is not None:
            wide = replace(shifting, product=bits, rounds=rounds)
            factors = [replace(wide, factor=factor)] if name == "multiply" else []
            factors += [replace(wide, channels=channels) for channels in by_channel]
            for way, narrows in itertools.product(factors, (False, True)):
                way = replace(way, narrows=narrows)  # noqa: PLW2901
                yield from _with_relus(Epilogue(steps[:begin], start=start, scaling=way), way)
    clip = tuple(zip(_CLIP, INT8, strict=True))
    for bounds in (steps[end + 1 :], clip):
        tighter = () if bounds == steps[end + 1 :] else steps[end + 1 :]
        yield Epilogue((*steps[:end], *bounds, narrow, *tighter), start=start)


def _in_store(first: Steps, last: Steps, shifting: Shifting, start: Start) -> Iterator[Epilogue]:
    """The ways to do ``last`` in the store, after ``first``; a relu may stand anywhere: 0 stays 0, order is kept."""
    half = last[: int(last[0][0] == "add")]
    rounding = bool(half) and half[0][1] == 1 << shifting.shift >> 1
    inside = half if shifting.factor == 1 else ()  # what rounds can be a step unless a product stands before it
    ways: list[tuple[Steps, Shifting]] = [((), shifting)]
    if shifting.low == 0:
        ways.append((_RELU, replace(shifting, low=INT8[0])))
        ways += [((), replace(shifting, low=INT8[0], relu=relu)) for relu in _RELUS]
    for more, way in ways:
        if rounding:
            yield Epilogue((*first, *more), start=start, scaling=replace(way, rounds=True))
        if inside == half:
            yield Epilogue((*first, *half, *more), start=start, scaling=way)


def _clipped_again(composite: CompositeRegion, start: Start) -> Iterator[Epilogue]:
    """Steps that clip to int8 and then to bounds within, as an instruction may do the first with what is before."""
    clip, before = composite.steps[-2:], composite.steps[:-2]
    if clip != tuple(zip(_CLIP, INT8, strict=True)):
        whole: Steps = (("max", INT8[0]), ("min", INT8[1]))
        tighter = tuple(step for step, widest in zip(clip, whole, strict=True) if step != widest)
        yield Epilogue((*before, *whole, *tighter), start=start)


def _parts(steps: Steps) -> tuple[Steps, Steps]:
    """What ends with a multiplication, and what follows it."""
    cut = 1 + max((at for at, (name, _) in enumerate(steps) if name in _MULTIPLICATIONS), default=-1)
    return steps[:cut], steps[cut:]


def _shifting(last: Steps, bounds: tuple[int, int]) -> Shifting | None:
    """The steps that end an epilogue as one store, its rounding aside; None where it does otherwise."""
    names = [name for name, _ in last]
    shift = dict(last).get("shift_right", 0)
    plain = names[:-2] in ([], ["shift_right"], ["add", "shift_right"])
    return Shifting(shift, *bounds, rounds=False) if plain and shift >= 0 else None


def _wide(composite: CompositeRegion, start: Start, capabilities: Capabilities) -> Epilogue | str:
    """The int32 accumulators as they are, in one piece or as byte planes; or why they cannot leave."""
    plain = _result_text(start, capabilities)
    return plain if isinstance(plain, str) else with_bias(composite, plain, capabilities)


def _result_text(start: Start, capabilities: Capabilities) -> Epilogue | str:
    if capabilities.store("int32") is not None:
        return Epilogue((), start=start, result="int32")
    if capabilities.planes:
        return Epilogue((), planes=_PLANES, start=start)
    return f"{capabilities.accelerator.title} cannot store its int32 accumulators"


def _without_bias(composite: CompositeRegion, starts: tuple[Start, ...], capabilities: Capabilities) -> Epilogue | None:
    """The int32 sums without the bias, which the host adds; None where they need one for other reasons."""
    if "zero" not in starts or not composite.has_bias or capabilities.offset:
        return None
    found = _result_text("zero", capabilities)
    return found if isinstance(found, Epilogue) else None


def with_bias(composite: CompositeRegion, epilogue: Epilogue, capabilities: Capabilities) -> Epilogue | str:
    """The epilogue with the bias added, where the accumulators do not begin as it, in steps that instructions do.

    A string says which step of the plainest way nothing does.
    """
    refused = ""
    for steps in _biased(composite, epilogue, capabilities):
        groups = steps_per_instruction(steps, capabilities)
        if not isinstance(groups, str):
            return replace(epilogue, steps=steps, groups=groups)
        refused = refused or groups
    return refused


def _biased(composite: CompositeRegion, epilogue: Epilogue, capabilities: Capabilities) -> Iterator[Steps]:
    """The ways to add the bias and to multiply: what rounds joins the bias or stays, a factor is a tensor's too.

    Data that are more than the model's by an offset need a bias to take that back. Where nothing shifts by itself,
    each channel is multiplied by a tensor of ones.
    """
    contracts = composite.op in CONTRACTED
    biased = composite.has_bias or (capabilities.offset and contracts)
    elsewhere = epilogue.start == "bias" or epilogue.stores_bias
    bias: Steps = (("add_tensor", 0),) if biased and not elsewhere else ()
    ways: list[Steps] = [(*bias, *epilogue.steps)]
    rounds = bool(epilogue.steps) and epilogue.steps[0][0] == "add"
    if rounds and (biased or elsewhere or capabilities.step(*epilogue.steps[0]) is None):
        joined: Steps = () if elsewhere else (("add_tensor", 0),)
        ways.insert(0, (*joined, *epilogue.steps[1:]))
    yield from ways
    for way in ways if contracts else ():
        loaded: Steps = tuple(("multiply_tensor", 0) if step[0] == "multiply" else step for step in way)
        if loaded != way:
            yield loaded
    if contracts and composite.narrow and not any(name in _MULTIPLICATIONS for name, _ in composite.steps):
        for way in ways:
            added = int(way[:1] == (("add_tensor", 0),))
            yield (*way[:added], ("multiply_tensor", 0), *way[added:])


def steps_per_instruction(steps: Steps, capabilities: Capabilities) -> tuple[int, ...] | str:
    """How many of the steps each instruction does, of the fewest that do all; empty where each does one.

    A string says which step nothing does.
    """
    ways: list[tuple[int, ...] | None] = [(), *[None] * len(steps)]
    for end in range(1, len(steps) + 1):
        for begin in range(end) if capabilities.fuses else (end - 1,):
            way, group = ways[begin], steps[begin:end]
            if (
                way is None
                or sum(name in TENSOR_OPS for name, _ in group) > 1
                or capabilities.steps(group).pragma is None
            ):
                continue
            known = ways[end]
            if known is None or len(way) + 1 < len(known):
                ways[end] = (*way, end - begin)
    whole = ways[-1]
    if whole is None:
        return capabilities.lacks(*steps[max(at for at, way in enumerate(ways) if way is not None)])
    return whole if len(whole) < len(steps) else ()
