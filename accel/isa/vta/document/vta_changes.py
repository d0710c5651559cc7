"""Changes of a VTA that ask for another program: larger memories, and a larger tile.

Where a document still has the shape of the configuration in its ``source``, it is derived from the changed one:
indices, micro-ops and tiles follow from the ten keys. Another has its fields widened one by one.
"""

from collections.abc import Collection, Iterator, Mapping
from functools import partial
from typing import Any

import pydantic

from accel.accelerator.base import DocumentPart
from accel.accelerator.document import Accelerator
from accel.errors import InvalidAccelerator
from accel.isa.document_changes import deepened, larger_memories, same_shape, titled, with_shape_of
from accel.isa.family import DocumentChange
from accel.isa.vta.document.vta_configuration import Variant, VtaConfig, buffer_key
from accel.isa.vta.document.vta_document import vta_accelerator

_Derived = tuple[VtaConfig, Variant]


def changes_of_vta(accelerator: Accelerator) -> Iterator[DocumentChange]:
    """Yields each memory twice as large, all of them, and a block of twice as many channels."""
    known = _derived_from(accelerator)
    yield from larger_memories(accelerator, deepened if known is None else partial(_deepened, known))
    if known is not None:
        config, variant = known
        larger = config.model_copy(update={"LOG_BLOCK": config.LOG_BLOCK + 1})
        change = f"tiles of {1 << larger.LOG_BATCH} x {1 << larger.LOG_BLOCK}"
        make = partial(_with_tile, accelerator, larger, variant, change)
        yield DocumentChange("tile", "the size of a tile", change, make)


class VtaChoices(VtaConfig, Variant):
    """All that a VTA's document is derived from: the ten keys, and the variant."""


def configuration_of_vta(accelerator: Accelerator) -> VtaChoices:
    """Returns the ten keys and the variant from which the document follows.

    Raises:
        InvalidAccelerator: it follows from none, or was changed since.
    """
    known = _derived_from(accelerator)
    if known is None:
        message = f"{accelerator.name} does not follow from a vta_config: it has none, or was changed since"
        raise InvalidAccelerator(message, field="accelerator")
    config, variant = known
    return VtaChoices.model_validate({**config.model_dump(), **variant.model_dump()})


def derived_vta(accelerator: Accelerator, configuration: DocumentPart) -> Accelerator:
    """Returns the document of other keys, or of another variant; what time it takes follows from these.

    Raises:
        InvalidAccelerator: there can be no such accelerator; ``field`` is the key to mend.
    """
    said = configuration.model_dump()
    config = VtaConfig.model_validate({key: said[key] for key in VtaConfig.model_fields})
    variant = Variant.model_validate({key: said[key] for key in Variant.model_fields})
    made = vta_accelerator(config, variant, name=accelerator.name, title=f"VTA {config.label}")
    return made.model_copy(update={"composites": accelerator.composites, "host": accelerator.host})


def _derived_from(accelerator: Accelerator) -> _Derived | None:
    """The configuration from which the document's shape follows; None where it has none, or was changed since."""
    source: Mapping[str, Any] = accelerator.source
    try:
        known = VtaConfig.model_validate(source["vta_config"]), Variant.model_validate(source.get("variant", {}))
        derived = _vta(accelerator, *known)
    except (KeyError, pydantic.ValidationError, InvalidAccelerator):
        return None
    return known if same_shape(accelerator, derived) else None


def _vta(accelerator: Accelerator, config: VtaConfig, variant: Variant) -> Accelerator:
    return vta_accelerator(config, variant, name=accelerator.name, title=accelerator.title)


def _deepened(known: _Derived, accelerator: Accelerator, names: Collection[str]) -> Accelerator:
    config, variant = known
    keys = {buffer_key(name): getattr(config, buffer_key(name)) + 1 for name in names}
    if variant.microop_depth is not None and "uop" in names:
        variant = variant.model_copy(update={"microop_depth": 2 * variant.microop_depth})
    return with_shape_of(accelerator, _vta(accelerator, config.model_copy(update=keys), variant))


def _with_tile(accelerator: Accelerator, config: VtaConfig, variant: Variant, change: str) -> Accelerator:
    return titled(with_shape_of(accelerator, _vta(accelerator, config, variant)), change)
