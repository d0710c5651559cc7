"""The shape of a vector program: statements of one instruction each, over tensors of common axes, cut along some."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from accel.expression.parser import parse_statement
from accel.expression.syntax_tree import Statement

UNIT = -1
"""In place of an axis: a dimension of extent 1."""


def axis_name(axis: int) -> str:
    """Returns what statements call an axis."""
    return f"a{axis}"


def turned_axes(axes: tuple[int, ...]) -> tuple[int, ...]:
    """Returns axes with the last one outside all others."""
    return (*axes[-1:], *axes[:-1])


@dataclass(frozen=True)
class VectorTensor:
    """A tensor of a vector program: its axes by number, outermost first, and the memory where a tile of it lies.

    One in DRAM, as ``memory`` is empty, is there as a whole, one row behind the other; its dimensions of extent 1 are
    ``UNIT``. One on the chip has none of these.
    """

    name: str
    dtype: str
    axes: tuple[int, ...]
    memory: str = ""


@dataclass(frozen=True)
class Stream:
    """Statements that are done for one block of an axis after the other, though others combine along all of it.

    Those from ``first`` on and before ``last`` are: they leave in buffers what the next block goes on from. Statements
    before them are done once for a tile, and so are those behind, which read what the last block leaves.
    """

    axis: int
    first: int
    last: int


@dataclass(frozen=True)
class VectorProgram:
    """Statements over tiles: loads, arithmetic and stores, each of one instruction, in their order.

    Attributes:
        extents: of the axes.
        tile: elements of a tile along each axis; the last tile of one axis may have fewer, and the last block.
        tensors: those in DRAM, the operands first and then ``results`` of them, and the buffers on the chip.
        statements: in the language of documents; an access names the axes of its tensor, in their order.
        contexts: copies of each buffer, so that a tile may load while the one before computes; of one with a stream
            those of buffers that blocks alone use.
        stream: an axis that tiles walk in blocks, of as many elements as ``tile`` has of it; None where there is none.
        turned: numbers of the statements of which the last axis is walked outside all others.
        loads_again: whether each tile loads for itself what all have in common, behind what it needs before that.
    """

    kind: ClassVar[str] = "vector"

    extents: tuple[int, ...]
    tile: tuple[int, ...]
    tensors: tuple[VectorTensor, ...]
    results: int
    statements: tuple[str, ...]
    contexts: int
    stream: Stream | None = None
    turned: tuple[int, ...] = ()
    loads_again: bool = False

    @cached_property
    def parsed(self) -> tuple[Statement, ...]:
        """The statements as trees."""
        return tuple(parse_statement(text) for text in self.statements)

    @property
    def in_dram(self) -> tuple[VectorTensor, ...]:
        """The tensors in DRAM: operands, then results."""
        return tuple(tensor for tensor in self.tensors if not tensor.memory)

    @property
    def on_chip(self) -> tuple[VectorTensor, ...]:
        """The buffers."""
        return tuple(tensor for tensor in self.tensors if tensor.memory)

    def tensor(self, name: str) -> VectorTensor:
        """Returns the tensor of a name."""
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> dict[str, VectorTensor]:
        return {tensor.name: tensor for tensor in self.tensors}

    def dram_shape(self, tensor: VectorTensor) -> tuple[int, ...]:
        """Returns the shape of a tensor in DRAM."""
        return tuple(1 if axis == UNIT else self.extents[axis] for axis in tensor.axes)

    def parameter_shape(self, tensor: VectorTensor) -> tuple[int, ...]:
        """Returns the shape of a tensor in DRAM as a function's parameter, which has a dimension at least."""
        return self.dram_shape(tensor) or (1,)

    @property
    def cut(self) -> tuple[int, ...]:
        """The axes that have more than one tile."""
        return tuple(axis for axis, extent in enumerate(self.extents) if self.tile[axis] < extent)

    @property
    def tiled(self) -> tuple[int, ...]:
        """The axes that tiles are cut along, of which no statement goes on from one to the next."""
        return tuple(axis for axis in self.cut if self.stream is None or axis != self.stream.axis)

    @cached_property
    def of_blocks(self) -> frozenset[str]:
        """The buffers that only the statements of a stream use, by name; each block has them for itself."""
        if self.stream is None:
            return frozenset()
        inside, outside = set[str](), set[str]()
        for number, statement in enumerate(self.parsed):
            used = inside if self.stream.first <= number < self.stream.last else outside
            used.update((statement.target.name, *statement.operands))
        return frozenset(tensor.name for tensor in self.on_chip if tensor.name in inside - outside)

    def axes_of(self, statement: Statement) -> tuple[int, ...]:
        """Returns the axes that a statement walks, those of its target first."""
        return tuple(int(name[1:]) for name in statement.axes)

    def loops_of(self, statement: Statement) -> tuple[int, ...]:
        """Returns the axes in the order in which a statement of the program walks them, the outermost first."""
        axes = self.axes_of(statement)
        return turned_axes(axes) if self.turned and self.parsed.index(statement) in self.turned else axes

    @cached_property
    def shared(self) -> frozenset[str]:
        """The buffers that are loaded once for all tiles, by name."""
        return frozenset() if self.loads_again else loaded_once(self.parsed, self._by_name, self.cut)


def loaded_once(
    statements: Sequence[Statement], tensors: Mapping[str, VectorTensor], cut: Sequence[int]
) -> frozenset[str]:
    """Returns what on the chip all tiles have in common: loads of operands that have no axis of ``cut``."""
    writes = [statement.target.name for statement in statements]
    return frozenset(
        statement.target.name
        for statement in statements
        if cut
        and tensors[statement.target.name].memory
        and set(tensors[statement.target.name].axes).isdisjoint(cut)
        and writes.count(statement.target.name) == 1
        and statement.operands
        and all(not tensors[name].memory for name in statement.operands)
    )
