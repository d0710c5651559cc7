"""What a document of the family ``explicit`` says beside the common schema: nothing."""

from accel.accelerator.base import Model


class ExplicitParameters(Model):
    """There are none: the common schema says all."""
