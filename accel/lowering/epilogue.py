"""What of a composite's epilogue the accelerator does, and how its result leaves."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from accel.accelerator.document import Accelerator, Operator
from accel.lowering.capabilities import Capabilities
from accel.lowering.composite import Composite
from accel.lowering.geometry import Epilogue, EpilogueOp, Shifting, Start
from accel.lowering.nearest import no_narrow_store

_PLANES = 4  # bytes of an accumulator
_PLANE_SHIFT = 8
_LOWEST = -128
_MULTIPLICATIONS = ("multiply", "multiply_tensor")
_TENSOR_STEPS = {"add_tensor": "addition of a tensor", "multiply_tensor": "multiplication by a tensor"}

Steps = tuple[tuple[EpilogueOp, int], ...]


@dataclass(frozen=True)
class Ending:
    """The epilogue on the accelerator, and why the host does the rest; ``host_reason`` is empty where it has none."""

    epilogue: Epilogue
    host_reason: str = ""


def plan_ending(composite: Composite, able: Capabilities) -> Ending | str:
    """How the composite ends: on the accelerator if it can, else with its int32 result on the host.

    Of the ways to begin the accumulators the first is taken that leaves least to the host. A string says why nothing
    is possible.
    """
    starts = _starts(able)
    if not starts:
        return f"{able.accelerator.title} can neither clear its accumulators nor load them"
    refused = _undeclared(composite, able.accelerator)
    if not refused:
        wholes = [_whole(composite, start, able) for start in starts]
        whole = next((found for found in wholes if isinstance(found, Epilogue)), None)
        if whole is not None:
            return Ending(whole)
        refused = next(reason for reason in wholes if isinstance(reason, str))
    wides = [_wide(composite, start, able) for start in starts]
    wide = next((found for found in wides if isinstance(found, Epilogue)), None)
    if wide is not None:
        return Ending(wide, refused if composite.narrow else "")
    obstacle = next(reason for reason in wides if isinstance(reason, str))
    without = _without_bias(composite, starts, able)
    if without is not None:
        return Ending(without, refused if composite.narrow else obstacle)
    return refused if obstacle == refused or not composite.narrow else f"{refused}; {obstacle}"


def _starts(able: Capabilities) -> tuple[Start, ...]:
    """The ways to give the accumulators their first value; zeros come first, as rounding then needs no tensor."""
    loaded = able.load(able.gemm.dst.memory.name, able.gemm.dst.memory.dtype) is not None
    found: list[Start] = ["zero"] if able.gemm.zero is not None else []
    return (*found, "bias") if loaded else tuple(found)


def _undeclared(composite: Composite, accelerator: Accelerator) -> str:
    """Why the document does not let the whole composite go at once; empty where it does."""
    wanted = operators(composite)
    declared = [declared.operators for declared in accelerator.composites]
    if not declared or wanted in declared:
        return ""
    return f"{accelerator.title} declares no composite of {' + '.join(wanted)}"


def operators(composite: Composite) -> tuple[Operator, ...]:
    """The composite in the terms of a document's ``composites``."""
    found: list[Operator] = [composite.op]  # type: ignore[list-item]
    if composite.has_bias:
        found.append("bias")
    if composite.narrow:
        found += ["requantize", "clip"]
    return tuple(found)


def _whole(composite: Composite, start: Start, able: Capabilities) -> Epilogue | str:
    """The whole epilogue on the accelerator, or why it cannot be."""
    if not composite.narrow:
        return _wide(composite, start, able)
    reason, bounds = "", bounds_of(composite)
    for epilogue in narrowings(composite, start):
        if able.store("int8", epilogue.scaling) is None:
            continue
        found = _with_bias(composite, epilogue, able)
        if isinstance(found, Epilogue):
            return found
        if epilogue.scaling is None or epilogue.scaling.low == bounds[0]:
            reason = reason or found
    return reason or no_narrow_store(bounds, able)


def bounds_of(composite: Composite) -> tuple[int, int]:
    """What a narrow result is clipped to."""
    if composite.scaling is not None:
        return composite.scaling.low, composite.scaling.high
    values = dict(composite.steps)
    return values["max"], values["min"]


def narrowings(composite: Composite, start: Start) -> Iterator[Epilogue]:
    """The ways from int32 to int8, before there is a bias: all of it in the store, or steps and then a store.

    A lower bound of 0 may come first, where the store's own is lower: both kinds of rounding keep the order of numbers,
    and 0 as it is.
    """
    relu: tuple[tuple[EpilogueOp, int], ...] = (("max", 0),)
    if composite.scaling is not None:
        yield Epilogue(composite.steps, start=start, scaling=composite.scaling)
        if composite.scaling.low == 0:
            yield Epilogue((*composite.steps, *relu), start=start, scaling=replace(composite.scaling, low=_LOWEST))
        return
    yield Epilogue(composite.steps, start=start)
    first, last = _parts(composite.steps)
    shifting = _shifting(last, bounds_of(composite))
    if shifting is None:
        return
    half = last[: int(last[0][0] == "add")]
    for low, more in ((shifting.low, ()), *([(_LOWEST, relu)] if shifting.low == 0 else [])):
        if half and half[0][1] == 1 << shifting.shift >> 1:
            yield Epilogue((*first, *more), start=start, scaling=replace(shifting, low=low, rounds=True))
        yield Epilogue((*first, *half, *more), start=start, scaling=replace(shifting, low=low))


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


def _wide(composite: Composite, start: Start, able: Capabilities) -> Epilogue | str:
    """The int32 accumulators as they are, in one piece or as byte planes; or why they cannot leave."""
    plain = _leaving(start, able)
    return plain if isinstance(plain, str) else _with_bias(composite, plain, able)


def _leaving(start: Start, able: Capabilities) -> Epilogue | str:
    if able.store("int32") is not None:
        return Epilogue((), start=start, result="int32")
    if able.planes:
        return Epilogue((), planes=_PLANES, start=start)
    return f"{able.accelerator.title} cannot store its int32 accumulators"


def _without_bias(composite: Composite, starts: tuple[Start, ...], able: Capabilities) -> Epilogue | None:
    """The int32 sums without the bias, which the host adds; None where they need one for other reasons."""
    if "zero" not in starts or not composite.has_bias or able.offset:
        return None
    found = _leaving("zero", able)
    return found if isinstance(found, Epilogue) else None


def _with_bias(composite: Composite, epilogue: Epilogue, able: Capabilities) -> Epilogue | str:
    """The epilogue with the bias added, where the accumulators do not begin as it; rounding may join it.

    Data that are more than the model's by an offset need a bias to take that back.
    """
    steps: list[tuple[EpilogueOp, int]] = list(epilogue.steps)
    contracts = composite.op != "add"
    biased = composite.has_bias or (able.offset and contracts)
    rounds = bool(steps) and steps[0][0] == "add"
    if rounds and (biased or epilogue.start == "bias" or able.step(*steps[0]) is None):
        steps[0] = ("add_tensor", 0)
    elif biased:
        steps.insert(0, ("add_tensor", 0))
    if epilogue.start == "bias" and steps and steps[0] == ("add_tensor", 0):
        del steps[0]
    for number, (name, immediate) in enumerate(steps):
        if name == "multiply" and able.step(name, immediate) is None and able.step("multiply_tensor", 0) is not None:
            steps[number] = ("multiply_tensor", 0)
        elif able.step(name, immediate) is None:
            wanted = _TENSOR_STEPS.get(name, f"{name} by {immediate}")
            return f"{able.accelerator.title} has no {wanted} on its accumulators"
    return replace(epilogue, steps=tuple(steps))
