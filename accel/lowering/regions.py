"""The regions of a packed module on their way to objects: each is compiled once, and then found in a cache.

An object depends on the packed function, which says all of its region, on the accelerator, and on this compiler.
"""

from collections.abc import Callable, Sequence

import tvm
from pydantic import TypeAdapter
from tvm import ir

from accel.accelerator.document import Accelerator
from accel.cache import Cache, Kept, cache_key
from accel.lowering.attributes import region_functions
from accel.lowering.function_texts import FunctionPasses, ModuleText, StageText, merged_passes
from accel.lowering.region_code import WORD
from accel.lowering.region_object import Lowered, RegionObject, dump_object, load_object, region_object

_STAGES = TypeAdapter(dict[str, StageText])
_LENGTH = 8  # bytes of the texts' length
Lower = Callable[[ir.IRModule, Accelerator], ir.IRModule]


class Regions:
    """The functions of a packed module, as far as the stages have come.

    Args:
        packed: the module as ``pack`` left it.
        text: the same as TVMScript.
        accelerator: the target.
        stages: names of the stages that will follow.
        cache: where objects are looked for, and put.
    """

    def __init__(
        self,
        packed: ir.IRModule,
        text: str,
        accelerator: Accelerator,
        stages: Sequence[str],
        cache: Cache | None = None,
    ) -> None:
        functions = {str(variable.name_hint): function for variable, function in region_functions(packed).items()}
        document = accelerator.model_dump_json()
        self._main = packed
        self._accelerator = accelerator
        self._kept = Kept(cache)
        self._packed = ModuleText.of(text)
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
            if set(texts) == stages and region.code.words.shape[1] * WORD == self._accelerator.word_bits:
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
                self._module = lower(self._module, self._accelerator)
            for name, text in ModuleText.of(self._module.script()).functions.items():
                kept = StageText(text, passes.head, tuple(passes.passes.get(name, ())))
                self._stages.setdefault(name, {})[stage] = kept
        after = {name: self._stages[name][stage] for name in self._current}
        merged = merged_passes(self._current, after)
        self._current = {name: text.text for name, text in after.items()}
        return self._packed.with_functions(self._current), merged

    def lowered(self) -> Lowered:
        """The module with the objects of its regions, once every stage has run; the new ones go into the cache.

        Raises:
            CompileError: as ``encode`` does.
        """
        for variable, function in region_functions(self._module).items():
            name = str(variable.name_hint)
            self._objects[name] = region_object(function, self._accelerator)
            self._kept.put(self._keys[name], _dump(self._stages[name], self._objects[name]))
        return Lowered(self._main, self._objects)


def _dump(texts: dict[str, StageText], region: RegionObject) -> bytes:
    """An entry: the function after each stage, and its object."""
    text = _STAGES.dump_json(texts)
    return b"".join([len(text).to_bytes(_LENGTH, "little"), text, dump_object(region)])


def _load(data: bytes) -> tuple[dict[str, StageText], RegionObject]:
    """The inverse of ``_dump``; ValueError for anything else."""
    end = _LENGTH + int.from_bytes(data[:_LENGTH], "little")
    return _STAGES.validate_json(data[_LENGTH:end]), load_object(data[end:])
