"""A job's stages as far as the program, from top to bottom: what each takes, makes, and leaves to the next.

``TO_PARTITION``, ``TO_PACK`` and ``TO_PROGRAM``, at the end, are the beginnings of a job. Between ``pack`` and ``emit``
stand the stages of ``accel/lowering/pipeline.py``, which every region goes through by itself.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial

import onnx
from tvm import ir, transform

from accel.accelerator.target import Target
from accel.driver.compilation import (
    Compilation,
    CompilationInputs,
    Emitted,
    Imported,
    Lowered,
    Modules,
    Packed,
    Partitioned,
    Quantised,
)
from accel.driver.kept_programs import KeptProgram, KeptPrograms, tensors_digest
from accel.driver.placement import FastestPlacement
from accel.driver.quantisation_scheme import requantisation, scheme_of
from accel.driver.region_timer import RegionTimer
from accel.driver.resident_tilings import staying_cost
from accel.driver.stage_chain import StageChain, start
from accel.driver.stage_dumps import PassTexts
from accel.errors import InvalidAccelerator, InvalidModel
from accel.frontend.integer_recovery.recover_integers import import_integer_model
from accel.frontend.quantize.quantize_model import ensure_quantised, is_quantised
from accel.frontend.quantize.scale_grid import Scheme
from accel.isa.family_registry import arrangement_of, family_of, joined_cost, priced_exactly
from accel.joining.joined_launches import join_launches
from accel.joining.resident_tensors import keep_results
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.analysis.kept_answers import kept_answers
from accel.lowering.codegen.program_linking import emit
from accel.lowering.codegen.region_cache import RegionCache
from accel.lowering.codegen.region_lowering import LoweredRegion
from accel.lowering.ir.function_attributes import launched_operations
from accel.lowering.movement.absorbed_movement import absorb_movement
from accel.lowering.packing.graph_packing import pack
from accel.lowering.partition.composite_graph import CompositeGraph, read_graph
from accel.lowering.partition.graph_partition import RegionChoice, choose_regions, marked
from accel.lowering.pipeline import REGION_STAGES, RegionStage
from accel.lowering.vector.instruction_cover import home_memory, runs_programs
from accel.lowering.vector.vector_partition import place_vector_programs
from accel.program.program_model import renamed
from accel.report.host_ops import host_ops
from accel.report.report_documents import CompiledFunction
from accel.simulate.engine import simulate
from accel.util.content_cache import CacheStore, SealedCache, cache_key
from accel.util.safe_names import tensor_fault
from accel.verify.tensor_quality import EVERY

_SPARE = 4_000_000  # instructions of large launches that are timed to know what reads and writes where
_MOST_KEPT = 32 << 20  # bytes of a model in QDQ form


def quantize(start_of_job: Compilation) -> Quantised:
    """Returns the model in QDQ form; that of a float model is kept, as no document changes it."""
    job = start_of_job.job
    scheme = scheme_of(job.target, job.options)
    cacheable = job.provenance.model is not None and not is_quantised(job.original)
    kept = SealedCache(job.cache if cacheable else None)
    key = _quantisation_key(job, scheme)
    known = kept.get(key)
    if known is not None:
        return Quantised(job, onnx.ModelProto.FromString(known))
    ahead = job.helpers.ahead
    model = None if ahead is None else ahead.quantised(scheme)
    if model is None:
        model = ensure_quantised(job.original, job.calibration, seed=job.options.seed, scheme=scheme)
    if model.ByteSize() <= _MOST_KEPT:
        kept.put(key, model.SerializeToString(), packed=True)  # most of it is weights, which hardly shrink
    return Quantised(job, model)


def _quantisation_key(job: CompilationInputs, scheme: Scheme) -> str:
    """The key of what the QDQ form of a float model depends on; a processor may round floats as another does not."""
    made_from, options = job.provenance, job.options
    options_text = options.model_dump_json(include={"seed", "dims", "shapes"})
    given = options_text, tensors_digest(job.calibration or {}), repr(scheme)
    return cache_key("qdq", str(made_from.model), made_from.versions.model_dump_json(), str(made_from.cpu), *given)


def import_model(done: Quantised) -> Imported:
    """Returns the model in integer operations.

    Raises:
        InvalidModel: it has no node of a name in ``options.host_nodes``, or no tensor of one in
            ``options.intermediates``.
    """
    job = done.job
    requantize, _ = requantisation(job.target)
    balances = Capabilities.of(job.target).balances
    imported = import_integer_model(done.model, requantize, balances=balances, keeps_floats=rounds_floats(job.target))
    _check_nodes(job.options.host_nodes, imported.operators)
    _check_tensors(job.options.intermediates, job.original)
    if job.reference is not None and not rounds_floats(job.target):
        inputs = [job.feeds[tensor.name] for tensor in job.info.inputs]
        job.reference.start(imported, inputs, quality=job.quality_inputs)
    return Imported(job, imported)


def partition_graph(done: Imported) -> Partitioned:
    """Returns the integer graph with a decision on every composite.

    Raises:
        InvalidAccelerator: ``options.placement`` is ``fastest``, and the document does not say what its host costs.
    """
    job = done.job
    left: Mapping[str, str] = dict.fromkeys(job.options.host_nodes, "the job's options leave it to the host")
    with kept_capabilities(job.target, job.cache):
        if job.options.placement == "fastest":
            left = _left_to_faster_host(done, left)
        return _fastest(done, _choices(done, _first_choice(done, left), left), left)


def _first_choice(done: Imported, left: Mapping[str, str]) -> RegionChoice:
    """The regions with the cheapest tilings, as they are in DRAM; nodes of ``left`` have none."""
    kept = done.job.kept
    if kept.choice is None:
        graph = read_graph(done.imported.module, Capabilities.of(done.job.target), left)
        kept.keep_graph(graph)
        kept.choice = _choose(done.job, graph)
    return kept.choice


def _marked(done: Imported, choice: RegionChoice, left: Mapping[str, str]) -> Partitioned:
    job, timer = done.job, RegionTimer(done.job.target, done.job.cache)
    module = marked(done.imported.module, choice)
    with _pass_texts(job) as texts:  # passes over what is priced are none of the model's
        module = place_vector_programs(module, job.target, timer, left)
    return Partitioned(job, done.imported, module, tuple(texts))


def _choices(done: Imported, choice: RegionChoice, left: Mapping[str, str]) -> list[RegionChoice]:
    """A choice, and what else it could be: tilings priced as if their data stayed on the chip, where that may be."""
    job, options = done.job, done.job.options
    staying = staying_cost(job.target.accelerator)
    if staying is None or not job.feeds or options.on_chip == "off" or options.launches == "separate":
        return [choice]
    capabilities, cost = Capabilities.of(job.target), family_of(job.target.accelerator).tiling_cost
    graph = read_graph(done.imported.module, capabilities, left)
    other = choose_regions(graph, capabilities, cost, behind=staying)
    return [choice] if other.dump() == choice.dump() else [choice, other]


def _fastest(done: Imported, choices: Sequence[RegionChoice], left: Mapping[str, str]) -> Partitioned:
    """The choice whose program takes the fewest cycles, with what stays on the chip; and all that was compiled."""
    tried, cycles = dict[str, LoweredRegion](), list[int]()
    for choice in choices if len(choices) > 1 else ():
        partitioned = replace(_marked(done, choice, left), tried=dict(tried), passes=())
        lowered = find_regions(pack_graph(partitioned))
        for stage in REGION_STAGES:
            lowered.regions.lower(stage.name)
        cycles.append(simulate(_emitted(lowered).program, {}, function=False).cycles)
        tried |= lowered.regions.compiled()
    best = choices[cycles.index(min(cycles)) if cycles else 0]
    return replace(_marked(done, best, left), tried=tried)


def _left_to_faster_host(done: Imported, left: Mapping[str, str]) -> Mapping[str, str]:
    job, host = done.job, done.job.target.accelerator.host
    if host is None:
        unknown = "nothing is known to be faster there: the document does not say what its host costs"
        raise InvalidAccelerator(f"placement is fastest, and {unknown}", field="host")
    job = replace(job, traces_passes=False)

    def packed(nodes: Mapping[str, str]) -> ir.IRModule:
        tried = replace(done, job=replace(job, kept=KeptPrograms()))
        return pack_graph(_marked(tried, _first_choice(tried, nodes), nodes)).module

    return FastestPlacement(packed, job.target, RegionTimer(job.target, spare=_SPARE)).left_to_host(left)


def _choose(job: CompilationInputs, graph: CompositeGraph) -> RegionChoice:
    cost = family_of(job.target.accelerator).tiling_cost
    behind = None if job.options.launches == "separate" else joined_cost(job.target.accelerator)
    measure = None if job.measure is None else job.measure.times
    exact = priced_exactly(job.target.accelerator) if job.options.schedule == "auto" else None
    if exact is not None and behind is not None:  # a trial times a launch alone, which says less of joined ones
        measure = None
    return choose_regions(graph, Capabilities.of(job.target), cost, measure, exact, behind)


def find_program(job: CompilationInputs) -> KeptProgram | None:
    """Returns the program that an earlier job compiled of the regions that this one chooses; None if there is none.

    None for a stream of inputs, whose launches are joined anew: a program that is kept has them joined.
    """
    graph = job.kept.find_graph()
    if graph is None or job.options.repeat > 1:
        return None
    job.kept.choice = _choose(job, graph)
    return job.kept.find(job.target.accelerator)


@contextmanager
def kept_capabilities(target: Target, cache: CacheStore | None) -> Iterator[None]:
    """Within, what the accelerator can do is known as far as an earlier job has asked; what is new is kept.

    Raises:
        InvalidAccelerator: nothing in it contracts.
    """
    capabilities, kept = Capabilities.of(target), SealedCache(cache)
    target.derived(kept_answers).cache = kept
    key = cache_key("capabilities", target.accelerator.untimed().model_dump_json())
    known = None if capabilities.recalled else kept.get(key)
    if known is not None:
        with suppress(ValueError):
            capabilities.recall(known)
    yield
    if capabilities.asked_anew:
        kept.put(key, capabilities.dump())


def pack_graph(done: Partitioned) -> Packed:
    """Returns the module over packed tensors."""
    job = done.job
    timer = RegionTimer(job.target, job.cache, spare=_SPARE, assistant=job.helpers.assistant)
    with _pass_texts(job) as texts:
        module = pack(done.module, job.target, by_programs=runs_programs(job.target))
    if runs_programs(job.target):
        module = absorb_movement(module, job.target, timer.times)
    left = host_ops(done.imported, module, job.target.accelerator, floats=not is_quantised(job.original))
    operations, tried = launched_operations(module), {**done.tried, **timer.lowered}
    return Packed(job, done.imported, module, left, operations, tuple(texts), tried)


def find_regions(packed: Packed) -> Lowered:
    """Returns the packed module's regions, those that a cache has as the last stage leaves them."""
    job, stages = packed.job, {stage.name: stage.run for stage in REGION_STAGES}
    lowered = {**packed.tried, **({} if job.measure is None else job.measure.lowered)}
    assistant = job.helpers.assistant
    beside = None if assistant is None else partial(assistant.lower, job.target)
    return Lowered(job, packed, RegionCache(packed.module, job.target, stages, job.cache, lowered, beside))


