"""Pack: regions become calls of PrimFuncs over packed tensors; the host packs and unpacks only at their borders.

Where one region feeds another the packed tensor passes straight through.
"""

import json
from dataclasses import replace

from tvm import ir, relax, tirx
from tvm_ffi import structural_map

from accel.accelerator.contraction import Contraction
from accel.accelerator.target import Target
from accel.lowering.analysis.composite import (
    CompositeRegion,
    called_region,
    clip_bounds,
    is_composite_call,
    read_composite,
    shape_of,
)
from accel.lowering.analysis.image_padding import Padding
from accel.lowering.ir.function_attributes import (
    JOINED,
    LAUNCHES,
    REGION,
    STORED,
    LaunchInfo,
    dump_launches,
    dump_region,
    load_launches,
    region_of,
)
from accel.lowering.kinds.region_images import region_function
from accel.lowering.kinds.region_kind import JoinedCall, PackedRegion, PackRequest
from accel.lowering.kinds.registry import kind_of
from accel.lowering.layout import tiled_layout
from accel.lowering.packing.dram_borders import borders_of
from accel.lowering.packing.packed_values import (
    VIEWS,
    PackedValue,
    PackedValues,
    are_whole_blocks,
    concatenate_blocks,
    have_one_layout,
)
from accel.region.kinds import Region


def pack(module: ir.IRModule, target: Target, *, by_programs: bool = False) -> ir.IRModule:
    """Rebuild ``main`` over packed tensors; ``by_programs`` says that the accelerator may move what the host would.

    Composites without a region are inlined as they are. The launches' names, nodes and MACs become an
    attribute of ``main``, and so do the names of operators that stores have made superfluous.
    """
    return _Packer(module, target.contraction, by_programs=by_programs).module()


