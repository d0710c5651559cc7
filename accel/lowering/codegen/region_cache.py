"""Regions of a packed module on their way to objects: each is compiled once, and then found in a cache.

An object depends on its region, of which the packed function is made, on what the stages read of the accelerator's
document, and on this compiler. The stages read nothing of how long things take, and of a memory's depth only how the
region's buffers lie in it: an object says for which depths it is, of which it is asked again, and leaves open what in
its words depends on them. Texts are kept function by function: what a stage makes of one does not depend on the others.
"""

import textwrap
import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property, partial

from pydantic import TypeAdapter
from tvm import ir, tirx

from accel.accelerator.target import Target
from accel.lowering.codegen.like_regions import LikeRegions
from accel.lowering.codegen.region_lowering import (
    NAMELESS,
    Lower,
    LoweredRegion,
    Printable,
    Printed,
    StageRecord,
    StageText,
    nameless_text,
    run_stage,
)
from accel.lowering.codegen.region_object import LoweredModule, RegionObject, dump_object, load_object, region_object
from accel.lowering.ir.function_attributes import REGION, load_region, region_functions
from accel.lowering.kinds.region_images import region_function
from accel.util.content_cache import CacheStore, SealedCache, cache_key
from accel.util.free_memory import release_free_memory


def _as_member(text: str, name: str) -> str:
    """A nameless function as it stands in a module."""
    return textwrap.indent(text.replace(f"def {NAMELESS}(", f"def {name}(", 1), "    ")


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


