"""Regions of a packed module on their way to objects: each is compiled once, and then found in a cache.

An object depends on the packed function, which says all of its region, on what the stages read of the accelerator's
document, which is nothing of how long things take, and on this compiler. Texts
are kept function by function: what a stage makes of one does not depend on the others.
"""

import textwrap
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import tvm
from pydantic import TypeAdapter
from tvm import ir, tirx
from tvm.ir.instrument import pass_instrument
from tvm_ffi import structural_equal

from accel.accelerator.target import Target
from accel.lowering.codegen.region_object import LoweredModule, RegionObject, dump_object, load_object, region_object
from accel.lowering.codegen.relocatable_code import WORD
from accel.lowering.ir.function_attributes import region_functions
from accel.util.content_cache import CacheStore, SealedCache, cache_key

_NAMELESS = "region"


def nameless_text(function: tirx.PrimFunc) -> str:
    """Returns a function as TVMScript, without the imports, under a name that is the same for all."""
    _imports, _, text = function.with_attr("global_symbol", _NAMELESS).script().partition("\n\n")
    return str(text)


def _as_member(text: str, name: str) -> str:
    """A nameless function as it stands in a module."""
    return textwrap.indent(text.replace(f"def {_NAMELESS}(", f"def {name}(", 1), "    ")


class ModuleFrame:
    """A module as TVMScript without some of its functions: the text around them, printed once with empty ones."""

    def __init__(self, module: ir.IRModule, names: Collection[str]) -> None:
        empty = tirx.PrimFunc([], tirx.Evaluate(0)).with_attr("s_tir", True)
        framed = ir.IRModule(dict(module.functions.items()), attrs=module.attrs)
        for name in names:
            framed.update_func(framed.get_global_var(name), empty.with_attr("global_symbol", name))
        self._names = sorted(names)
        self._around = []
        rest = str(framed.script())
        for name in self._names:
            before, gap, rest = rest.partition(_as_member(nameless_text(empty), name))
            assert gap, name
            self._around.append(before)
        self._end = rest

    def filled(self, functions: Mapping[str, str]) -> str:
        """Returns the module's text with these functions, which are nameless, by name."""
        members = [_as_member(functions[name], name) for name in self._names]
        pieces = [piece for pair in zip(self._around, members, strict=True) for piece in pair]
        return "".join([*pieces, self._end])


@dataclass(frozen=True)
class StageText:
    """A function as a stage left it, nameless, and as each TVM pass within the stage did.

    ``passes`` are names and texts, None where the function stayed as it was.
    """

    text: str
    passes: tuple[tuple[str, str | None], ...] = ()


@pass_instrument
class FunctionPasses:
    """A TVM pass instrument that keeps each function's text after each pass that changed it."""

    def __init__(self) -> None:
        self.passes: dict[str, list[tuple[str, str | None]]] = {}
        self._before: list[dict[str, Any]] = []

    def run_before_pass(self, module: Any, _info: Any) -> None:
        """TVM calls this; passes nest, so it is a stack."""
        self._before.append(_by_name(module))

    def run_after_pass(self, module: Any, info: Any) -> None:
        """TVM calls this. A pass that is a sequence of passes says nothing of its own."""
        before = self._before.pop()
        if str(info.name) == "sequential":
            return
        for name, function in _by_name(module).items():
            changed = not structural_equal(before.get(name), function)
            self.passes.setdefault(name, []).append((str(info.name), nameless_text(function) if changed else None))


def _by_name(module: Any) -> dict[str, Any]:
    return {str(variable.name_hint): function for variable, function in module.functions.items()}


def merged_passes(
    frame: ModuleFrame, before: Mapping[str, str], after: Mapping[str, StageText]
) -> list[tuple[str, str]]:
    """The passes of a stage over a module: (pass, text of the module) of each that changed a function of it.

    Args:
        frame: the text around the functions.
        before: the functions as the stage found them, nameless.
        after: what the stage made of each.
    """
    current, found = dict(before), []
    most = max((len(stage.passes) for stage in after.values()), default=0)
    names = next(([name for name, _ in stage.passes] for stage in after.values() if len(stage.passes) == most), [])
    for number, name in enumerate(names):
        passes = {function: stage.passes[number][1] for function, stage in after.items() if number < len(stage.passes)}
        changed = {function: text for function, text in passes.items() if text is not None}
        if changed:
            current |= changed
            found.append((name, frame.filled(current)))
    return found


