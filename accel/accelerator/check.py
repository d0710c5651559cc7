"""What the parts of a document must agree on, whatever the family."""

from accel.accelerator.document import Accelerator


def check_document(accelerator: Accelerator) -> None:
    """..."""