def merged_passes(
    frame: ModuleFrame, before: Mapping[str, str], after: Mapping[str, StageText]
) -> list[tuple[str, str | None]]:
    """The passes of a stage over a module: (pass, text of the module), None of one that changed no function of it.

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
        current |= changed
        found.append((name, frame.filled(current) if changed else None))
    return found


_STAGES = TypeAdapter(dict[str, StageText])
_LENGTH = 8  # bytes of the texts' length
_MOST_KEPT = 1 << 21  # instructions of an object in the cache, some 100 MB
_LARGE = 1 << 18  # instructions of an object whose memory goes back when it is forgotten: the next ones are larger
_GIVEN = (1, 3)  # of five regions that are printed those that are lowered beside


@dataclass(frozen=True)
class LoweredBeside:
    """A region that another process has lowered: its entry, as the cache keeps it, and its object with tensors placed.

    ``entry`` is None where it has not done so, ``placed`` also where nobody asked. ``gone`` says that the process is.
    """

    entry: bytes | None = None
    placed: bytes | None = None
    gone: bool = False


LowerBeside = Callable[[str], Future[LoweredBeside]]
"""Begins to lower a region, given by its attribute, in another process."""


class RegionCache:
    """The functions of a packed module, as far as the stages have come.

    Args:
        packed: the module as ``pack`` left it.
        target: what it is for.
        stages: the stages that will follow by name, in their order.
        cache: where objects are looked for, and put.
        lowered: regions that the job has compiled already, to time them, by their attribute; as entries those that
            another process has.
        beside: lowers half of the regions that are known nowhere; two of five where they are printed, which there takes
            its time and here a thread does.
        texts: whether somebody may ask for texts. If nobody does, regions that are like others are made of these, as
            soon as they are compiled.
    """

    def __init__(
        self,
        packed: ir.IRModule,
        target: Target,
        stages: Mapping[str, Lower],
        cache: CacheStore | None = None,
        lowered: Mapping[str, LoweredRegion | bytes] | None = None,
        beside: LowerBeside | None = None,
        *,
        texts: bool = True,
    ) -> None:
        functions = {str(variable.name_hint): function for variable, function in region_functions(packed).items()}
        self._document = target.accelerator.unsized().model_dump_json()
        self._main = packed
        self._target = target
        self._kept = SealedCache(cache)
        self._printed = texts
        self._functions = functions
        regions = {name: self._region(name) for name in functions}
        self._keys = {name: region_key(self._document, region) for name, region in regions.items()}
        taken = set(regions.values())
        self._tried = {region: made for region, made in (lowered or {}).items() if region not in taken}
        self._stages = dict(stages)
        self._names = list(stages)
        self._found: dict[str, dict[str, StageText]] = {}
        self._records: dict[str, dict[str, StageRecord]] = {}
        self._texts: dict[str, dict[str, StageText]] = {}
        self._printing = threading.RLock()
        self._objects: dict[str, RegionObject] = {}
        for name, key in self._keys.items():
            self._take(name, self._kept.get(key))
        self.cached = {name: name in self._objects for name in functions}
        self._made: dict[str, LoweredRegion] = {}
        self._prints: dict[str, Mapping[str, Printable]] = {}  # of those, what each stage made
        for name, region in regions.items():
            known = None if name in self._objects else (lowered or {}).get(region)
            if isinstance(known, LoweredRegion):
                self._make(name, known)
            else:
                self._take(name, known)
        left = [name for name in functions if name not in self._objects and name not in self._made]
        like = _like_regions(lowered or {}, target)
        for name in left:
            if (found := like.find(regions[name])) is not None:
                self._make(name, found)
        left = [name for name in left if name not in self._made]
        self._like, self._later = LikeRegions(target), list[str]()
        if not texts:
            left = [name for name in left if not self._comes_later(name)]
        given = [name for place, name in enumerate(left) if (place % 5 in _GIVEN if texts else place % 2)]
        self._beside = {name: beside(regions[name]) for name in given} if beside is not None else {}
        self._module = ir.IRModule({name: functions[name] for name in left if name not in self._beside})

    def _make(self, name: str, region: LoweredRegion) -> None:
        self._made[name], self._prints[name] = region, region.stages

    def _region(self, name: str) -> str:
        return str(self._functions[name].attrs[REGION])

    def _comes_later(self, name: str) -> bool:
        """Whether a function is likely to be made of one before it that is like it; if not, it is for later ones."""
        if self._like.may_find(self._region(name)):
            self._later.append(name)
            return True
        self._like.add(
            self._region(name),
            lambda: LoweredRegion(self._functions[name], self._prints.get(name, {}), self._objects[name]),
        )
        return False

    def _take(self, name: str, entry: bytes | None) -> bool:
        """Take a function as an entry has it; returns False for one that cannot be read, which is as good as none."""
        if entry is None:
            return False
        try:
            texts, region = load_entry(entry)
        except ValueError:
            return False
        if (self._printed and set(texts) != set(self._names)) or not region.is_for(self._target.accelerator):
            return False
        self._found[name], self._objects[name] = texts, region
        return True

    def lower(self, stage: str) -> None:
        """Run one stage on what was not found, and nobody lowers beside.

        Raises:
            CompileError: as the stage does.
        """
        self._records[stage] = {}
        if self._module.functions:
            self._module, self._records[stage] = run_stage(self._module, self._target, self._stages[stage])

    def _collect(self) -> None:
        """Wait for what is lowered beside, and lower here what was not.

        Raises:
            CompileError: as a stage does.
        """
        with self._printing:
            for name in list(self._beside):
                if not self._take(name, self._beside[name].result().entry):
                    self._make(name, self._lowered_here(name))
                del self._beside[name]

    def _lowered_here(self, name: str) -> LoweredRegion:
        function, records = self._functions[name], {}
        module = ir.IRModule({name: function})
        for stage, lower in self._stages.items():
            module, made = run_stage(module, self._target, lower)
            records[stage] = made[name]
        return LoweredRegion(function, records, region_object(module[name], self._target.accelerator))

    def text(self, stage: str) -> tuple[str, list[tuple[str, str | None]]]:
        """Prints what a stage left that has run; a thread of its own may ask.

        Returns:
            The module's text, found functions as well, and (pass, text) of the TVM passes within the stage, None of one
            that changed nothing.
        """
        after, number = self._texts_of(stage), self._names.index(stage)
        if number:
            before = {name: text.text for name, text in self._texts_of(self._names[number - 1]).items()}
        else:
            before = {name: nameless_text(function) for name, function in self._functions.items()}
        merged = merged_passes(self._passed, before, after)
        return self._whole.filled({name: text.text for name, text in after.items()}), merged

    @cached_property
    def _whole(self) -> ModuleFrame:
        return ModuleFrame(self._main, self._functions)

    @cached_property
    def _passed(self) -> ModuleFrame:
        """Of what TVM's passes run on."""
        return ModuleFrame(ir.IRModule(self._functions), self._functions)

    def _texts_of(self, stage: str) -> dict[str, StageText]:
        """The texts of a stage by function, which are printed once."""
        with self._printing:
            if stage not in self._texts:
                self._collect()
                made = {name: stages[stage] for name, stages in self._prints.items()} | self._records[stage]
                found = {name: texts[stage] for name, texts in self._found.items()}
                self._texts[stage] = found | {name: record.text() for name, record in made.items()}
            return self._texts[stage]

    def print_kept(self, stage: str) -> None:
        """Print the functions of a stage that has run, if they will be kept; a thread of its own may ask.

        With the last stage the regions that were tried and not taken are printed.
        """
        if not self._kept.present:
            return
        self._texts_of(stage)
        for made in self._tried.values() if stage == self._names[-1] else ():
            for record in made.stages.values() if isinstance(made, LoweredRegion) else ():
                record.text()

    def lowered(self) -> LoweredModule:
        """The module with the objects of its regions, once every stage has run.

        Raises:
            CompileError: as ``encode`` does; for what was lowered beside, as a stage does.
        """
        self._collect()
        self._objects |= {name: region.made for name, region in self._made.items()}
        for variable, function in region_functions(self._module).items():
            self._objects[str(variable.name_hint)] = region_object(function, self._target.accelerator)
        for name in self._later:
            self._make(name, self._like.find(self._region(name)) or self._lowered_here(name))
            self._objects[name] = self._made[name].made
        return LoweredModule(self._main, self._objects)

    def compiled(self) -> dict[str, LoweredRegion]:
        """Returns the regions that were lowered here, by their attribute, once :meth:`lowered` has been asked."""
        left = region_functions(self._module)
        functions = {str(variable.name_hint): function for variable, function in left.items()}
        made = {
            name: LoweredRegion(
                self._functions[name],
                {stage: self._records[stage][name] for stage in self._names},
                self._objects[name],
            )
            for name in functions
        }
        return {str(self._functions[name].attrs[REGION]): region for name, region in (self._made | made).items()}

    def release(self, name: str) -> None:
        """Forget an object that :meth:`keep` would not put, once it is linked: all of them take more than the program.

        :meth:`compiled` is not asked any more.
        """
        if not self._keeps(name):
            size = len(self._objects.pop(name).code.words)
            self._made.pop(name, None)
            if size > _LARGE:
                release_free_memory()

    def _keeps(self, name: str) -> bool:
        """Whether an object goes into the cache: it is new, and not too large to be read as fast as it is made."""
        return self._kept.present and not self.cached[name] and len(self._objects[name].code.words) <= _MOST_KEPT

    def keep(self) -> None:
        """Put the objects that were not found into the cache, with their texts, but for very large ones.

        So are those that the job has compiled to time them, and has not taken: a later one may.
        """
        for name, region in self._objects.items():
            if self._keeps(name):
                texts = {stage: self._texts_of(stage)[name] for stage in self._names}
                self._kept.put(self._keys[name], dump_entry(texts, region))
        for attribute, made in self._tried.items() if self._kept.present else ():
            key = region_key(self._document, attribute)
            entry = self._entry_of(made) if self._kept.get(key) is None else None  # which prints its texts
            if entry is not None:
                self._kept.put(key, entry)

    def _entry_of(self, made: LoweredRegion | bytes) -> bytes | None:
        """The entry of a region that was compiled apart; None of one without texts, or too large to be kept."""
        if isinstance(made, bytes):
            return made
        if set(made.stages) != set(self._names) or len(made.made.code.words) > _MOST_KEPT:
            return None
        return dump_entry({stage: record.text() for stage, record in made.stages.items()}, made.made)