_STAGES = TypeAdapter(dict[str, StageText])
_LENGTH = 8  # bytes of the texts' length
Lower = Callable[[ir.IRModule, Target], ir.IRModule]


class RegionCache:
    """The functions of a packed module, as far as the stages have come.

    Args:
        packed: the module as ``pack`` left it.
        target: what it is for.
        stages: names of the stages that will follow.
        cache: where objects are looked for, and put.
    """

    def __init__(
        self,
        packed: ir.IRModule,
        target: Target,
        stages: Collection[str],
        cache: CacheStore | None = None,
    ) -> None:
        functions = {str(variable.name_hint): function for variable, function in region_functions(packed).items()}
        document = target.accelerator.untimed().model_dump_json()
        self._main = packed
        self._target = target
        self._kept = SealedCache(cache)
        self._whole = ModuleFrame(packed, functions)
        self._regions = ModuleFrame(ir.IRModule(functions), functions)  # what TVM's passes run on
        self._current = {name: nameless_text(function) for name, function in functions.items()}
        self._keys = {name: cache_key("region", document, packed) for name, packed in self._current.items()}
        self._stages: dict[str, dict[str, StageText]] = {}
        self._objects: dict[str, RegionObject] = {}
        self._find(set(stages))
        self.cached = {name: name in self._objects for name in functions}
        self._module = ir.IRModule({name: functions[name] for name in functions if not self.cached[name]})

    def _find(self, stages: set[str]) -> None:
        """Take from the cache what is there; an entry that cannot be read is as good as none."""
        for name, key in self._keys.items():
            data = self._kept.get(key)
            if data is None:
                continue
            try:
                texts, region = _load(data)
            except ValueError:
                continue
            if set(texts) == stages and region.code.words.shape[1] * WORD == self._target.accelerator.word_bits:
                self._stages[name], self._objects[name] = texts, region

    def lower(self, stage: str, lower: Lower) -> tuple[str, list[tuple[str, str]]]:
        """Run one stage on what was not found.

        Returns:
            The module's text as the stage leaves it, found functions as well, and (pass, text) of the TVM passes
            within the stage that changed something.

        Raises:
            CompileError: as the stage does.
        """
        if self._module.functions:
            passes = FunctionPasses()
            with tvm.transform.PassContext(instruments=[passes]):
                self._module = lower(self._module, self._target)
            for name, function in _by_name(self._module).items():
                kept = StageText(nameless_text(function), tuple(passes.passes.get(name, ())))
                self._stages.setdefault(name, {})[stage] = kept
        after = {name: self._stages[name][stage] for name in self._current}
        merged = merged_passes(self._regions, self._current, after)
        self._current = {name: text.text for name, text in after.items()}
        return self._whole.filled(self._current), merged

    def lowered(self) -> LoweredModule:
        """The module with the objects of its regions, once every stage has run; the new ones go into the cache.

        Raises:
            CompileError: as ``encode`` does.
        """
        for variable, function in region_functions(self._module).items():
            name = str(variable.name_hint)
            self._objects[name] = region_object(function, self._target.accelerator)
            self._kept.put(self._keys[name], _dump(self._stages[name], self._objects[name]))
        return LoweredModule(self._main, self._objects)


def _dump(texts: dict[str, StageText], region: RegionObject) -> bytes:
    """An entry: the function after each stage, and its object."""
    text = _STAGES.dump_json(texts)
    return b"".join([len(text).to_bytes(_LENGTH, "little"), text, dump_object(region)])


def _load(data: bytes) -> tuple[dict[str, StageText], RegionObject]:
    """The inverse of ``_dump``; ValueError for anything else."""
    end = _LENGTH + int.from_bytes(data[:_LENGTH], "little")
    return _STAGES.validate_json(data[_LENGTH:end]), load_object(data[end:])
