"""What a document of the family ``explicit`` says beside the common schema: nothing."""

from accel.accelerator.base import DocumentPart


class ExplicitParameters(DocumentPart):
    """There are none: the common schema says all."""
