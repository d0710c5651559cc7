"""How the elements of elementwise work are laid out: as an image that layers of images make or read, or as rows.

An image lies in blocks of channels. Of what has four axes and is no image, as heads of attention have, the second axis
is short, and blocks of it are nearly empty; the last one is what its layers sum over.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

from tvm import relax

from accel.frontend.integer_recovery.dataflow_block import Dataflow, shape_of

_IMAGE_AXES, _MATRIX_AXES = 4, 2
_OF_IMAGES = ("relax.nn.", "relax.image.")
_ROWS = frozenset(
    {
        "relax.broadcast_to", "relax.expand_dims", "relax.flatten", "relax.matmul", "relax.nn.layer_norm",
        "relax.nn.log_softmax", "relax.nn.rms_norm", "relax.nn.softmax", "relax.permute_dims", "relax.reshape",
        "relax.squeeze", "relax.take",
    }
)  # fmt: skip
_ELEMENTWISE = frozenset(
    f"relax.nn.{name}" for name in ("gelu", "gelu_tanh", "leakyrelu", "pad", "prelu", "relu", "silu")
)


def layout_of_elements(graph: Dataflow, value: relax.Expr) -> list[int]:
    """Returns the shape, of an image or of a matrix, as which the elements of an elementwise operator are computed.

    Args:
        graph: the operators as they were imported.
        value: what the operator makes.
    """
    shape = shape_of(value)
    image = len(shape) == _IMAGE_AXES and (not isinstance(value, relax.Var) or _is_image(graph, value))
    if image or len(shape) == _MATRIX_AXES:
        return shape
    return as_rows(shape)


def as_rows(shape: Sequence[int]) -> list[int]:
    """Returns the shape of a matrix of all rows along the last axis; of a scalar that of one element."""
    return [math.prod(shape[:-1]), math.prod(shape[-1:])]


def _is_image(graph: Dataflow, var: relax.Var) -> bool:
    """Whether layers of images make or read a tensor of four axes, or nothing that is known to be other."""

    def operands(of: relax.Var) -> Iterable[relax.Var]:
        call = graph.call(of)
        return () if call is None else relax.analysis.free_vars(call)

    def readers(of: relax.Var) -> Iterable[relax.Var]:
        return (binding.var for binding in graph.users(of))

    ends = [name for step in (operands, readers) for name in _ends(graph, var, step)]
    return not ends or any(name not in _ROWS for name in ends)


def _ends(graph: Dataflow, var: relax.Var, step: Callable[[relax.Var], Iterable[relax.Var]]) -> Iterator[str]:
    """Yields the layers, and what changes the order of elements, that elementwise operators lead to."""
    seen, pending = {str(var.name)}, [var]
    while pending:
        at = pending.pop()
        call = graph.call(at)
        name = "" if call is None else str(call.op.name)
        if name in _ROWS or (name.startswith(_OF_IMAGES) and name not in _ELEMENTWISE):
            yield name
            continue
        for other in step(at):
            if str(other.name) not in seen and not graph.is_constant(other):
                seen.add(str(other.name))
                pending.append(other)
