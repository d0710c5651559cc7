"""A machine whose loads of data begin at whole elements alone: the host lays out the patches of a first layer."""

from accel.accelerator.document import Accelerator


def with_whole_elements(accelerator: Accelerator, name: str) -> Accelerator:
    """Returns a machine whose copy of that name counts DRAM in elements."""
    instructions = tuple(
        each.model_copy(update={"dram_unit": "element"}) if each.name == name else each
        for each in accelerator.instructions
    )
    return accelerator.model_copy(update={"instructions": instructions})
