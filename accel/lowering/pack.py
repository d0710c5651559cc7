"""Pack: regions become calls of PrimFuncs over packed tensors; the host packs and unpacks only at their borders.

Where one region feeds another the packed tensor passes straight through.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tvm import ir, relax
from tvm_ffi import structural_map

from accel.accelerator.document import Accelerator
from accel.lowering import layout
from accel.lowering.attributes import LAUNCHES, REGION, LaunchInfo, Region, dump_launches, dump_region, region_of
from accel.lowering.composite import Composite, is_composite_call, read_composite
from accel.lowering.expressions import addition, convolution
from accel.lowering.geometry import Addition, Convolution, Packed


def pack(module: ir.IRModule, accelerator: Accelerator) -> ir.IRModule:
    """Rebuild ``main`` over packed tensors.

    Composites without a region are inlined as they are. The launches' names, nodes and MACs become an
    attribute of ``main``.
    """
    return _Packer(module, accelerator).module()


@dataclass(frozen=True)
class _Packed:
    """A value that exists packed: its variables (one a plane), its layout, and the shape it stands for."""

    planes: tuple[relax.Var, ...]
    packed: Packed
    shape: tuple[int, ...]


class _Packer:
    """``main`` being rebuilt: which values exist unpacked, packed, or both."""

    def __init__(self, module: ir.IRModule, accelerator: Accelerator) -> None:
        self.source = module
        self.accelerator = accelerator
        gemm = accelerator.contraction
        self.data_tile: tuple[int, int] = _pair(accelerator.memory(gemm.data.memory).shape)
        self.weight_tile: tuple[int, int] = _pair(accelerator.memory(gemm.weights.memory).shape)
        self.result_tile: tuple[int, int] = _pair(accelerator.memory(gemm.dst.memory).shape)
        self.builder = relax.BlockBuilder()
        self.plain: dict[relax.Var, relax.Expr] = {}
        self.packed: dict[relax.Var, _Packed] = {}
        self.launches: dict[str, LaunchInfo] = {}
        self.regions: dict[Region, ir.GlobalVar] = {}

    def module(self) -> ir.IRModule:
        main = self.source["main"]
        for variable, function in self.source.functions.items():
            if str(variable.name_hint) != "main" and region_of(function) is None:
                self.plain[variable] = self.builder.add_func(function, str(variable.name_hint))
        with self.builder.function("main", list(main.params), attrs=dict(main.attrs.items())):
            with self.builder.dataflow():
                for block in main.body.blocks:
                    for binding in block.bindings:
                        self._bind(binding)
                result = self.builder.emit_output(self._rebuilt(main.body.body))
            self.builder.emit_func_output(result)
        module = self.builder.get()
        module.update_func(
            module.get_global_var("main"), module["main"].with_attr(LAUNCHES, dump_launches(self.launches))
        )
        return module

    def _bind(self, binding: relax.VarBinding) -> None:
        var, value = binding.var, binding.value
        region = region_of(self.source[value.op]) if is_composite_call(self.source, value) else None
        if region is None:
            self.plain[var] = self.builder.emit(self._rebuilt(value), name_hint=str(var.name))
            return
        composite = read_composite(self.source[value.op])
        if isinstance(region.shape, Convolution):
            self.packed[var] = self._convolution(var, value, region, composite)
        else:
            self.packed[var] = self._addition(var, value, region, composite)

    def _rebuilt(self, value: relax.Expr) -> relax.Expr:
        """The value with its variables replaced by unpacked ones."""
        used = {leaf for leaf in relax.analysis.free_vars(value) if leaf in self.packed}
        for leaf in used:
            self._unpacked(leaf)
        return structural_map(
            value,
            [
                (relax.Var, lambda leaf: self.plain.get(leaf, leaf)),
                (ir.GlobalVar, lambda leaf: self.plain.get(leaf, leaf)),
            ],
        )

    def _unpacked(self, var: relax.Var) -> relax.Expr:
        if var not in self.plain:
            value = self.packed[var]
            tensor = layout.unpack_tensor(value.planes, value.shape, value.packed, self.result_tile)
            self.plain[var] = self.builder.emit(tensor, name_hint=f"{var.name}_unpacked")
        return self.plain[var]

    def _data(self, var: relax.Var, wanted: Packed, padding: layout.Pads) -> tuple[relax.Var, Packed]:
        """The operand packed, and its pitches: as it is if a region made it, else packed by the host."""
        known = self.packed.get(var)
        if known and len(known.planes) == 1 and not any(padding) and self.data_tile == self.result_tile:
            pitches = replace(wanted, pitch_h=known.packed.pitch_h, pitch_w=known.packed.pitch_w)
            if pitches == known.packed:
                return known.planes[0], pitches
        source = self._rebuilt(var)
        tensor = layout.pack_tensor(source, wanted, self.data_tile, padding)
        name = getattr(var, "name", "constant")
        return self.builder.emit(tensor, name_hint=f"{name}_packed"), wanted

    def _convolution(self, var: relax.Var, call: ir.Call, region: Region, composite: Composite) -> _Packed:
        conv = region.shape
        assert isinstance(conv, Convolution)
        data, packed = self._data(call.args[0], conv.data, conv.host_padding)
        conv = replace(conv, data=packed)
        weights = call.args[1].value.numpy()
        if composite.op == "dense":
            weights = weights.T[:, :, None, None]
        arguments = [data, relax.const(layout.pack_weights(weights, self.weight_tile))]
        if region.epilogue.has_bias:
            bias = _bias(call, composite, weights.shape[0])
            arguments.append(relax.const(layout.pack_bias(bias, conv.out_blocks, self.result_tile)))
        return self._launch(var, call, arguments, replace(region, shape=conv), composite)

    def _addition(self, var: relax.Var, call: ir.Call, region: Region, composite: Composite) -> _Packed:
        add = region.shape
        assert isinstance(add, Addition)
        operands = [
            self._data(argument, packed, (0, 0, 0, 0)) for argument, packed in zip(call.args, add.operands, strict=True)
        ]
        add = replace(add, operands=(operands[0][1], operands[1][1]))
        eyes = relax.const(layout.identities(add.shifts, self.weight_tile))
        arguments = [operands[0][0], operands[1][0], eyes]
        return self._launch(var, call, arguments, replace(region, shape=add), composite)

    def _region(self, region: Region, op: str) -> ir.GlobalVar:
        """The PrimFunc of a region; equal regions share one."""
        if region not in self.regions:
            if isinstance(region.shape, Convolution):
                function = convolution(region.shape, region.epilogue, region.tiling, self.accelerator)
            else:
                function = addition(region.shape, region.epilogue, region.tiling, self.accelerator)
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
    ) -> _Packed:
        function = self._region(region, composite.op)
        packed = _result(region)
        shape = layout.packed_shape(packed, self.result_tile)
        results = [relax.TensorType(list(shape), "int8") for _ in range(region.epilogue.planes)]
        out = results[0] if len(results) == 1 else results
        value = self.builder.emit(relax.call_tir(function, relax.Tuple(arguments), out), name_hint=str(var.name))
        macs = int(self.source[call.op].attrs.get("macs", 0))
        name = composite.nodes[0] if composite.nodes else str(var.name)
        self.launches[str(value.name)] = LaunchInfo(name, composite.op, composite.nodes, macs)
        planes = [value]
        if len(results) > 1:
            planes = [
                self.builder.emit(relax.TupleGetItem(value, i), name_hint=f"{var.name}_plane{i}")
                for i in range(len(results))
            ]
        return _Packed(tuple(planes), packed, composite.result)


def _result(region: Region) -> Packed:
    shape, tiling = region.shape, region.tiling
    if isinstance(shape, Convolution):
        size = (shape.data.batch, shape.out_blocks, shape.out_height, shape.out_width)
    else:
        first = shape.operands[0]
        size = (first.batch, first.blocks, first.height, first.width)
    return Packed(*size, pitch_h=tiling.out_pitch_h, pitch_w=tiling.out_pitch_w)


def _bias(call: ir.Call, composite: Composite, channels: int) -> Any:
    """The bias a channel, with the rounding constant added (int32, wrapping as the accumulators do)."""
    bias = call.args[2].value.numpy().ravel() if composite.has_bias else np.zeros(channels, dtype=np.int32)
    rounding = composite.steps[0][1] if composite.steps and composite.steps[0][0] == "add" else 0
    return bias.astype(np.int32) + np.int32(rounding)


def _pair(shape: tuple[int, ...]) -> tuple[int, int]:
    return shape[0], shape[1]
