"""What of a composite's epilogue the accelerator does, and how its result leaves."""

from dataclasses import dataclass, replace

from accel.accelerator.document import Accelerator, Operator
from accel.lowering.capabilities import Capabilities
from accel.lowering.composite import Composite
from accel.lowering.geometry import Epilogue, EpilogueOp, Start

_PLANES = 4  # bytes of an accumulator
_PLANE_SHIFT = 8


@dataclass(frozen=True)
class Ending:
    """The epilogue on the accelerator, and why the host does the rest; ``host_reason`` is empty where it has none."""

    epilogue: Epilogue
    host_reason: str = ""


def plan_ending(composite: Composite, able: Capabilities) -> Ending | str:
    """How the composite ends: on the accelerator if it can, else with its int32 result on the host.

    A string says why neither is possible.
    """
    start = _start(able)
    if start is None:
        return f"{able.accelerator.title} can neither clear its accumulators nor load them"
    refused = _undeclared(composite, able.accelerator)
    if not refused:
        whole = _whole(composite, start, able)
        if isinstance(whole, Epilogue):
            return Ending(whole)
        refused = whole
    wide = _wide(composite, start, able)
    if wide is None:
        return refused or f"{able.accelerator.title} cannot store its int32 accumulators"
    return Ending(wide, refused if composite.narrow else "")


def _start(able: Capabilities) -> Start | None:
    if able.gemm.zero is not None:
        return "zero"
    return "bias" if able.load(able.gemm.dst.memory.name, able.gemm.dst.memory.dtype) is not None else None


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
    title = able.accelerator.title
    if not composite.narrow:
        return _wide(composite, start, able) or f"{title} cannot store its int32 accumulators"
    if composite.scaling is not None:
        if able.store("int8", composite.scaling) is None:
            return f"{title} has no store that scales its accumulators by a float"
        return _with_bias(composite, Epilogue((), start=start, scaling=composite.scaling), able)
    if able.store("int8") is None:
        return f"{title} has no store that narrows its accumulators to int8"
    return _with_bias(composite, Epilogue(composite.steps, start=start), able)


def _wide(composite: Composite, start: Start, able: Capabilities) -> Epilogue | None:
    """The int32 accumulators as they are: in one piece, or as byte planes."""
    if able.store("int32") is not None:
        found = _with_bias(composite, Epilogue((), start=start, result="int32"), able)
    elif able.planes:
        found = _with_bias(composite, Epilogue((), planes=_PLANES, start=start), able)
    else:
        return None
    return found if isinstance(found, Epilogue) else None


def _with_bias(composite: Composite, epilogue: Epilogue, able: Capabilities) -> Epilogue | str:
    """The epilogue with the bias added, where the accumulators do not begin as it; rounding may join it."""
    steps: list[tuple[EpilogueOp, int]] = list(epilogue.steps)
    rounds = bool(steps) and steps[0][0] == "add" and composite.op != "add"
    if rounds and (composite.has_bias or epilogue.start == "bias" or able.step(*steps[0]) is None):
        steps[0] = ("add_tensor", 0)
    elif composite.has_bias:
        steps.insert(0, ("add_tensor", 0))
    if epilogue.start == "bias" and steps and steps[0] == ("add_tensor", 0):
        del steps[0]
    for name, immediate in steps:
        if able.step(name, immediate) is None:
            wanted = "addition of a tensor" if name == "add_tensor" else f"{name} by {immediate}"
            return f"{able.accelerator.title} has no {wanted} on its accumulators"
    return replace(epilogue, steps=tuple(steps))
