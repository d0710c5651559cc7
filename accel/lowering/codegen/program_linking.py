"""Emit: the allocated module becomes a Program: DRAM map, launches with their words and origins, host steps."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
from tvm import ir, relax, tirx

from accel.accelerator.document import Accelerator
from accel.accelerator.instructions import Compute, Copy, Layer
from accel.errors import CompiledTooLarge, CompileError
from accel.frontend.integer_recovery.recover_integers import HOST_NODES
from accel.host.host_graph import HostGraph, write_host_graph
from accel.host.relax_rules import RULES
from accel.host.relax_translation import UntranslatableError, translate
from accel.lowering.codegen.dram_map import DramMap, dram_alignment, table_unit
from accel.lowering.codegen.microop_tables import expand_tables, microops_of
from accel.lowering.codegen.region_object import LoweredModule
from accel.lowering.ir.function_attributes import LAUNCHES, LaunchInfo, load_launches
from accel.lowering.ir.host_runs import (
    HostRun,
    LaunchRun,
    free_vars,
    host_module,
    main_results,
    needed_bindings,
    split_main,
    wholes,
)
from accel.program.program_model import MOST_INSTRUCTIONS, HostStep, InstructionOrigin, Launch, Program, Segment
from accel.program.written_tensors import read_unwritten
from accel.util.arrays import Int64, Words
from accel.util.pending_work import PendingWork

Arrange = Callable[[Words], tuple[Words, Int64]]
"""A launch's words (n, words_each) as they are sent, and the places (n,) where they stood."""


def emit(
    module: LoweredModule | ir.IRModule,
    accelerator: Accelerator,
    arrange: Arrange | None = None,
    linked: Callable[[str], None] | None = None,
    *,
    reserved: int = 0,
) -> Program:
    """The program of a module whose regions are compiled, or of an allocated one.

    Args:
        module: the module.
        accelerator: the document.
        arrange: how the instructions of a launch are sent; None: as the function's text has them.
        linked: told of each function when the last of its launches is linked; its object may be forgotten then.
        reserved: bytes from address 0 of DRAM on from which no launch loads.

    Raises:
        CompileError: a field that cannot hold its value, a tensor that nothing makes, or more DRAM than can be
            addressed.
    """
    lowered = module if isinstance(module, LoweredModule) else LoweredModule.of(module, accelerator)
    return _Emitter(lowered, accelerator, arrange, linked, reserved).program()


def outline(module: ir.IRModule, accelerator: Accelerator) -> tuple[Program, list[HostGraph]]:
    """The program of a packed module without instructions, and apart from it the graphs of its host steps.

    Steps and DRAM map are as :func:`emit` makes them; tables of micro-ops, which follow from the instructions, are not
    there.

    Raises:
        CompileError: a step that the host cannot run, or more DRAM than can be addressed.
    """
    walk = _Outline(LoweredModule(module, {}), accelerator, None)
    return walk.program(), walk.graphs


