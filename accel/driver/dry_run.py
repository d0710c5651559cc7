"""A dry run: what of a model an accelerator would run, how, in how many cycles, and why not the rest.

Each launch is compiled and timed by itself, unlike ones once, or parts of it if it is large; what it computes is not
simulated. Where all were compiled whole, and are no more instructions than may run as one, they are put together as a
job does and timed so: launches that run on into one another take fewer cycles.
Tilings are chosen as by a job whose ``schedule`` is ``quick``; a
``timed`` one tries those that are priced alike, and may cut a layer otherwise.
"""

from collections.abc import Iterator
from typing import Any

import onnx
from tvm import ir

from accel.accelerator.document import Accelerator
from accel.accelerator.target import Target
from accel.driver.compilation import Compilation, CompilationInputs
from accel.driver.compile_stages import TO_PARTITION, pack_graph
from accel.driver.launch_estimate import joined_cycles, launch_cycles
from accel.driver.region_choice import planned_for
from accel.driver.run_options import Options, QuantisationOptions
from accel.driver.stage_chain import Unobserved
from accel.driver.trials.placement import estimated_end_to_end
from accel.driver.trials.region_timer import RegionTimer
from accel.frontend.onnx_model.node_origins import origins_of
from accel.frontend.onnx_model.onnx_nodes import name_nodes
from accel.frontend.quantize.quantize_model import is_quantised
from accel.frontend.read.load_model import LoadedModel, load_model
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.analysis.composite import CompositeRegion, called_region, read_composite
from accel.lowering.ir.function_attributes import LAUNCHES, dump_region, load_launches, region_of
from accel.lowering.ir.host_runs import LaunchRun, split_main, wholes
from accel.region.kinds import VectorRegion
from accel.region.tilings import Tiling
from accel.report.documents.plan_documents import Plan, PlannedLaunch, PlannedNode, UsedInstruction
from accel.report.documents.report_documents import HostOp, Macs
from accel.report.job_report import half_range_warnings, model_warnings, rounding_warnings
from accel.report.planned_launches import planned_launch, planned_program, used_instructions
from accel.report.provenance import NO_SOURCES, Sources, provenance, with_model
from accel.verify.input_tensors import Tensors

_AS_USUAL = Options()
_THAT_COUNT = {
    "seed", "host_nodes", "placement", "launches", "dims", "shapes", "attention", *QuantisationOptions.model_fields,
}  # fmt: skip
_MOST_TIMED = 256  # unlike launches that are compiled; further ones take what those of their shape and tiling do
_SPARE = 2_000_000  # instructions of large launches, as of dense layers where each takes a tile: some seconds


def plan_model(
    model: bytes,
    accelerator: Accelerator,
    options: Options = _AS_USUAL,
    *,
    calibration: Tensors | None = None,
    sources: Sources = NO_SOURCES,
) -> Plan:
    """Run the job's stages up to ``pack``, and tell what they decided: after it nothing moves to the host or from it.

    Args:
        model: an ONNX file, float32 or QDQ.
        accelerator: the target.
        options: of the job, of which those count that say how a model is read, quantised and placed.
        calibration: samples for each model input, as for a job; without any a float model gets random ones, as there.
        sources: the files that these were read from, for the plan.

    Raises:
        CyclopsError: what a job would raise before it compiles: of the model, the samples, or the accelerator.
    """
    loaded, known = load_model(model, axes=options.axes), with_model(sources, model)
    return plan_loaded_model(loaded, accelerator, options, calibration=calibration, sources=known)


