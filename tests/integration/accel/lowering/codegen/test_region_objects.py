"""Compiled regions taken from a cache, against the stages run over the whole module."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from tvm import ir

from accel.accelerator.document import Accelerator
from accel.accelerator.target import Target
from accel.catalog.load_accelerator import load_accelerator
from accel.driver.helpers.lowering_assistant import LoweringAssistant
from accel.driver.quantisation_scheme import scheme_of
from accel.driver.run_options import Options
from accel.frontend.quantize.quantize_model import ensure_quantised
from accel.lowering.codegen.program_linking import emit
from accel.lowering.codegen.region_cache import RegionCache
from accel.lowering.codegen.region_lowering import Lower
from accel.lowering.codegen.region_object import dump_object, load_object, region_object
from accel.lowering.codegen.relocatable_code import FieldOverflow, RegionCode
from accel.lowering.ir.function_attributes import REGION, region_functions, region_of
from accel.lowering.pipeline import REGION_STAGES, lower_region
from accel.program.program_model import Program
from accel.util.content_cache import CacheStore, SealedCache
from examples.resnet8 import resnet8
from examples.single import Conv, conv_model
from tests.helpers.marking import rest_all
from tests.helpers.models.build_models import lower, regions
from tests.unit.accel.util.test_compile_cache import MemoryCache

STAGES = {stage.name: stage.run for stage in REGION_STAGES}
VTA = load_accelerator("vta")
LAYER = Conv(channels=16, filters=16, height=8, width=8)


class Compiled:
    """A model compiled with a cache: texts of all stages and passes, the program, how many objects it holds on to."""

    def __init__(
        self,
        model: onnx.ModelProto,
        accelerator: Accelerator,
        cache: CacheStore | None,
        *,
        alone: bool = False,
        assistant: LoweringAssistant | None = None,
    ) -> None:
        """``alone``: each region was lowered by itself before, as it is to be timed."""
        packed, target = lower(model, accelerator, "pack"), Target(accelerator)
        beside = None if assistant is None else partial(assistant.lower, target)
        attributes = {
            str(function.attrs[REGION]): region_of(function) for function in region_functions(packed).values()
        }
        lowered = {name: lower_region(region, target) for name, region in attributes.items()} if alone else {}
        stages = {name: _not_again if alone else run for name, run in STAGES.items()}
        found = RegionCache(packed, target, stages, cache, lowered, beside)
        for stage in REGION_STAGES:
            found.lower(stage.name)
        self.texts = {stage.name: found.text(stage.name) for stage in REGION_STAGES}
        linked = found.lowered()
        self.program: Program = emit(linked, accelerator, linked=found.release)
        self.held = len(linked.objects)
        found.keep()
        self.cached = found.cached

    def same(self, other: "Compiled") -> bool:
        return self.texts == other.texts and same_program(self.program, other.program)


def _not_again(*_given: Any) -> Any:
    raise AssertionError("lowered already")


@pytest.fixture(scope="module")
def compiled() -> tuple[Compiled, MemoryCache]:
    """The layer as compiled for VTA, and what the cache has of it; nobody changes either."""
    cache = MemoryCache()
    return Compiled(conv_model(LAYER), VTA, cache), cache


def same_program(one: Program, two: Program) -> bool:
    return (
        np.array_equal(one.words, two.words)
        and np.array_equal(one.origin, two.origin)
        and (one.segments, one.steps, one.origins) == (two.segments, two.steps, two.origins)
        and one.image.keys() == two.image.keys()
        and all(np.array_equal(array, two.image[name]) for name, array in one.image.items())
    )


def quantised_resnet8(accelerator: Accelerator) -> onnx.ModelProto:
    """ResNet-8 quantised as a job does."""
    return ensure_quantised(resnet8(), scheme=scheme_of(Target(accelerator), Options()))


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["vta", "output-stationary"])
def test_a_region_lowered_alone_is_what_the_stages_make(preset: str) -> None:
    """The texts of all stages and passes, and the program, too: a job takes what it has timed."""
    accelerator, cache = load_accelerator(preset), MemoryCache()
    alone = Compiled(conv_model(LAYER), accelerator, cache, alone=True)
    assert not any(alone.cached.values())
    assert alone.same(Compiled(conv_model(LAYER), accelerator, None))
    assert alone.same(Compiled(conv_model(LAYER), accelerator, cache))


@pytest.mark.slow
@pytest.mark.parametrize("preset", rest_all(["gemmini", "vta", "output-stationary", "mvin-mvout"]))
def test_what_is_found_is_what_the_stages_make(preset: str) -> None:
    accelerator, cache = load_accelerator(preset), MemoryCache()
    model = quantised_resnet8(accelerator)
    first, second = Compiled(model, accelerator, cache), Compiled(model, accelerator, cache)
    assert len(first.cached) > 8
    assert not any(first.cached.values())
    assert all(second.cached.values())
    assert (first.held, second.held) == (len(first.cached), 0)
    assert len(second.cached) == len(cache)
    assert second.same(first)
    module, target = lower(model, accelerator, "pack"), Target(accelerator)
    for stage in REGION_STAGES:
        module = stage.run(module, target)
        assert second.texts[stage.name][0] == module.script(), stage.name
    assert same_program(first.program, emit(module, accelerator))


def alike_layers() -> onnx.ModelProto:
    """Five convolutions of one shape, whose numbers differ, one after the other."""
    random = np.random.default_rng(3)
    weights = [random.normal(0, 0.03 * 2**layer, (16, 16, 3, 3)).astype(np.float32) for layer in range(5)]
    nodes = [
        helper.make_node("Conv", [f"x{layer}", f"w{layer}"], [f"x{layer + 1}"], name=f"conv{layer}", pads=[1, 1, 1, 1])
        for layer in range(5)
    ]
    first, last = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 16, 8, 8]) for name in ("x0", "x5"))
    constants = [onnx.numpy_helper.from_array(weight, f"w{layer}") for layer, weight in enumerate(weights)]
    graph = helper.make_graph(nodes, "alike", [first], [last], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.slow
@pytest.mark.parametrize("preset", rest_all(["gemmini", "output-stationary"]))
def test_where_nobody_asks_for_texts_like_regions_are_lowered_once(preset: str) -> None:
    """Would catch words with the numbers of another layer, and layers that are all lowered still."""
    accelerator = load_accelerator(preset)
    target = Target(accelerator)
    model = ensure_quantised(alike_layers(), scheme=scheme_of(target, Options()))
    packed = lower(model, accelerator, "pack")
    seen = list[int]()

    def counted(stage: Lower, module: ir.IRModule, target: Target) -> ir.IRModule:
        seen.append(len(region_functions(module)))
        return stage(module, target)

    found = RegionCache(packed, target, {name: partial(counted, run) for name, run in STAGES.items()}, texts=False)
    for stage in REGION_STAGES:
        found.lower(stage.name)
    once, module = found.lowered(), packed
    assert set(seen) == {seen[0]}
    assert seen[0] < len(region_functions(packed)) == len(once.objects)
    for stage in REGION_STAGES:
        module = stage.run(module, target)
    assert same_program(emit(once, accelerator), emit(module, accelerator))


def two_layers() -> onnx.ModelProto:
    """A model whose second layer is ``LAYER``, under other names."""
    before = conv_model(Conv(channels=16, filters=16, height=8, width=8, kernel=(1, 1), pads=(0, 0, 0, 0)))
    after = onnx.compose.add_prefix(conv_model(LAYER), "second_")
    graph = onnx.compose.merge_graphs(before.graph, after.graph, [(before.graph.output[0].name, "second_x")])
    return helper.make_model(graph, opset_imports=before.opset_import, ir_version=before.ir_version)


@pytest.mark.slow
def test_a_layer_of_another_model_is_found() -> None:
    cache = MemoryCache()
    alone = Compiled(conv_model(LAYER), VTA, cache)
    (name,) = alone.cached
    both = Compiled(two_layers(), VTA, cache)
    assert sorted(both.cached.values()) == [False, True]
    (found,) = (other for other, cached in both.cached.items() if cached)
    assert found != name
    assert both.same(Compiled(two_layers(), VTA, None))


def changed(*path: Any, by: Callable[[Any], Any]) -> Accelerator:
    document = VTA.model_dump(mode="json", exclude_none=True)
    part: Any = document
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = by(part[path[-1]])
    return Accelerator.model_validate(document)


@pytest.mark.parametrize(
    ("path", "by", "found"),
    [
        (("title",), lambda text: text + "!", True),
        (("dram", "read_latency"), lambda cycles: cycles + 1, True),
        (("parameters",), lambda parameters: parameters | {"reads_in_flight": 1}, True),
        (("memories", 0, "depth"), lambda depth: depth * 2, True),
        (("dram", "alignment_bytes"), lambda alignment: alignment * 2, False),
        (("instructions", 0, "fields", 0, "name"), lambda name: name, True),
    ],
    ids=["title", "latency", "parameters", "depth", "alignment", "nothing"],
)
def test_a_document_of_other_words_is_another_key(
    path: tuple[Any, ...], by: Callable[[Any], Any], *, found: bool, compiled: tuple[Compiled, MemoryCache]
) -> None:
    cache = MemoryCache(compiled[1])
    assert set(Compiled(conv_model(LAYER), changed(*path, by=by), cache).cached.values()) == {found}


@pytest.mark.parametrize(
    "damage",
    [
        lambda entry: entry[:-1],
        lambda entry: entry[: len(entry) // 2],
        lambda _: b"",
        lambda entry: entry[:200] + bytes([entry[200] ^ 1]) + entry[201:],
        lambda entry: b"\x80\x04." + entry,
    ],
    ids=["cut", "half", "empty", "flipped", "pickle"],
)
def test_a_damaged_entry_is_compiled_again(
    damage: Callable[[bytes], bytes], compiled: tuple[Compiled, MemoryCache]
) -> None:
    good, whole = compiled
    cache = MemoryCache({key: damage(entry) for key, entry in whole.items()})
    again = Compiled(conv_model(LAYER), VTA, cache)
    assert not any(again.cached.values())
    assert again.same(good)
    assert cache == whole


@pytest.mark.parametrize("content", [b"", b"words", b"\0" * 64, (1 << 62).to_bytes(8, "little"), b"\2\0\0\0\0\0\0\0{}"])
def test_an_entry_that_says_something_else_is_compiled_again(
    content: bytes, compiled: tuple[Compiled, MemoryCache]
) -> None:
    good, cache = compiled[0], MemoryCache(compiled[1])
    for key in cache:
        SealedCache(cache).put(key, content)
    again = Compiled(conv_model(LAYER), VTA, cache)
    assert not any(again.cached.values())
    assert again.same(good)


def test_an_object_is_its_bytes() -> None:
    (region,) = regions(lower(conv_model(LAYER), VTA))
    made = region_object(region, VTA)
    read = load_object(dump_object(made))
    assert (read.units, read.tables) == (made.units, made.tables)
    tensors = len(made.units) + bool(made.tables)
    for bases in ([0] * tensors, [64 * 3**place for place in range(tensors)]):
        for mine, theirs in zip(read.code.link(bases, VTA), made.code.link(bases, VTA), strict=True):
            assert np.array_equal(mine, theirs)


@pytest.mark.parametrize(
    "change",
    [
        lambda code: {"origin": code.origin + len(code.sites)},
        lambda code: {"origin": code.origin - 1},
        lambda code: {"relocations": (replace(code.relocations[0], rows=code.relocations[0].rows + len(code.words)),)},
        lambda code: {"relocations": (replace(code.relocations[0], field=len(code.fields)),)},
        lambda _: {"overflows": (FieldOverflow(0, -1, 3),)},
    ],
)
def test_an_index_that_points_nowhere_is_refused(change: Callable[[RegionCode], dict[str, Any]]) -> None:
    (region,) = regions(lower(conv_model(LAYER), VTA))
    made = region_object(region, VTA)
    wrong = replace(made, code=replace(made.code, **change(made.code)))
    with pytest.raises(ValueError, match="points nowhere"):
        load_object(dump_object(wrong))