class _Packer:
    """``main`` being rebuilt: which values exist unpacked, packed, or both."""

    def __init__(self, module: ir.IRModule, gemm: Contraction, *, by_programs: bool) -> None:
        self.source = module
        self.gemm = gemm
        self.builder = relax.BlockBuilder()
        self.values = PackedValues(self.builder, self.gemm, by_programs=by_programs)
        self.joined: dict[relax.Var, ir.Call] = {}
        self.launches: dict[str, LaunchInfo] = {}
        attrs = module["main"].attrs
        self.programs = load_launches(str(attrs[LAUNCHES])) if LAUNCHES in attrs else {}
        self.regions: dict[Region, ir.GlobalVar] = {}
        self.borders = borders_of(module, gemm, by_programs=by_programs)
        self.stored: list[str] = []  # operators of the host that stores have made superfluous

    def module(self) -> ir.IRModule:
        main = self.source["main"]
        for variable, function in self.source.functions.items():
            program = isinstance(function, tirx.PrimFunc)  # a vector program, whose tensors lie as the model has them
            if str(variable.name_hint) != "main" and (program or region_of(function) is None):
                self.values.plain[variable] = self.builder.add_func(function, str(variable.name_hint))
        with self.builder.function("main", list(main.params), attrs=dict(main.attrs.items())):
            with self.builder.dataflow():
                for block in main.body.blocks:
                    for binding in block.bindings:
                        self._bind(binding)
                result = self.builder.emit_output(self.values.rebuilt(main.body.body))
            self.builder.emit_func_output(result)
        module = self.builder.get()
        packed = module["main"].with_attr(LAUNCHES, dump_launches(self.launches))
        module.update_func(module.get_global_var("main"), packed.with_attr(STORED, json.dumps(self.stored)))
        return module

    def _bind(self, binding: relax.VarBinding) -> None:
        var, value = binding.var, binding.value
        region = called_region(self.source, value)
        if is_composite_call(self.source, value) and JOINED in self.source[value.op].attrs:
            self.joined[var] = value
            return
        if region is None:
            moved = self._concatenation(var, value) or self._pixel(value) or self._bordered(var, value)
            if moved is not None:
                self.values.packed[var] = moved
                return
            made = self.builder.emit(self.values.rebuilt(value), name_hint=str(var.name))
            if str(var.name) in self.programs:
                self.launches[str(made.name)] = self.programs[str(var.name)]
            self.values.plain[var] = made
            return
        composite = read_composite(self.source[value.op])
        request = PackRequest(value, composite, region, self._joined_operand(value))
        made = kind_of(region).pack(request, self.values)
        self.values.packed[var] = self._launch(var, made, self.borders.get(var), _operations(request))
        if region.host_reason:
            result = self.values.unpacked(var)
            self.values.plain[var] = (
                self._requantised(result, value, region, composite)
                if region.epilogue.wide
                else self._clipped(result, composite)
            )
            del self.values.packed[var]

    def _concatenation(self, var: relax.Var, value: relax.Expr) -> PackedValue | None:
        """A concatenation of results of regions as they lie; None if it is something else, or cannot be."""
        if not isinstance(value, ir.Call) or value.op != ir.Op.get("relax.concat"):
            return None
        operands = [self.values.packed.get(operand) for operand in value.args[0]]
        known = [operand for operand in operands if operand is not None and operand.lanes]
        axis = int(value.attrs.axis)
        channels = self.gemm.dst.extent("n")
        if len(known) < len(operands) or not are_whole_blocks([operand.shape for operand in known], axis, channels):
            return None
        tensor, packed = concatenate_blocks(
            [operand.planes[0] for operand in known], [operand.packed for operand in known], self.gemm.dst
        )
        borders = {operand.border for operand in known}
        border = borders.pop() if len(borders) == 1 and any(packed.around) else None
        made = self.builder.emit(tensor, name_hint=str(var.name))  # by which a report knows the node
        return PackedValue((made,), packed, shape_of(value), border=border)

    def _bordered(self, var: relax.Var, value: relax.Expr) -> PackedValue | None:
        """A result that is padded, where the padding is its border in DRAM; None for all else."""
        padded = self.values.put_around(value)
        if padded is not None:
            self.stored.append(str(var.name))
        return padded

    def _pixel(self, value: relax.Expr) -> PackedValue | None:
        """An image of one pixel seen as a matrix, or the other way round, which lies as it did; None for all else."""
        if not isinstance(value, ir.Call) or not isinstance(value.op, ir.Op) or value.op.name not in VIEWS:
            return None
        if not isinstance(value.args[0], relax.Var):
            return None
        known = self.values.packed.get(value.args[0])
        if known is None or not known.lanes or not have_one_layout(known.packed, known.shape, shape_of(value)):
            return None
        return replace(known, shape=shape_of(value))

    def _clipped(self, result: relax.Expr, composite: CompositeRegion) -> relax.Expr:
        """A result of int8 whose bounds the host sees to."""
        low, high = (relax.const(bound, "int8") for bound in clip_bounds(composite))
        return self.builder.emit(relax.op.minimum(self.builder.emit(relax.op.maximum(result, low)), high))

    def _requantised(
        self, accumulators: relax.Expr, call: ir.Call, region: Region, composite: CompositeRegion
    ) -> relax.Expr:
        """What follows the accumulation in a composite, on the host, and the bias if that is not in yet."""
        function = self.source[call.op]
        added = composite.has_bias and region.epilogue.adds_bias
        taken = function.params[composite.parameters.index("b" if added else "w")]  # the last that is in the sums
        bindings = [binding for block in function.body.blocks for binding in block.bindings]
        last = next(at for at, binding in enumerate(bindings) if _reads(binding.value, taken))
        known = dict(zip(function.params, call.args, strict=True)) | {bindings[last].var: accumulators}
        for binding in bindings[last + 1 :]:
            value = structural_map(binding.value, (relax.Var, lambda leaf: known.get(leaf, leaf)))
            known[binding.var] = self.builder.emit(value, name_hint=str(binding.var.name))
        return known[bindings[-1].var]

    def _joined_operand(self, call: ir.Call) -> JoinedCall | None:
        """The contraction that an addition takes in; None if there is none."""
        for place, operand in enumerate(call.args):
            if isinstance(operand, relax.Var) and operand in self.joined:
                joined = self.joined[operand]
                return JoinedCall(place, joined, read_composite(self.source[joined.op]))
        return None

    def _region(self, region: Region, op: str) -> ir.GlobalVar:
        """The PrimFunc of a region; equal regions share one."""
        if region not in self.regions:
            function = region_function(region, self.gemm)
            function = function.with_attr(REGION, dump_region(region))
            variable = self.builder.add_func(function, f"{op}_{len(self.regions)}")
            # a composite of the host's may have the name
            self.builder.update_func(variable, function.with_attr("global_symbol", str(variable.name_hint)))
            self.regions[region] = variable
        return self.regions[region]

    def _launch(self, var: relax.Var, made: PackedRegion, border: Padding | None, operations: int) -> PackedValue:
        region, composite = made.region, made.composite
        if border is not None:
            region = replace(region, border=border.sides)
        function = self._region(region, composite.op)
        packed = region.result
        dst = self.gemm.dst
        shape = tiled_layout.in_dram(tiled_layout.packed_shape(packed, dst), tiled_layout.axes_in_dram(dst))
        results = [relax.TensorType(list(shape), region.epilogue.result) for _ in range(region.epilogue.planes)]
        out = results[0] if len(results) == 1 else results
        value = self.builder.emit(relax.call_tir(function, relax.Tuple(made.arguments), out), name_hint=str(var.name))
        name = composite.nodes[0] if composite.nodes else str(var.name)
        clips = bool(region.host_reason) and not region.epilogue.wide
        info = LaunchInfo(
            name,
            composite.op,
            composite.nodes,
            composite.macs,
            region.host_reason,
            composite.nodes[1:] if clips else (),
            None if border is None else border.value,
            operations=operations,
        )
        self.launches[str(value.name)] = info
        planes = [value]
        if len(results) > 1:
            planes = [
                self.builder.emit(relax.TupleGetItem(value, i), name_hint=f"{var.name}_plane{i}")
                for i in range(len(results))
            ]
        return PackedValue(tuple(planes), packed, made.shape, made.image, made.stack, info.border)


def _operations(request: PackRequest) -> int:
    """The arithmetic of a region, without what the host finishes, and with a contraction that it takes in."""
    done = request.composite
    if request.region.host_reason and request.region.epilogue.wide:
        bias = done.has_bias and request.region.epilogue.adds_bias
        done = replace(done, narrow=False, has_bias=bias)
    return done.operations + (request.joined.composite.operations if request.joined is not None else 0)


def _reads(call: ir.Call, parameter: relax.Var) -> bool:
    return any(parameter.same_as(argument) for argument in call.args)
