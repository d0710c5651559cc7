"""Ends of sums that layers do alike, whatever the scale: what their tilings are known for is found once."""

import re
from collections.abc import Iterator
from dataclasses import replace

from pydantic import TypeAdapter
from tvm import tirx

from accel.accelerator.cost_ranges import cost_fields
from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Layer
from accel.accelerator.target import Target
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.analysis.kept_answers import kept_answers
from accel.lowering.inject.operation_matching import StoreForm, matching_operations
from accel.lowering.ir.affine_nest import simplify
from accel.lowering.ir.epilogue_arithmetic import stored_value
from accel.region.epilogue import Epilogue, Scaling

_NAME = re.compile(r"[A-Za-z_][\w.]*")  # to parse a text takes ten times as long
_SCALE = 0.37109375  # a product by it is none that could be written otherwise
_Ways = tuple[tuple[int, tuple[str, ...]], ...]
_WAYS: TypeAdapter[_Ways] = TypeAdapter(_Ways)


def like_ending(epilogue: Epilogue, capabilities: Capabilities) -> Epilogue:
    """Returns the epilogue with another scale, if every layer does both by the same operations and at the same cost."""
    scaling = epilogue.scaling
    if not isinstance(scaling, Scaling) or capabilities.target.derived(_scale_has_cost):
        return epilogue
    known = capabilities.target.derived(_KnownWays)
    like = replace(scaling, scale=_SCALE)
    return replace(epilogue, scaling=like) if known.ways(scaling) == known.ways(like) else epilogue


class _KnownWays:
    """The operations that end sums as a scaling says, and the scalars that they have for it, asked once."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._known: dict[Scaling, _Ways] = {}

    def ways(self, scaling: Scaling) -> _Ways:
        """The operations, by their place among all that layers have, with their scalars."""
        if scaling not in self._known:
            kept = self._target.derived(kept_answers)
            known = kept.ask(f"ends {scaling}", lambda: _WAYS.dump_json(tuple(self._found(scaling))))
            self._known[scaling] = _WAYS.validate_json(known)
        return self._known[scaling]

    def _found(self, scaling: Scaling) -> Iterator[tuple[int, tuple[str, ...]]]:
        memory = self._target.contraction.dst.memory
        sums = tirx.decl_buffer((1,), memory.dtype, "a", scope=memory.scope)
        value = simplify(stored_value(sums[0], "int8", scaling))
        form = StoreForm.of(tirx.BufferStore(tirx.decl_buffer((1,), "int8", "d"), value, [0]))
        for place, meaning in enumerate(self._target.layers):
            if meaning.ends is not None:
                for match in matching_operations(form, [meaning.ends], self._target):
                    yield place, tuple(sorted(match.scalars))


def _scale_has_cost(target: Target) -> bool:
    """Whether what a layer costs or needs depends on a field that may be a scale."""
    accelerator = target.accelerator
    return any(_costs_by_float(layer, accelerator) for layer in accelerator.layers)


def _costs_by_float(layer: Layer, accelerator: Accelerator) -> bool:
    """Whether a layer's costs name a float, or what other fields follow from, but for what is a float itself."""
    floats = {
        name
        for name, field in cost_fields(accelerator, layer).items()
        if accelerator.field(layer, field).type == "float32"
    }
    texts = [layer.cycles or "1", layer.alone or "0", *layer.uses.values()]
    texts += [text for name, text in layer.follows.items() if accelerator.field(layer, name).type != "float32"]
    texts += [text for loop in layer.loops for text in loop.follows.values()]
    return any(name in floats for text in texts for name in _NAME.findall(text))
