"""What is wrong with an expression of an accelerator document."""

from accel.errors import InvalidAccelerator


class ExpressionError(InvalidAccelerator):
    """An expression that cannot be read, or that means nothing for the tensors it names."""
