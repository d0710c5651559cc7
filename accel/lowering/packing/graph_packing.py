"""Pack: regions become calls of PrimFuncs over packed tensors; the host packs and unpacks only at their borders.

Where one region feeds another the packed tensor passes straight through.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from tvm import ir, relax
from tvm_ffi import structural_map

from accel.accelerator.contraction import contraction
from accel.accelerator.document import Accelerator
from accel.lowering.analysis.composite import Composite, clip_bounds, is_composite_call, read_composite, shape_of
from accel.lowering.ir.function_attributes import (
    JOINED,
    LAUNCHES,
    REGION,
    LaunchInfo,
    dump_launches,
    dump_region,
    region_of,
)
from accel.lowering.packing import tiled_layout
from accel.lowering.packing.packed_constants import (
    bias_constant,
    bias_operands,
    channel_multipliers,
    convolution_weights,
    rounding_constant,
    weighted_identities,
)
from accel.lowering.packing.packed_values import (
    VIEWS,
    OperandLayout,
    PackedValue,
    PackedValues,
    are_whole_blocks,
    concatenate_blocks,
    have_one_layout,
    layout_as_read,
)
from accel.lowering.packing.region_expressions import region_function
from accel.region.elementwise import Elementwise
from accel.region.kinds import Region
from accel.region.pooling import Pooling
from accel.region.shapes import LEVEL_BITS, Addition, Convolution


def pack(module: ir.IRModule, accelerator: Accelerator) -> ir.IRModule:
    """Rebuild ``main`` over packed tensors.

    Composites without a region are inlined as they are. The launches' names, nodes and MACs become an
    attribute of ``main``.
    """
    return _Packer(module, accelerator).module()


class _Packer:
    """``main`` being rebuilt: which values exist unpacked, packed, or both."""

    def __init__(self, module: ir.IRModule, accelerator: Accelerator) -> None:
        self.source = module
        self.gemm = contraction(accelerator)
        self.builder = relax.BlockBuilder()
        self.values = PackedValues(self.builder, self.gemm)
        self.joined: dict[relax.Var, ir.Call] = {}
        self.launches: dict[str, LaunchInfo] = {}
        self.regions: dict[Region, ir.GlobalVar] = {}

    def module(self) -> ir.IRModule:
        main = self.source["main"]
        for variable, function in self.source.functions.items():
            if str(variable.name_hint) != "main" and region_of(function) is None:
                self.values.plain[variable] = self.builder.add_func(function, str(variable.name_hint))
        with self.builder.function("main", list(main.params), attrs=dict(main.attrs.items())):
            with self.builder.dataflow():
                for block in main.body.blocks:
                    for binding in block.bindings:
                        self._bind(binding)
                result = self.builder.emit_output(self.values.rebuilt(main.body.body))
            self.builder.emit_func_output(result)
        module = self.builder.get()
        module.update_func(
            module.get_global_var("main"), module["main"].with_attr(LAUNCHES, dump_launches(self.launches))
        )
        return module

    def _bind(self, binding: relax.VarBinding) -> None:
        var, value = binding.var, binding.value
        region = region_of(self.source[value.op]) if is_composite_call(self.source, value) else None
        if is_composite_call(self.source, value) and JOINED in self.source[value.op].attrs:
            self.joined[var] = value
            return
        if region is None:
            moved = self._concatenation(value) or self._pixel(value)
            if moved is not None:
                self.values.packed[var] = moved
                return
            self.values.plain[var] = self.builder.emit(self.values.rebuilt(value), name_hint=str(var.name))
            return
        composite = read_composite(self.source[value.op])
        if isinstance(region.shape, Convolution):
            packed = self._joined(var, value, region) or self._convolution(var, value, region, composite)
        elif isinstance(region.shape, Pooling | Elementwise):
            packed = self._lanewise(var, value, region, composite)
        else:
            packed = self._addition(var, value, region, composite)
        self.values.packed[var] = packed
        if region.host_reason:
            result = self.values.unpacked(var)
            self.values.plain[var] = (
                self._requantised(result, value, region, composite)
                if region.epilogue.wide
                else self._clipped(result, composite)
            )
            del self.values.packed[var]

    def _concatenation(self, value: relax.Expr) -> PackedValue | None:
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
            [operand.planes[0] for operand in known], [operand.packed for operand in known]
        )
        return PackedValue((self.builder.emit(tensor),), packed, shape_of(value))

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

    def _clipped(self, result: relax.Expr, composite: Composite) -> relax.Expr:
        """A result of int8 whose bounds the host sees to."""
        low, high = (relax.const(bound, "int8") for bound in clip_bounds(composite))
        return self.builder.emit(relax.op.minimum(self.builder.emit(relax.op.maximum(result, low)), high))

    def _requantised(self, accumulators: relax.Expr, call: ir.Call, region: Region, composite: Composite) -> relax.Expr:
        """What follows the accumulation in a composite, on the host, and the bias if that is not in yet."""
        added = region.epilogue.adds_bias or not composite.has_bias
        first = composite.first_step - int(not added)
        function = self.source[call.op]
        bindings = [binding for block in function.body.blocks for binding in block.bindings]
        known = dict(zip(function.params, call.args, strict=True)) | {bindings[first - 1].var: accumulators}
        for binding in bindings[first:]:
            value = structural_map(binding.value, (relax.Var, lambda leaf: known.get(leaf, leaf)))
            known[binding.var] = self.builder.emit(value, name_hint=str(binding.var.name))
        return known[bindings[-1].var]

    def _joined(self, var: relax.Var, addition: ir.Call, region: Region) -> PackedValue | None:
        """The region of an addition that an earlier contraction takes in; None if there is none."""
        conv = region.shape
        assert isinstance(conv, Convolution)
        if conv.addend is None:
            return None
        place = next(place for place, operand in enumerate(addition.args) if operand in self.joined)
        call = self.joined[addition.args[place]]
        first, second = (read_composite(self.source[made.op]) for made in (call, addition))
        addend, pitches = self.values.data(addition.args[1 - place], layout_as_read(conv.addend))
        region = replace(region, shape=replace(conv, addend=pitches))
        weights = relax.const(weighted_identities([[second.factors[1 - place]]], self.gemm)[0])
        composite = replace(first, nodes=(*first.nodes, *second.nodes), result=second.result)
        return self._convolution(var, call, region, composite, [addend, weights])

    def _convolution(
        self,
        var: relax.Var,
        call: ir.Call,
        region: Region,
        composite: Composite,
        more: Sequence[relax.Expr] = (),
    ) -> PackedValue:
        """A convolution, and what its epilogue takes beside the bias."""
        conv = region.shape
        assert isinstance(conv, Convolution)
        data, packed = self.values.data(call.args[0], conv)
        conv = replace(conv, data=packed)
        weights = convolution_weights(call, composite, conv, self.gemm)
        tiles = tiled_layout.pack_weights(weights, self.gemm.weights)
        if conv.uniform:
            tiles = tiled_layout.identities((0,), self.gemm).reshape(1, 1, 1, 1, *self.gemm.weights.shape)
        arguments = [data, relax.const(tiles)]
        bias = bias_constant(call, composite, region, weights, self.gemm)
        arguments += bias_operands(bias, region.epilogue, conv.out_blocks, self.gemm)
        if ("multiply_tensor", 0) in region.epilogue.steps:
            factors = channel_multipliers(call, composite, weights.shape[0])
            arguments.append(relax.const(tiled_layout.pack_bias(factors, conv.out_blocks, self.gemm.dst)))
        arguments += more
        return self._launch(var, call, arguments, replace(region, shape=conv), composite)

    def _addition(self, var: relax.Var, call: ir.Call, region: Region, composite: Composite) -> PackedValue:
        add = region.shape
        assert isinstance(add, Addition)
        first, second = (
            self.values.data(argument, layout_as_read(packed))
            for argument, packed in zip(call.args, add.operands, strict=True)
        )
        add = replace(add, operands=(first[1], second[1]))
        arguments = [first[0], second[0], relax.const(weighted_identities(add.levels, self.gemm))]
        if region.epilogue.start == "bias" or region.epilogue.has_bias:
            start = np.full(
                add.operands[0].blocks * self.gemm.out_channels, rounding_constant(composite, region), np.int32
            )
            if region.epilogue.start == "bias" and len(add.levels) > 1:
                start >>= LEVEL_BITS
            arguments.append(relax.const(tiled_layout.pack_bias(start, add.operands[0].blocks, self.gemm.dst)))
        return self._launch(var, call, arguments, replace(region, shape=add), composite)

    def _lanewise(self, var: relax.Var, call: ir.Call, region: Region, composite: Composite) -> PackedValue:
        shape = region.shape
        assert isinstance(shape, Pooling | Elementwise)
        padding = shape.host_padding if isinstance(shape, Pooling) else (0, 0, 0, 0)
        operands = [
            self.values.lanes(argument, OperandLayout(packed, padding, direct=shape.direct))
            for argument, packed in zip(call.args, shape.operands, strict=True)
        ]
        arguments = [operand for operand, _ in operands]
        if not shape.direct:
            arguments.append(relax.const(tiled_layout.diagonals(shape.factors, self.gemm)))
            if region.epilogue.start == "bias":
                arguments.append(relax.const(np.zeros(self.gemm.dst.shape, np.int32)))
        shape = shape.over(tuple(packed for _, packed in operands))
        return self._launch(var, call, arguments, replace(region, shape=shape), composite)

    def _region(self, region: Region, op: str) -> ir.GlobalVar:
        """The PrimFunc of a region; equal regions share one."""
        if region not in self.regions:
            function = region_function(region, self.gemm)
            name = f"{op}_{len(self.regions)}"
            function = function.with_attr("global_symbol", name).with_attr(REGION, dump_region(region))
            self.regions[region] = self.builder.add_func(function, name)
        return self.regions[region]

    def _launch(
        self,
        var: relax.Var,
        call: ir.Call,
        arguments: list[relax.Expr],
        region: Region,
        composite: Composite,
    ) -> PackedValue:
        function = self._region(region, composite.op)
        packed = region.result
        shape = tiled_layout.packed_shape(packed, self.gemm.dst)
        results = [relax.TensorType(list(shape), region.epilogue.result) for _ in range(region.epilogue.planes)]
        out = results[0] if len(results) == 1 else results
        value = self.builder.emit(relax.call_tir(function, relax.Tuple(arguments), out), name_hint=str(var.name))
        macs = int(self.source[call.op].attrs.get("macs", 0))
        name = composite.nodes[0] if composite.nodes else str(var.name)
        clips = bool(region.host_reason) and not region.epilogue.wide
        info = LaunchInfo(
            name, composite.op, composite.nodes, macs, region.host_reason, composite.nodes[1:] if clips else ()
        )
        self.launches[str(value.name)] = info
        planes = [value]
        if len(results) > 1:
            planes = [
                self.builder.emit(relax.TupleGetItem(value, i), name_hint=f"{var.name}_plane{i}")
                for i in range(len(results))
            ]
        return PackedValue(tuple(planes), packed, *_meant(region, composite))


def _meant(region: Region, composite: Composite) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    """The shape that a region's result stands for, and the image it is of if that is its pixels as rows."""
    if isinstance(region.shape, Convolution) and region.shape.of_rows:
        batch, channels, height, width = composite.result
        return (batch * height * width, channels), composite.result
    return composite.result, None
