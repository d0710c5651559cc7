"""What VTA's passes and kernels assume of a document."""

from accel.accelerator.document import Accelerator


def check_vta(accelerator: Accelerator) -> None:
    """..."""