def lower_regions(stage: RegionStage) -> Callable[[Lowered], Lowered]:
    """Returns the step that runs a stage on every region that no cache had."""

    def lower(done: Lowered) -> Lowered:
        done.regions.lower(stage.name)
        return replace(done, stage=stage.name)

    return lower


def emit_program(done: Lowered) -> Emitted:
    """Returns the program, and forgets what it was linked from; inputs and outputs are called as the model's are."""
    emitted = _emitted(done)
    done.regions.release()
    return emitted


def _emitted(done: Lowered) -> Emitted:
    job, info = done.job, done.job.info
    lowered = done.regions.lowered()
    apart = program = emit(lowered, job.target.accelerator, arrangement_of(job.target.accelerator))
    if job.options.launches == "joined":
        program = join_launches(program, family_of(job.target.accelerator))
    ours, theirs = (*program.inputs, *program.outputs), (*info.inputs, *info.outputs)
    names = {old: tensor.name for old, tensor in zip(ours, theirs, strict=True)}
    program = renamed(program, names)
    fed = {name: job.feeds[tensor.name] for name, tensor in zip(program.inputs, info.inputs, strict=True)}
    functions = [CompiledFunction(name=name, cached=cached) for name, cached in done.regions.cached.items()]
    buffers = {name: region.placed_buffers(job.target.accelerator) for name, region in lowered.objects.items()}
    program = replace(program, image=program.image | fed)
    in_dram = program
    if job.options.on_chip == "auto":
        # results of vector programs are held against their bounds, so that they are stored in any case
        program = keep_results(program, family_of(job.target.accelerator), stored=rounds_floats(job.target))
    modules = Modules(done.packed, done.regions, in_dram if program.residents else None)
    packed = done.packed
    again = None
    if job.options.repeat > 1:  # where results stay accesses order themselves, so that inputs follow as they are
        alone = renamed(apart, names)
        again = program if program.residents else replace(alone, image=alone.image | fed)
    biases, operations = packed.imported.biases, packed.operations
    return Emitted(job, program, packed.host_ops, operations, biases, functions, buffers, modules, again)


