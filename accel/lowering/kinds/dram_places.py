"""Where the parameters of a region's function lie in DRAM: in windows of larger images, blocks side by side.

A kind of region indexes an activation from its first row and column on, block by block. What lies around that is added
here to every index, and axes are put in the order of DRAM.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import ir, tirx
from tvm.ir import TensorLoad, TensorRegion
from tvm_ffi import structural_mutate

from accel.accelerator.contraction import Contraction, Tile
from accel.accelerator.memories import CHIP_ONLY
from accel.lowering.layout.tiled_layout import axes_in_dram, in_dram, weight_axes_in_dram
from accel.region.kinds import Region, lane_tile
from accel.region.shapes import Convolution, PackedActivation

_BLOCK, _COLUMN = 1, 3  # axes of a packed activation
WEIGHTS = "weights"  # the parameter of a convolution's weights


@dataclass(frozen=True)
class _Place:
    """Where the elements of a parameter are in a tensor of DRAM, which has numbers of types of the chip alone as int32.

    Attributes:
        shape: of the tensor, by the axes of the parameter.
        first: of the parameter's elements, by those axes.
        axes: which of them are those of the tensor, in its order.
        columns_as_blocks: neighbouring columns of the tensor that are blocks of the parameter.
    """

    shape: tuple[int, ...]
    first: tuple[int, ...]
    axes: tuple[int, ...]
    columns_as_blocks: int = 1

    def of(self, indices: Sequence[Any]) -> list[Any]:
        """Indices into the tensor in DRAM."""
        at = list(indices)
        if self.columns_as_blocks > 1:
            block, blocks = at[_BLOCK], self.shape[_BLOCK]
            at[_COLUMN] = at[_COLUMN] * self.columns_as_blocks + (
                block if blocks == 1 else tirx.floordiv(block, blocks)
            )
            at[_BLOCK] = tirx.const(0, "int32") if blocks == 1 else tirx.floormod(block, blocks)
        return [at[axis] + self.first[axis] if self.first[axis] else at[axis] for axis in self.axes]

    def region(self, ranges: Sequence[Any]) -> list[Any]:
        """Ranges of the tensor in DRAM; all of it where columns are blocks: what of that is touched nobody asks."""
        if self.columns_as_blocks > 1:
            return [ir.Range.from_min_extent(0, extent) for extent in in_dram(self.shape, self.axes)]
        least = self.of([each.min for each in ranges])
        extents = (ranges[axis].extent for axis in self.axes)
        return [ir.Range.from_min_extent(first, extent) for first, extent in zip(least, extents, strict=True)]


Activations = Mapping[str, PackedActivation]
"""How the activations among a function's parameters lie, by their names."""


def moved(function: tirx.PrimFunc, region: Region, gemm: Contraction, activations: Activations) -> dict[Any, _Place]:
    """The parameters that do not lie in DRAM as their kind indexes them, and where they do."""
    results = [str(parameter.name) for parameter in function.params[len(function.params) - region.epilogue.planes :]]
    data = lane_tile(gemm, direct=bool(getattr(region.shape, "direct", False)))
    layouts: dict[str, tuple[PackedActivation, Tile]] = {
        name: (layout, data) for name, layout in activations.items()
    } | dict.fromkeys(results, (region.result, gemm.dst))
    found = {}
    for parameter in function.params:
        name, shape = str(parameter.name), tuple(int(extent) for extent in parameter.shape)
        if name in layouts:
            found[parameter] = _place_of(shape, *layouts[name], region.tiling.columns_as_blocks)
        elif name == WEIGHTS and isinstance(region.shape, Convolution):
            found[parameter] = _Place(shape, (0,) * len(shape), weight_axes_in_dram(gemm.weights))
        elif str(parameter.dtype) in CHIP_ONLY:
            found[parameter] = _Place(shape, (0,) * len(shape), tuple(range(len(shape))))
    return {each: place for each, place in found.items() if not _is_own(place, each)}


def _place_of(shape: tuple[int, ...], layout: PackedActivation, tile: Tile, columns_as_blocks: int) -> _Place:
    images, blocks, _, _, *elements = shape
    whole = (images, blocks // columns_as_blocks, layout.pitch_h, layout.pitch_w, *elements)
    return _Place(whole, (0, 0, layout.top, layout.left, 0, 0), axes_in_dram(tile), columns_as_blocks)


def _is_own(place: _Place, parameter: Any) -> bool:
    shape = tuple(map(int, parameter.shape))
    if str(parameter.dtype) in CHIP_ONLY:
        return False
    return place.shape == shape and not any(place.first) and place.axes == tuple(range(len(shape)))


def _dtype_in_dram(parameter: Any) -> str:
    return "int32" if str(parameter.dtype) in CHIP_ONLY else str(parameter.dtype)


def in_images(function: tirx.PrimFunc, region: Region, gemm: Contraction, activations: Activations) -> tirx.PrimFunc:
    """The function with every index into a tensor where that lies in DRAM."""
    places = moved(function, region, gemm, activations)
    if not places:
        return function
    images = {
        parameter: (
            tirx.decl_buffer(in_dram(place.shape, place.axes), _dtype_in_dram(parameter), str(parameter.name)),
            place,
        )
        for parameter, place in places.items()
    }

    def load(value: TensorLoad, mutator: Any) -> Any:
        if value.source not in images:
            return mutator.default_mutate(value)
        image, place = images[value.source]
        element, dtype = image[tuple(place.of(value.indices))], str(value.ty.dtype)
        return element if str(image.dtype) == dtype else element.astype(dtype)

    def store(statement: tirx.BufferStore, mutator: Any) -> Any:
        if statement.buffer not in images:
            return mutator.default_mutate(statement)
        image, place = images[statement.buffer]
        return tirx.BufferStore(image, mutator.mutate(statement.value), place.of(statement.indices))

    def part(given: TensorRegion, _mutator: Any) -> TensorRegion:
        if given.source not in images:
            return given
        image, place = images[given.source]
        return tirx.BufferRegion(image, place.region(given.region))

    rules = [(TensorLoad, load), (tirx.BufferStore, store), (TensorRegion, part)]
    parameters = [images[each][0] if each in images else each for each in function.params]
    return tirx.PrimFunc(parameters, structural_mutate(function.body, rules), function.ret_type, function.attrs)
