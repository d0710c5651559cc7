"""What the compiler must find in a document that agrees with itself: else nothing is compiled for it, or it is idle."""

from accel.accelerator.check_addresses import check_addresses
from accel.accelerator.check_capacity import check_capacity
from accel.accelerator.check_composites import check_composites
from accel.accelerator.check_copies import check_copies
from accel.accelerator.check_costs import check_energy
from accel.accelerator.check_reach import check_reach
from accel.accelerator.check_shadows import check_shadows
from accel.accelerator.check_tokens import check_tokens
from accel.accelerator.document import Accelerator


def check_compilable(accelerator: Accelerator) -> None:
    """Refuse a document that no program can be made for, and one with parts that no program can use.

    ``accelerator`` is one that :func:`accel.accelerator.check.check_document` takes.

    Raises:
        InvalidAccelerator: ``field`` is the path in the document.
    """
    check_reach(accelerator)
    check_copies(accelerator)
    check_shadows(accelerator)
    check_capacity(accelerator)
    check_addresses(accelerator)
    check_tokens(accelerator)
    check_composites(accelerator)
    check_energy(accelerator)