def plan_loaded_model(
    model: LoadedModel,
    accelerator: Accelerator,
    options: Options = _AS_USUAL,
    *,
    calibration: Tensors | None = None,
    sources: Sources = NO_SOURCES,
) -> Plan:
    """Plan a model that is loaded with the axes of ``options``; the rest is as for a file.

    Raises:
        CyclopsError: as :func:`plan_model`.
    """
    target = Target(accelerator)
    capabilities = Capabilities.of(target)
    info, original = model.info, model.model
    quantised = is_quantised(original)
    options = Options(**options.model_dump(include=_THAT_COUNT))
    planned = Target(planned_for(accelerator, options))
    made_from = provenance(sources, accelerator, options.model_dump(mode="json", include=_THAT_COUNT))
    job = CompilationInputs(
        accelerator, planned, options, info, original, calibration, {}, made_from, traces_passes=False
    )
    chosen = TO_PARTITION.run(Compilation(job), Unobserved())
    packed = pack_graph(chosen)
    timer = RegionTimer(target, spare=_SPARE)
    launches = list(_launches(chosen.module, packed.module, capabilities, timer))
    join = options.launches == "joined"
    together = joined_cycles(packed.module, target, timer) if join else None
    if together is not None:
        launches = [
            launch.model_copy(update={"estimated_cycles": cycles})
            for launch, cycles in zip(launches, together, strict=True)
        ]
    macs = sum(launch.macs for launch in launches)
    centred = [each.source for each in packed.imported.activations if not quantised and each.zero_point == 0]
    return Plan(
        accelerator=accelerator.name,
        provenance=made_from,
        family=accelerator.family,
        quantisation="none" if quantised else "random samples" if calibration is None else "given samples",
        warnings=[
            *model_warnings(info),
            *rounding_warnings(packed.imported.biases, accelerator.title),
            *half_range_warnings(centred, original, accelerator.title),
        ],
        nodes=_nodes(original, launches, packed.host_ops, packed.imported.operators),
        launches=launches,
        macs=Macs(total=info.macs, accelerator=macs, share=macs / info.macs if info.macs else 0.0),
        estimated_cycles=sum(launch.estimated_cycles or 0 for launch in launches),
        end_to_end=estimated_end_to_end(
            packed.module, accelerator, [launch.estimated_cycles or 0 for launch in launches], join=join
        ),
    )


def _launches(
    chosen: ir.IRModule, packed: ir.IRModule, capabilities: Capabilities, timer: RegionTimer
) -> Iterator[PlannedLaunch]:
    """The launches in their order, which is that of the composites that partition gave a region."""
    cycles: dict[str, int | None] = {}
    alike: dict[tuple[object, Tiling | None], int | None] = {}
    instructions: dict[str, list[UsedInstruction]] = {}
    infos = load_launches(str(packed["main"].attrs[LAUNCHES]))
    runs = [run for run in split_main(packed) if isinstance(run, LaunchRun)]
    composites = _composites(chosen)
    made = {run.var for run in runs} | {*wholes(packed).values()}
    for run in runs:
        region = region_of(packed[run.call.args[0]])
        assert region is not None
        key = dump_region(region)
        form = (region.shape, None) if isinstance(region, VectorRegion) else (region.shape, region.tiling)
        if key not in cycles:
            cycles[key] = launch_cycles(region, timer) if len(cycles) < _MOST_TIMED else alike.get(form)
            alike[form] = cycles[key]
            instructions[key] = used_instructions(region, capabilities)
        info = infos[str(run.var.name)]
        if isinstance(region, VectorRegion):
            yield planned_program(info, region, capabilities.target, instructions[key], cycles[key])
        else:
            by_host = run.call.args[1].fields[0] not in made
            composite = next(composites)
            yield planned_launch(
                info, composite, region, capabilities, instructions[key], cycles[key], laid_out=by_host
            )


def _composites(module: ir.IRModule) -> Iterator[CompositeRegion]:
    """The composites that the accelerator runs, in the order of their calls."""
    for block in module["main"].body.blocks:
        for binding in block.bindings:
            if called_region(module, binding.value) is not None:
                yield read_composite(module[binding.value.op])


def _nodes(
    model: onnx.ModelProto, launches: list[PlannedLaunch], host: list[HostOp], operators: dict[str, str]
) -> list[PlannedNode]:
    """The nodes of the model as uploaded, then those of the quantised one that run somewhere."""
    named = onnx.ModelProto()
    named.CopyFrom(model)
    name_nodes(named)
    own = {name: op for node in named.graph.node for name, op in origins_of(node).items()}
    reasons = {op.node: op.reason for op in host}
    owners = {node: launch.name for launch in launches for node in launch.nodes}
    added = {name: operators.get(name, "QuantizeLinear") for name in (*reasons, *owners) if name not in own}
    return [
        PlannedNode(
            name=name,
            op=op,
            where=_where(on_host=name in reasons, on_accelerator=name in owners),
            launch=owners.get(name),
            reason=reasons.get(name),
            added=name in added,
        )
        for name, op in (own | added).items()
    ]


def _where(*, on_host: bool, on_accelerator: bool) -> Any:
    if on_host and on_accelerator:
        return "both"
    if on_accelerator:
        return "accelerator"
    return "host" if on_host else "nowhere"
