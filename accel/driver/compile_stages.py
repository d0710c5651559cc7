"""A job's stages as far as the program, from top to bottom: what each takes, makes, and leaves to the next.

``TO_PARTITION``, ``TO_PACK`` and ``TO_PROGRAM``, at the end, are the beginnings of a job. Between ``pack`` and ``emit``
stand the stages of ``accel/lowering/pipeline.py``, which every region goes through by itself.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
from accel.driver.kept_programs import KeptPrograms, tensors_digest
from accel.driver.quantisation_scheme import requantisation, scheme_of
from accel.driver.region_choice import choose, kept_capabilities, results_may_stay
from accel.driver.run_options import Attention, DepthFirst
from accel.driver.stage_chain import StageChain, start
from accel.driver.stage_dumps import PassTexts
from accel.driver.trials.placement import FastestPlacement
from accel.driver.trials.region_timer import RegionTimer
from accel.driver.trials.resident_tilings import ChoiceTrials, TriedProgram, tried_choices, words_digest
from accel.errors import InvalidAccelerator, InvalidModel
from accel.frontend.integer_recovery.recover_integers import StoredFunctions, import_integer_model
from accel.frontend.quantize.quantize_model import ensure_quantised, is_quantised
from accel.frontend.quantize.scale_grid import Scheme
from accel.isa.family_registry import arrangement_of, family_of, reserved_bytes
from accel.joining.joined_launches import join_launches
from accel.joining.resident_tensors import keep_results
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.analysis.epilogue_planning import clips_apart
from accel.lowering.analysis.float_units import float_room, home_memory, multiplies_floats, runs_programs
from accel.lowering.analysis.kept_answers import kept_answers
from accel.lowering.codegen.program_linking import emit
from accel.lowering.codegen.region_cache import RegionCache
from accel.lowering.codegen.region_lowering import LoweredRegion
from accel.lowering.ir.function_attributes import ATTENTION, dump_choices, launched_operations, load_choices
from accel.lowering.kinds.rows.row_tiling import layer_norm_obstacle, softmax_obstacle
from accel.lowering.movement.absorbed_movement import absorb_movement
from accel.lowering.packing.graph_packing import pack
from accel.lowering.partition.composite_graph import read_graph
from accel.lowering.partition.graph_partition import RegionChoice, marked
from accel.lowering.pipeline import REGION_STAGES, RegionStage
from accel.lowering.vector.vector_partition import place_vector_programs
from accel.lowering.vector.window_maxima import say_window_maxima
from accel.program.program_model import Program, renamed
from accel.report.attention_placements import attention_placements
from accel.report.documents.report_documents import CompiledFunction
from accel.report.host_ops import host_ops
from accel.simulate.engine import simulate
from accel.simulate.prepare_simulation import loads_of_kept
from accel.util.content_cache import SealedCache, cache_key
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
    model = None if ahead is None else ahead.quantised(scheme, loads_of_kept(job.target.accelerator))
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
    capabilities = Capabilities.of(job.target)
    imported = import_integer_model(
        done.model,
        requantize,
        balances=capabilities.balances,
        stores=StoredFunctions(
            gelu=capabilities.stores_gelu,
            softmax=partial(softmax_obstacle, capabilities) if capabilities.stores_softmax else None,
            layer_norm=partial(layer_norm_obstacle, capabilities) if capabilities.stores_layer_norm else None,
        ),
        float_room=float_room(job.target),
        float_products=multiplies_floats(job.target) and not is_quantised(job.original),
        clips_apart=partial(clips_apart, capabilities) if runs_programs(job.target) else None,
    )
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
        return _fastest(done, _first_choice(done, left), left)


def _first_choice(done: Imported, left: Mapping[str, str]) -> RegionChoice:
    """The regions with the cheapest tilings, as they are in DRAM; nodes of ``left`` have none."""
    kept = done.job.kept
    if kept.choice is None:
        graph = read_graph(done.imported.module, Capabilities.of(done.job.target), left)
        kept.keep_graph(graph)
        kept.choice = choose(done.job, graph, beside=True)
        kept.keep_answers(done.job.target.derived(kept_answers))
    return kept.choice


def _marked(
    done: Imported, choice: RegionChoice, left: Mapping[str, str], attention: Attention | None = None
) -> Partitioned:
    """The module of a choice; ``attention``: where it goes over blocks of keys, if not as the options say."""
    job, timer = done.job, RegionTimer(done.job.target, done.job.cache, assistant=done.job.helpers.assistant)
    said = say_window_maxima(done.imported, marked(done.imported.module, choice), job.target, left)
    with _pass_texts(job) as texts:  # passes over what is priced are none of the model's
        module = place_vector_programs(said.module, job.target, timer.times, left, attention or job.options.attention)
    timer.keep()
    return Partitioned(job, said.imported, module, tuple(texts))


def _fastest(done: Imported, choice: RegionChoice, left: Mapping[str, str]) -> Partitioned:
    """The partition whose program takes the fewest cycles: its tilings where results stay, then how attention goes."""
    trials = _tried_tilings(done, choice, left) if done.job.feeds and results_may_stay(done.job) else None
    if trials is None:
        return _with_attention(done, _marked(done, choice, left), choice, left)
    # where launches always run depth first it is the one that moves the fewest bytes
    best = trials.best(by_bytes=done.job.options.depth_first == "always").choice
    usual = replace(_marked(done, best, left), tried=trials.tried, programs=trials.programs)
    return _with_attention(done, usual, best, left)


def _tried_tilings(done: Imported, choice: RegionChoice, left: Mapping[str, str]) -> ChoiceTrials:
    """Programs of a choice and of others that results on the chip ask for."""
    job = done.job

    def compiled(choice: RegionChoice, tried: Mapping[str, LoweredRegion], depth_first: bool) -> TriedProgram:  # noqa: FBT001
        emitted, regions = _compiled(
            replace(_marked(done, choice, left), tried=tried), job.options.depth_first if depth_first else "off"
        )
        assert isinstance(emitted.origin, Modules)
        return TriedProgram(emitted.program, emitted.origin.in_dram, regions)

    graph = read_graph(done.imported.module, Capabilities.of(job.target), left)
    in_dram = replace(job, options=job.options.model_copy(update={"on_chip": "off"}))
    choices = [choice, choose(in_dram, graph)]
    return tried_choices(choices, graph, job.target, compiled, depth_first=job.options.depth_first != "off")


def _compiled(done: Partitioned, depth_first: DepthFirst) -> tuple[Emitted, dict[str, LoweredRegion]]:
    """The program of a partition, and the regions that it was linked from; no texts are kept."""
    lowered = find_regions(pack_graph(replace(done, passes=())))
    for stage in REGION_STAGES:
        lowered.regions.lower(stage.name)
    return _emitted(lowered, depth_first), lowered.regions.compiled()


def _with_attention(done: Imported, usual: Partitioned, choice: RegionChoice, left: Mapping[str, str]) -> Partitioned:
    """A partition with attention placed as its program takes the fewest cycles, if the options leave that open.

    Where attention may go over blocks of keys, all of it is tried so, and none of it, and as prices have it.
    """
    made = [usual, *_placed_otherwise(done, usual, choice, left)]
    if len(made) == 1:
        return usual
    tried, cycles = dict(usual.tried), list[int]()
    for each in made:
        emitted, regions = _compiled(replace(each, tried=dict(tried)), done.job.options.depth_first)
        cycles.append(simulate(emitted.program, {}, function=False).cycles)
        tried |= regions
    return replace(made[cycles.index(min(cycles))], tried=tried)


def _placed_otherwise(
    done: Imported, usual: Partitioned, choice: RegionChoice, left: Mapping[str, str]
) -> Iterator[Partitioned]:
    """A partition with all attention over blocks of keys, and with none, where the options leave that open."""
    attrs, job = usual.module["main"].attrs, done.job
    if job.options.attention != "auto" or not job.feeds or ATTENTION not in attrs:
        return
    chosen = load_choices(str(attrs[ATTENTION]))
    others: tuple[Attention, ...] = ("fused", "unfused")
    for other in others:
        if all(each.chosen == (other == "fused") for each in chosen):
            continue
        module = _marked(done, choice, left, other).module
        placed = [replace(each, chosen=other == "fused") for each in chosen]
        main = module["main"].with_attr(ATTENTION, dump_choices(placed))
        module.update_func(module.get_global_var("main"), main)
        yield replace(usual, module=module)


def _left_to_faster_host(done: Imported, left: Mapping[str, str]) -> Mapping[str, str]:
    job, host = done.job, done.job.target.accelerator.host
    if host is None:
        unknown = "nothing is known to be faster there: the document does not say what its host costs"
        raise InvalidAccelerator(f"placement is fastest, and {unknown}", field="host")
    job = replace(job, traces_passes=False)

    def packed(nodes: Mapping[str, str]) -> ir.IRModule:
        tried = replace(done, job=replace(job, kept=KeptPrograms()))
        return pack_graph(_marked(tried, _first_choice(tried, nodes), nodes)).module

    timer, join = RegionTimer(job.target, spare=_SPARE), job.options.launches == "joined"
    return FastestPlacement(packed, job.target, timer, join=join).left_to_host(left)


def pack_graph(done: Partitioned) -> Packed:
    """Returns the module over packed tensors."""
    job = done.job
    timer = RegionTimer(job.target, job.cache, spare=_SPARE, assistant=job.helpers.assistant)
    programs, floats = runs_programs(job.target), not is_quantised(job.original)
    with _pass_texts(job) as texts:
        module = pack(done.module, job.target, by_programs=programs)
    module = absorb_movement(module, job.target, timer.times)
    timer.keep()
    left = host_ops(done.imported, module, job.target.accelerator, floats=floats, at_edges=programs)
    operations, tried = launched_operations(module), {**done.tried, **timer.lowered}
    attention = attention_placements(done.module)
    return Packed(job, done.imported, module, left, operations, tuple(texts), tried, done.programs, attention)


def find_regions(packed: Packed) -> Lowered:
    """Returns the packed module's regions, those that a cache has as the last stage leaves them."""
    job, stages = packed.job, {stage.name: stage.run for stage in REGION_STAGES}
    lowered = {**packed.tried, **({} if job.measure is None else job.measure.lowered)}
    assistant = job.helpers.assistant
    beside = None if assistant is None else partial(assistant.lower, job.target)
    regions = RegionCache(packed.module, job.target, stages, job.cache, lowered, beside, texts=job.texts)
    return Lowered(job, packed, regions)


