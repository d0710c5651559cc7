"""A case of the catalogue: how to make a model in each of the opsets in which its exporters write it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import onnx

from tests.helpers.exported.graph import Exported

Body = Callable[[Exported], str | Sequence[str]]


@dataclass(frozen=True)
class Case:
    """``body`` adds the nodes and gives the outputs. ``host``: the operators that may be left to the host.

    ``share`` is the least share of the multiply-accumulates on the accelerator, ``cosine`` the least likeness of the
    outputs with what onnxruntime makes of the float model.
    """

    body: Body
    shapes: tuple[tuple[int, ...], ...]
    opsets: tuple[int, ...]
    host: frozenset[str] | None
    share: float
    cosine: float

    def model(self, opset: int) -> onnx.ModelProto:
        """The model in one opset."""
        graph = Exported(opset, *self.shapes)
        outputs = self.body(graph)
        return graph.model(*([outputs] if isinstance(outputs, str) else outputs))


class Catalogue(dict[str, Case]):
    """Cases by the names of the functions that make them."""

    def add(
        self,
        *shapes: tuple[int, ...],
        opsets: Sequence[int] = (13,),
        host: str | None = None,
        share: float = 1.0,
        cosine: float = 0.97,
    ) -> Callable[[Body], Body]:
        """Enter a function as a case; ``host`` are words."""

        def enter(body: Body) -> Body:
            allowed = None if host is None else frozenset(host.split())
            self[body.__name__] = Case(body, shapes or ((1, 16, 14, 14),), tuple(opsets), allowed, share, cosine)
            return body

        return enter