def rounds_floats(target: Target) -> bool:
    """Returns whether it may run vector programs, whose results the reference takes and holds against their bounds."""
    return home_memory(target.accelerator) is not None


def _check_nodes(names: Sequence[str], operators: Collection[str]) -> None:
    """Refuse names of nodes that the model does not have."""
    for place, name in enumerate(names):
        if name not in operators:
            raise InvalidModel(f"the model has no node {name!r}", field=f"options.host_nodes[{place}]")


def _check_tensors(names: Sequence[str], model: onnx.ModelProto) -> None:
    """Refuse names of tensors that the model does not compute, and is not fed."""
    known = {name for node in model.graph.node for name in node.output} | {info.name for info in model.graph.input}
    for place, name in enumerate(names):
        field = f"options.intermediates[{place}]"
        if name not in known | {EVERY}:
            raise InvalidModel(f"the model has no tensor {name!r}", field=field)
        if fault := tensor_fault(name.lstrip("/")):
            raise InvalidModel(f"no array of a file can be called {name!r}: {fault}", field=field)


@contextmanager
def _pass_texts(job: CompilationInputs) -> Iterator[list[tuple[str, str | None]]]:
    """The (pass, text) of every TVM pass within, None of one that changes nothing, if the job keeps them."""
    if not job.traces_passes:
        yield []
        return
    passes = PassTexts()
    with transform.PassContext(instruments=[passes]):
        yield passes.texts


TO_PARTITION: StageChain[Compilation, Partitioned] = (
    StageChain((), start)
    .then("quantize", "bring a float model into QDQ form; a QDQ model stays as it is", quantize)
    .then("import", "turn dequantize, float operator, quantize into integer operations", import_model)
    .then("partition", "choose the operators that the accelerator runs, and their tiling", partition_graph)
)

TO_PACK: StageChain[Compilation, Packed] = TO_PARTITION.then(
    "pack", "lay tensors out in tiles and state each region as a tensor expression", pack_graph
)


def _with_regions() -> StageChain[Compilation, Lowered]:
    chain = TO_PACK.within(find_regions)
    for stage in REGION_STAGES:
        chain = chain.then(stage.name, stage.description, lower_regions(stage))
    return chain


TO_PROGRAM: StageChain[Compilation, Emitted] = _with_regions().then(
    "emit", "place tensors in DRAM and make the instruction words of every launch", emit_program
)
