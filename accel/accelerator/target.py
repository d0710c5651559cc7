"""A target: an accelerator, and what is derived from its document, each thing once."""

from collections.abc import Callable, Hashable
from functools import cached_property
from typing import TypeVar, cast

from accel.accelerator.contraction import Contraction, contraction
from accel.accelerator.document import Accelerator
from accel.accelerator.semantics import LayerSemantics, Semantics, all_layers, all_semantics

_T = TypeVar("_T")


class Target:
    """What a job compiles for: it makes one, and hands it to its stages.

    ``accelerator`` must not change meanwhile.
    """

    def __init__(self, accelerator: Accelerator) -> None:
        self.accelerator = accelerator
        self._derived: dict[Hashable, object] = {}

    @cached_property
    def semantics(self) -> tuple[Semantics, ...]:
        """All operations of all instructions, in the order of the document.

        Raises:
            ExpressionError: an expression that is none, or does not fit its operands.
        """
        return all_semantics(self.accelerator)

    @cached_property
    def layers(self) -> tuple[LayerSemantics, ...]:
        """All operations of instructions as large as a layer, in the order of the document.

        Raises:
            ExpressionError: an expression that is none, or does not fit its operands.
        """
        return all_layers(self.accelerator)

    @cached_property
    def contraction(self) -> Contraction:
        """The document's contraction: of several, the one with the largest tile.

        Raises:
            InvalidAccelerator: there is none; ``field`` is the path of the operation that comes nearest, or of all.
        """
        return contraction(self.accelerator, self.semantics)

    def derived(self, make: Callable[["Target"], _T]) -> _T:
        """Returns what ``make`` derives from the target, made at the first call: what a part of the compiler needs.

        Raises:
            Exception: as ``make`` does.
        """
        if make not in self._derived:
            self._derived[make] = make(self)
        return cast(_T, self._derived[make])