class _Emitter:
    """Walks ``main`` once, placing tensors as they are first met."""

    def __init__(
        self,
        lowered: LoweredModule,
        accelerator: Accelerator,
        arrange: Arrange | None,
        linked: Callable[[str], None] | None = None,
        reserved: int = 0,
    ) -> None:
        module = lowered.module
        self.arrange, self.linked, self.reserved = arrange, linked, reserved
        self.arranging = PendingWork[None]("arrange")  # by kernels, which do not hold Python's lock
        self.left = Counter[str]()  # launches of each function that are not linked yet
        self.module = module
        self.accelerator = accelerator
        self.dram = DramMap(dram_alignment(accelerator))
        self.places: dict[relax.Var, Segment] = {}
        self.planes: dict[relax.Var, list[Segment]] = {}
        self.wholes = wholes(module)
        self.nodes: dict[str, str] = json.loads(str(module["main"].attrs[HOST_NODES]))
        self.launches: dict[str, LaunchInfo] = load_launches(str(module["main"].attrs[LAUNCHES]))
        self.objects = lowered.objects
        self.microops: dict[str, Segment] = {}
        self.steps: list[Launch | HostStep] = []
        self.words: npt.NDArray[np.uint64] = np.zeros((0, accelerator.word_bits // 64), np.uint64)
        self.origin: npt.NDArray[np.int32] = np.zeros(0, np.int32)
        self.count = 0  # of instructions so far
        self.origins: list[InstructionOrigin] = []

    def program(self) -> Program:
        main, runs = self.module["main"], split_main(self.module)
        if any(isinstance(run, LaunchRun) and _reads_first(run, main.params) for run in runs):
            self.dram.reserve(self.reserved)
        for parameter in main.params:
            self._place(parameter)
        self._reserve(runs)
        results = main_results(main)
        last_read = _last_reads(runs) | dict.fromkeys(results, len(runs))
        with self.arranging:
            for index, run in enumerate(runs):
                if isinstance(run, LaunchRun):
                    self._launch(run)
                else:
                    self._host(run, {b.var for b in run.bindings if last_read.get(b.var, -1) > index})
            self.arranging.finish()
        program = Program(
            accelerator=self.accelerator,
            segments=self.dram.segments,
            image=self.dram.image,
            inputs=tuple(self.places[parameter].name for parameter in main.params),
            outputs=tuple(self._output(result, index) for index, result in enumerate(results)),
            steps=tuple(self.steps),
            words=self.words[: self.count],
            origin=self.origin[: self.count],
            origins=tuple(self.origins),
            dram_bytes=self.dram.top,
        )
        _check_written(program)
        return program

    def _reserve(self, runs: list[HostRun | LaunchRun]) -> None:
        """Room for as many instructions as there may be; what linking leaves out is never touched: no memory."""
        names = [str(run.call.args[0].name_hint) for run in runs if isinstance(run, LaunchRun)]
        self.left.update(names)
        most = min(sum(len(self.objects[name].code.words) for name in names), MOST_INSTRUCTIONS)
        self.words = np.empty((most, self.accelerator.word_bits // 64), np.uint64)
        self.origin = np.empty(most, np.int32)

    def _output(self, result: relax.Expr, index: int) -> str:
        """The segment of a result of ``main``, which may be a constant."""
        if isinstance(result, relax.Var):
            return self._place(result).name
        return self.dram.constant(f"output{index}", result.value.numpy()).name

    def _place(self, var: relax.Var) -> Segment:
        var = self.wholes.get(var, var)
        if var not in self.places:
            shape = static_shape(var, self.nodes.get(str(var.name), str(var.name)))
            self.places[var] = self.dram.place(str(var.name), shape, str(var.ty.dtype))
        return self.places[var]

    def _host(self, run: HostRun, used: set[relax.Var]) -> None:
        for binding in run.bindings:  # a plane of a launch's result needs no step, only a name
            value = binding.value
            if isinstance(value, relax.TupleGetItem) and value.tuple_value in self.planes:
                self.places[binding.var] = self.planes[value.tuple_value][value.index]
        bindings = needed_bindings([binding for binding in run.bindings if binding.var not in self.places], used)
        outputs = [binding.var for binding in bindings if binding.var in used]
        if not outputs:
            return
        names = [str(binding.var.name) for binding in bindings]
        nodes = tuple(dict.fromkeys(self.nodes[name] for name in names if name in self.nodes))
        step, inputs = host_module(self.module, HostRun(bindings), outputs)
        taken, made = (tuple(self._place(var).name for var in group) for group in (inputs, outputs))
        try:
            graph = translate(step, RULES)
        except UntranslatableError as error:
            raise CompileError(
                f"the host cannot run {', '.join(nodes) or names[0]}: {error}", field=f"node:{[*nodes, ''][0]}"
            ) from error
        self.steps.append(
            HostStep(
                name=f"host{len(self.steps)}",
                module=self._text(graph),
                nodes=nodes,
                inputs=taken,
                outputs=made,
            )
        )

    def _text(self, graph: HostGraph) -> str:
        return write_host_graph(graph)

    def _launch(self, run: LaunchRun) -> None:
        function = str(run.call.args[0].name_hint)
        info = self.launches[str(run.var.name)]
        inputs = [self._argument(argument, info.name, i) for i, argument in enumerate(run.call.args[1].fields)]
        outputs = self._results(run.var)
        if info.border is not None:
            self.dram.fill(outputs, info.border)
        begin, table = self.count, self._link(function, [*inputs, *outputs], info)
        self.steps.append(
            Launch(
                name=info.name,
                op=info.op,
                nodes=info.nodes,
                begin=begin,
                count=self.count - begin,
                macs=info.macs,
                inputs=tuple(segment.name for segment in [*inputs, *table]),
                outputs=tuple(segment.name for segment in outputs),
            )
        )

    def _link(self, function: str, segments: Sequence[Segment], info: LaunchInfo) -> list[Segment]:
        """Append the instructions of a launch; returns the table of micro-ops that they walk, if any."""
        region, table = self.objects[function], self._microops(function)
        bases = [segment.address // unit for segment, unit in zip(segments, region.units, strict=True)]
        bases += [entry.address // table_unit(entry) for entry in table]
        words, origin = region.link(bases, self.accelerator)
        begin = self.count
        self.count += len(words)
        if self.count > MOST_INSTRUCTIONS:
            raise CompiledTooLarge(f"the model takes more than {MOST_INSTRUCTIONS} instructions, which is the limit")
        origin = origin + np.int32(len(self.origins))
        if self.arrange is None:
            self._put(begin, words, origin)
        else:
            self.arranging.add(partial(self._arrange_and_put, self.arrange, begin, words, origin))
        self._add_origins(function, info)
        self.left[function] -= 1
        if self.linked is not None and not self.left[function]:
            self.linked(function)
        return table

    def _arrange_and_put(self, arrange: Arrange, begin: int, words: Words, origin: npt.NDArray[np.int32]) -> None:
        arranged, places = arrange(words)
        self._put(begin, arranged, origin[places])

    def _put(self, begin: int, words: Words, origin: npt.NDArray[np.int32]) -> None:
        """Put the instructions of a launch into the program as they are sent."""
        self.words[begin : begin + len(words)] = words
        self.origin[begin : begin + len(words)] = origin

    def _argument(self, argument: relax.Expr, launch: str, index: int) -> Segment:
        if isinstance(argument, relax.Var):
            return self._place(argument)
        # the program's image and the module share it
        return self.dram.constant(f"{launch}.constant{index}", np.from_dlpack(argument.value))

    def _results(self, var: relax.Var) -> list[Segment]:
        if isinstance(var.ty, relax.TensorType):
            return [self._place(var)]
        segments = [
            self.dram.place(f"{var.name}.plane{i}", tuple(int(extent) for extent in ty.shape), str(ty.dtype))
            for i, ty in enumerate(var.ty.fields)
        ]
        self.planes[var] = segments
        return segments

    def _microops(self, function: str) -> list[Segment]:
        """The table of the function's micro-ops, if it walks any."""
        tables, layout = self.objects[function].tables, microops_of(self.accelerator)
        if not tables or layout is None:
            return []
        if function not in self.microops:
            self.microops[function] = self.dram.constant(f"{function}.microops", expand_tables(tables, layout))
        return [self.microops[function]]

    def _add_origins(self, function: str, info: LaunchInfo) -> None:
        layout = microops_of(self.accelerator)
        for site in self.objects[function].code.sites:
            instruction = self.accelerator.instruction(site.instruction)
            pragma = instruction.pragma if isinstance(instruction, Copy | Compute | Layer) else ""
            table = isinstance(instruction, Copy) and layout is not None and instruction.memory == layout.memory
            stage = "allocate" if table else "inject" if pragma else "sync"
            self.origins.append(InstructionOrigin(info.nodes, function, site.number, "" if table else pragma, stage))


class _Outline(_Emitter):
    """The same walk, with launches of no instructions and host steps without texts, whose graphs are kept."""

    def __init__(self, lowered: LoweredModule, accelerator: Accelerator, arrange: Arrange | None) -> None:
        super().__init__(lowered, accelerator, arrange)
        self.graphs: list[HostGraph] = []

    def _text(self, graph: HostGraph) -> str:
        self.graphs.append(graph)
        return ""

    def _reserve(self, runs: list[HostRun | LaunchRun]) -> None:
        """Nothing to have room for."""

    def _link(self, function: str, segments: Sequence[Segment], info: LaunchInfo) -> list[Segment]:  # noqa: ARG002
        return []


def _check_written(program: Program) -> None:
    """Refuse a program whose graph has lost what makes a tensor: it would compute with zeros."""
    found = read_unwritten(program)
    if found is not None:
        step, name = found
        reader = "the program's end" if step is None else step.name
        raise CompileError(f"nothing makes {name}, which {reader} reads", field=f"node:{reader}")


def static_shape(var: relax.Var, node: str) -> tuple[int, ...]:
    """The shape of a tensor that model node ``node`` makes, elements.

    Raises:
        CompileError: it depends on the data, so no place in DRAM can be kept for it.
    """
    shape = getattr(var.ty, "shape", None)
    if not isinstance(shape, relax.ShapeExpr) or not all(isinstance(extent, tirx.IntImm) for extent in shape.values):
        raise CompileError(f"the shape of what {node} makes depends on the data", field=f"node:{node}")
    return tuple(int(extent) for extent in shape.values)


def _reads_first(run: LaunchRun, parameters: Sequence[relax.Var]) -> bool:
    """Whether a launch reads what lies first: an input, or anything where there are none."""
    read = [argument for argument in run.call.args[1].fields if isinstance(argument, relax.Var)]
    return not parameters or any(parameters[0].same_as(argument) for argument in read)


def _last_reads(runs: list[HostRun | LaunchRun]) -> dict[relax.Expr, int]:
    """For each variable the last run that reads it."""
    last: dict[relax.Expr, int] = {}
    for index, run in enumerate(runs):
        values = [run.call] if isinstance(run, LaunchRun) else [binding.value for binding in run.bindings]
        last.update((var, index) for value in values for var in free_vars(value))
    return last