def region_key(document: str, attribute: str) -> str:
    """Returns the key of a region's entry, given its attribute and the document without sizes, as JSON."""
    return cache_key("region", document, attribute)


def entered_region(attribute: str, entry: bytes, target: Target) -> LoweredRegion:
    """Returns the region of an attribute as an entry has it.

    Raises:
        ValueError: these are not the bytes of an entry.
    """
    texts, made = load_entry(entry)
    function = region_function(load_region(attribute), target.contraction).with_attr(REGION, attribute)
    return LoweredRegion(function, {stage: Printed(text) for stage, text in texts.items()}, made)


def _like_regions(lowered: Mapping[str, LoweredRegion | bytes], target: Target) -> LikeRegions:
    """The regions that a job has compiled already, for others that are like them."""
    like = LikeRegions(target)
    for attribute, made in lowered.items():
        whole = partial(entered_region, attribute, made, target) if isinstance(made, bytes) else partial(_itself, made)
        like.add(attribute, whole)
    return like


def _itself(made: LoweredRegion) -> LoweredRegion:
    return made


def dump_entry(texts: dict[str, StageText], region: RegionObject) -> bytes:
    """Returns an entry: the function after each stage, nameless, and its object."""
    text = _STAGES.dump_json(texts)
    return b"".join([len(text).to_bytes(_LENGTH, "little"), text, dump_object(region)])


def load_entry(data: bytes) -> tuple[dict[str, StageText], RegionObject]:
    """Returns what :func:`dump_entry` was given.

    Raises:
        ValueError: it is anything else.
    """
    end = _LENGTH + int.from_bytes(data[:_LENGTH], "little")
    return _STAGES.validate_json(data[_LENGTH:end]), load_object(data[end:])
