"""Regions of a packed module on their way to objects: each is compiled once, and then found in a cache.

An object depends on the packed function, which says all of its region, on the accelerator, and on this compiler. Texts
are kept function by function: what a stage makes of one does not depend on the others.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from pydantic import TypeAdapter
from tvm import ir
from tvm.ir.instrument import pass_instrument
from tvm_ffi import structural_equal

from accel.accelerator.target import Target
from accel.lowering.codegen.region_object import LoweredModule, RegionObject, dump_object, load_object, region_object
from accel.lowering.codegen.relocatable_code import WORD
from accel.lowering.ir.function_attributes import region_functions
from accel.util.content_cache import CacheStore, ResultCache, cache_key

_BEGIN = re.compile(r"^(?=    @)", re.MULTILINE)
_NAME = re.compile(r"^    def (\w+)\(", re.MULTILINE)
_AFTER = "\n#"  # what follows a function that is no function
_NAMELESS = "region"


@dataclass(frozen=True)
class ModuleText:
    """A module as TVMScript: ``head``, then by name each function, nameless, and what follows it."""

    head: str
    functions: dict[str, str]
    after: dict[str, str]

    @classmethod
    def of(cls, text: str) -> "ModuleText":
        """Cut the text of a module: a function begins with its decorator, indented once."""
        head, *parts = _BEGIN.split(text)
        result = cls(head, {}, {})
        for part in parts:
            name, body = _NAME.search(part), part.partition(_AFTER)[0].rstrip()
            assert name is not None
            result.functions[name[1]] = _renamed(body, name[1], _NAMELESS)
            result.after[name[1]] = part[len(body) :]
        return result

    def with_functions(self, texts: Mapping[str, str]) -> str:
        """The module's text with other texts, nameless, for some of its functions."""
        functions = self.functions | dict(texts)
        return self.head + "".join(
            _renamed(function, _NAMELESS, name) + self.after[name] for name, function in functions.items()
        )


def _renamed(function: str, old: str, new: str) -> str:
    return function.replace(f"    def {old}(", f"    def {new}(", 1)


@dataclass(frozen=True)
class StageText:
    """A function as a stage left it, nameless, and as each TVM pass within the stage did.

    ``passes`` are names and texts, None where the function stayed as it was; ``head`` stands before the functions.
    """

    text: str
    head: str = ""
    passes: tuple[tuple[str, str | None], ...] = ()


@pass_instrument
class FunctionPasses:
    """A TVM pass instrument that keeps each function's text after each pass that changed it."""

    def __init__(self) -> None:
        self.head = ""
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
        functions = _by_name(module)
        changed = {name for name, function in functions.items() if not structural_equal(before.get(name), function)}
        text = ModuleText.of(module.script()) if changed else None
        self.head = text.head if text else self.head
        for name in functions:
            now = text.functions[name] if text and name in changed else None
            self.passes.setdefault(name, []).append((str(info.name), now))


def _by_name(module: Any) -> dict[str, Any]:
    return {str(variable.name_hint): function for variable, function in module.functions.items()}


def merged_passes(before: Mapping[str, str], after: Mapping[str, StageText]) -> list[tuple[str, str]]:
    """The passes of a stage over a module: (pass, text of the module) of each that changed a function of it.

    Args:
        before: the functions as the stage found them, nameless, in the module's order.
        after: what the stage made of each.
    """
    head = next((stage.head for stage in after.values() if stage.head), "")
    current, found = dict(before), []
    most = max((len(stage.passes) for stage in after.values()), default=0)
    names = next(([name for name, _ in stage.passes] for stage in after.values() if len(stage.passes) == most), [])
    for number, name in enumerate(names):
        passes = {function: stage.passes[number][1] for function, stage in after.items() if number < len(stage.passes)}
        changed = {function: text for function, text in passes.items() if text is not None}
        if changed:
            current |= changed
            texts = [_renamed(text, _NAMELESS, function) for function, text in current.items()]
            found.append((name, head + "\n\n".join(texts)))
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
        stages: Sequence[str],
        cache: CacheStore | None = None,
    ) -> None:
        functions = {str(variable.name_hint): function for variable, function in region_functions(packed).items()}
        document = target.accelerator.model_dump_json()
        self._main = packed
        self._target = target
        self._kept = ResultCache(cache)
        self._packed = ModuleText.of(packed.script())
        self._current = {name: packed for name, packed in self._packed.functions.items() if name in functions}
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
            for name, text in ModuleText.of(self._module.script()).functions.items():
                kept = StageText(text, passes.head, tuple(passes.passes.get(name, ())))
                self._stages.setdefault(name, {})[stage] = kept
        after = {name: self._stages[name][stage] for name in self._current}
        merged = merged_passes(self._current, after)
        self._current = {name: text.text for name, text in after.items()}
        return self._packed.with_functions(self._current), merged

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
