"""What is wrong with an expression of an accelerator document."""

from accel.errors import InvalidAccelerator


class ExpressionError(InvalidAccelerator):
    """An expression that cannot be read, or that means nothing for the tensors it names.

    ``row`` is the first instruction for which a cost has no value, where several were asked about.
    """

    def __init__(self, detail: str, *, row: int | None = None) -> None:
        super().__init__(detail)
        self.row = row