def lower_regions(stage: RegionStage) -> Callable[[Lowered], Lowered]:
    """Returns the step that runs a stage on every region that no cache had."""

    def lower(done: Lowered) -> Lowered:
        done.regions.lower(stage.name)
        return replace(done, stage=stage.name)

    return lower


def emit_program(done: Lowered) -> Emitted:
    """Returns the program for the job's accelerator, and forgets what it was linked from.

    Inputs and outputs are called as the model's are.
    """
    accelerator = done.job.accelerator
    emitted = _emitted(done, done.job.options.depth_first, done.regions.release)
    again = None if emitted.again is None else replace(emitted.again, accelerator=accelerator)
    return replace(emitted, program=replace(emitted.program, accelerator=accelerator), again=again)


def _emitted(done: Lowered, depth_first: DepthFirst, linked: Callable[[str], None] | None = None) -> Emitted:
    job, info, accelerator = done.job, done.job.info, done.job.target.accelerator
    lowered, arrange = done.regions.lowered(), arrangement_of(accelerator)
    buffers = {name: region.placed_buffers(accelerator) for name, region in lowered.objects.items()}
    apart = program = emit(lowered, accelerator, arrange, linked, reserved=reserved_bytes(accelerator))
    if job.options.launches == "joined":
        program = join_launches(program, family_of(accelerator))
    ours, theirs = (*program.inputs, *program.outputs), (*info.inputs, *info.outputs)
    names = {old: tensor.name for old, tensor in zip(ours, theirs, strict=True)}
    program = renamed(program, names)
    fed = {name: job.feeds[tensor.name] for name, tensor in zip(program.inputs, info.inputs, strict=True)}
    functions = [CompiledFunction(name=name, cached=cached) for name, cached in done.regions.cached.items()]
    program = replace(program, image=program.image | fed)
    in_dram = program
    if job.options.on_chip == "auto":
        program = _with_results_kept(done, program, depth_first)
    modules = Modules(done.packed, done.regions, in_dram if program.residents else None)
    packed = done.packed
    again = None
    if job.options.repeat > 1:  # where results stay accesses order themselves, so that inputs follow as they are
        alone = renamed(apart, names)
        again = program if program.residents else replace(alone, image=alone.image | fed)
    biases, operations = packed.imported.biases, packed.operations
    known = biases, functions, buffers, modules, again
    return Emitted(job, program, packed.host_ops, operations, *known, packed.attention)


def _with_results_kept(done: Lowered, program: Program, depth_first: DepthFirst) -> Program:
    """A program whose results stay on the chip where that is better; as it was found to be, if it was tried before."""
    job = done.job
    known = done.packed.programs.get(words_digest(program)) if done.packed.programs else None
    if known is not None:
        same = {name: getattr(known, name) for name in ("steps", "words", "origin", "residents", "striped")}
        return replace(program, **same)
    # results of vector programs are held against their bounds, so that they are stored in any case
    stored = rounds_floats(job.target)
    return keep_results(program, family_of(job.target.accelerator), stored=stored, depth_first=depth_first)


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
