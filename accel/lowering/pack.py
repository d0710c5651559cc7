"""Pack: regions become calls of PrimFuncs over packed tensors; the host packs and unpacks only at their borders.

Where one region feeds another the packed tensor passes straight through.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from tvm import ir, relax
from tvm_ffi import structural_map

from accel.accelerator.document import Accelerator
from accel.accelerator.roles import contraction
from accel.lowering import layout
from accel.lowering.attributes import LAUNCHES, REGION, LaunchInfo, Region, dump_launches, dump_region, region_of
from accel.lowering.composite import Composite, is_composite_call, read_composite
from accel.lowering.expressions import addition, convolution
from accel.lowering.geometry import Addition, Convolution, Packed, Shifting
from accel.lowering.groups import merged_weights


def pack(module: ir.IRModule, accelerator: Accelerator) -> ir.IRModule:
    """Rebuild ``main`` over packed tensors.

    Composites without a region are inlined as they are. The launches' names, nodes and MACs become an
    attribute of ``main``.
    """
    return _Packer(module, accelerator).module()


@dataclass(frozen=True)
class _Packed:
    """A value that exists packed: its variables (one a plane), its layout, and the shape it stands for.

    ``image`` is that of the image whose pixels are the rows of a matrix, if it is one.
    """

    planes: tuple[relax.Var, ...]
    packed: Packed
    shape: tuple[int, ...]
    image: tuple[int, ...] | None = None


class _Packer:
    """``main`` being rebuilt: which values exist unpacked, packed, or both."""

    def __init__(self, module: ir.IRModule, accelerator: Accelerator) -> None:
        self.source = module
        self.gemm = contraction(accelerator)
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
            packed = self._convolution(var, value, region, composite)
        else:
            packed = self._addition(var, value, region, composite)
        self.packed[var] = packed
        if region.host_reason:
            added = region.epilogue.has_bias or region.epilogue.start == "bias" or not composite.has_bias
            first = composite.first_step - int(not added)
            self.plain[var] = self._finished(self._unpacked(var), value, first)
            del self.packed[var]

    def _finished(self, accumulators: relax.Expr, call: ir.Call, first: int) -> relax.Expr:
        """What follows the accumulation in a composite, on the host: its bindings from ``first`` on."""
        function = self.source[call.op]
        bindings = [binding for block in function.body.blocks for binding in block.bindings]
        known = dict(zip(function.params, call.args, strict=True)) | {bindings[first - 1].var: accumulators}
        for binding in bindings[first:]:
            value = structural_map(binding.value, (relax.Var, lambda leaf: known.get(leaf, leaf)))
            known[binding.var] = self.builder.emit(value, name_hint=str(binding.var.name))
        return known[bindings[-1].var]

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
            tensor = layout.unpack_tensor(value.planes, value.shape, value.packed, self.gemm.dst)
            if value.image is not None:
                tensor = layout.fold(tensor, value.image)
            self.plain[var] = self.builder.emit(tensor, name_hint=f"{var.name}_unpacked")
        return self.plain[var]

    def _data(self, var: relax.Var, conv: Convolution) -> tuple[relax.Var, Packed]:
        """The operand packed, and its pitches: as it is if a region made it, else packed by the host."""
        known = self.packed.get(var)
        wanted, padding = conv.data, conv.host_padding
        if known and self._passes(known) and not any(padding) and conv.unfolded is None:
            pitches = replace(wanted, pitch_h=known.packed.pitch_h, pitch_w=known.packed.pitch_w)
            if pitches == known.packed:
                return known.planes[0], pitches
        source = self._rebuilt(var)
        if conv.unfolded is not None:
            source = self._unfolded(source, conv)
        tensor = layout.pack_tensor(source, wanted, self.gemm.data, padding)
        name = getattr(var, "name", "constant")
        return self.builder.emit(tensor, name_hint=f"{name}_packed"), wanted

    def _passes(self, value: _Packed) -> bool:
        """Whether a result can be the data of another region as it is."""
        data, dst = self.gemm.data, self.gemm.dst
        rows = {"m": "m", "n": "k"}  # a result's channels are summed by its reader
        alike = tuple(rows[axis] for axis in dst.axes) == data.axes and dst.shape == data.shape
        dtype = str(value.planes[0].ty.dtype)
        return len(value.planes) == 1 and alike and value.image is None and dtype == data.memory.dtype

    def _unfolded(self, source: relax.Expr, conv: Convolution) -> relax.Expr:
        source, window = self.builder.emit(source), conv.unfolded
        assert window is not None
        channels, height, width = (int(source.ty.shape[axis]) for axis in (1, 2, 3))
        if conv.groups > 1:
            channels = conv.data.blocks * self.gemm.in_channels // (window.kernel[0] * window.kernel[1])
        top, left, bottom, right = window.padding
        rows = (
            (height + top + bottom - (window.kernel[0] - 1) * window.dilation[0] - 1) // window.strides[0] + 1,
            (width + left + right - (window.kernel[1] - 1) * window.dilation[1] - 1) // window.strides[1] + 1,
        )
        return self.builder.normalize(layout.unfold(source, window, rows, channels, conv.groups))

    def _convolution(self, var: relax.Var, call: ir.Call, region: Region, composite: Composite) -> _Packed:
        conv = region.shape
        assert isinstance(conv, Convolution)
        data, packed = self._data(call.args[0], conv)
        conv = replace(conv, data=packed)
        weights = call.args[1].value.numpy()
        if composite.op == "dense":
            weights = weights.T[:, :, None, None]
        else:
            weights = merged_weights(weights, composite.groups, composite.lots(self.gemm))
        if conv.unfolded is not None:
            weights = layout.unfold_weights(weights)
        tiles = layout.pack_weights(weights, self.gemm.weights)
        if conv.uniform:
            tiles = layout.identities((0,), self.gemm).reshape(1, 1, 1, 1, *self.gemm.weights.shape)
        arguments = [data, relax.const(tiles)]
        epilogue = region.epilogue
        if epilogue.has_bias or epilogue.start == "bias":
            bias = _bias(call, composite, region, weights)
            if self.gemm.data.memory.dtype == "uint8":
                bias = bias - np.int32(layout.OFFSET) * weights.astype(np.int32).sum(axis=(1, 2, 3), dtype=np.int32)
            arguments.append(relax.const(layout.pack_bias(bias, conv.out_blocks, self.gemm.dst)))
        return self._launch(var, call, arguments, replace(region, shape=conv), composite)

    def _addition(self, var: relax.Var, call: ir.Call, region: Region, composite: Composite) -> _Packed:
        add = region.shape
        assert isinstance(add, Addition)
        first, second = (
            self._data(argument, _plain(packed)) for argument, packed in zip(call.args, add.operands, strict=True)
        )
        add = replace(add, operands=(first[1], second[1]))
        arguments = [first[0], second[0], relax.const(layout.identities(add.shifts, self.gemm))]
        if region.epilogue.start == "bias":
            start = np.full(add.operands[0].blocks * self.gemm.out_channels, _rounding(composite, region), np.int32)
            arguments.append(relax.const(layout.pack_bias(start, add.operands[0].blocks, self.gemm.dst)))
        return self._launch(var, call, arguments, replace(region, shape=add), composite)

    def _region(self, region: Region, op: str) -> ir.GlobalVar:
        """The PrimFunc of a region; equal regions share one."""
        if region not in self.regions:
            if isinstance(region.shape, Convolution):
                function = convolution(region.shape, region.epilogue, region.tiling, self.gemm)
            else:
                function = addition(region.shape, region.epilogue, region.tiling, self.gemm)
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
        shape = layout.packed_shape(packed, self.gemm.dst)
        results = [relax.TensorType(list(shape), region.epilogue.result) for _ in range(region.epilogue.planes)]
        out = results[0] if len(results) == 1 else results
        value = self.builder.emit(relax.call_tir(function, relax.Tuple(arguments), out), name_hint=str(var.name))
        macs = int(self.source[call.op].attrs.get("macs", 0))
        name = composite.nodes[0] if composite.nodes else str(var.name)
        info = LaunchInfo(name, composite.op, composite.nodes, macs, region.host_reason)
        self.launches[str(value.name)] = info
        planes = [value]
        if len(results) > 1:
            planes = [
                self.builder.emit(relax.TupleGetItem(value, i), name_hint=f"{var.name}_plane{i}")
                for i in range(len(results))
            ]
        return _Packed(tuple(planes), packed, *_meant(region, composite))


def _result(region: Region) -> Packed:
    shape, tiling = region.shape, region.tiling
    if isinstance(shape, Convolution):
        size = (shape.data.batch, shape.out_blocks, shape.out_height, shape.out_width)
    else:
        first = shape.operands[0]
        size = (first.batch, first.blocks, first.height, first.width)
    return Packed(*size, pitch_h=tiling.out_pitch_h, pitch_w=tiling.out_pitch_w)


def _meant(region: Region, composite: Composite) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    """The shape that a region's result stands for, and the image it is of if that is its pixels as rows."""
    if isinstance(region.shape, Convolution) and region.shape.unfolded is not None:
        batch, channels, height, width = composite.result
        return (batch * height * width, channels), composite.result
    return composite.result, None


def _plain(packed: Packed) -> Convolution:
    """Data that are read as they are."""
    return Convolution(packed, 1, (1, 1), (1, 1), (1, 1), (0, 0, 0, 0), packed.height, packed.width)


def _bias(call: ir.Call, composite: Composite, region: Region, weights: npt.NDArray[np.int8]) -> npt.NDArray[np.int32]:
    """The bias a channel, with the rounding constant added where it has no step (int32, wrapping as they do)."""
    bias = np.zeros(weights.shape[0], np.int32)
    if composite.has_bias:
        given = call.args[2].value.numpy().ravel()
        bias[: given.size] = given
    return bias.astype(np.int32) + np.int32(_rounding(composite, region))


def _rounding(composite: Composite, region: Region) -> int:
    """What the accumulators begin with so that a shift rounds; 0 where a step or the store sees to that."""
    scaling, first = region.epilogue.scaling, composite.steps[:1]
    if not first or first[0][0] != "add" or region.host_reason or first == region.epilogue.steps[:1]:
        return 0
    return 0 if isinstance(scaling, Shifting) and scaling.rounds else first[0][1]
