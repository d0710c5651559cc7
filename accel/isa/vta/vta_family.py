"""VTA as a family of instruction sets."""

from collections.abc import Iterator

from accel.accelerator.base import DocumentPart
from accel.accelerator.document import Accelerator
from accel.isa.cost_expressions import energy_of
from accel.isa.family import DocumentChange, Family, KernelSource, Machine, NoContext, PreparedBySignatures, Variation
from accel.isa.kernels.compiled_kernels import Signature
from accel.isa.vta import vta_hazards
from accel.isa.vta.document.vta_changes import changes_of_vta, configuration_of_vta, derived_vta
from accel.isa.vta.document.vta_document_check import check_vta
from accel.isa.vta.document.vta_parameters import VtaParameters
from accel.isa.vta.function.functional_table import Geometry
from accel.isa.vta.function.launch_table import check_bounds, table_signature
from accel.isa.vta.timing.timing_table import timing_signatures
from accel.isa.vta.timing.vta_calibration import timing_model
from accel.isa.vta.timing.vta_timing import time_launch, token_names, variations_of
from accel.isa.vta.timing.vta_work import boxes_of, effort_of, work_of
from accel.isa.vta.vta_load_parts import load_grain, load_part, nominal
from accel.isa.vta.vta_placement import placed_launches
from accel.isa.vta.vta_tiling_cost import joined_tiling_cost, prices_exactly, tiling_cost
from accel.isa.vta.vta_touches import idle_words, touches_of


class VtaFamily(NoContext, PreparedBySignatures):
    """Where each part of :class:`accel.isa.family.Family` stands for VTA.

    What needs the compiler is imported where it is asked for: a document is checked without it.
    """

    name = "vta"

    parameters: type[DocumentPart] = VtaParameters
    check = staticmethod(check_vta)

    configuration = staticmethod(configuration_of_vta)
    derive = staticmethod(derived_vta)

    tiling_cost = staticmethod(tiling_cost)
    joined_tiling_cost = staticmethod(joined_tiling_cost)
    prices_exactly = staticmethod(prices_exactly)

    touches = staticmethod(touches_of)
    idle_words = staticmethod(idle_words)
    placed_launches = staticmethod(placed_launches)
    nominal = staticmethod(nominal)
    load_grain = staticmethod(load_grain)
    load_part = staticmethod(load_part)

    check_launch = staticmethod(check_bounds)
    effort = staticmethod(effort_of)
    boxes = staticmethod(boxes_of)
    hazard_checker = vta_hazards.VtaHazardChecker

    token_queues = staticmethod(token_names)
    time = staticmethod(time_launch)
    work = staticmethod(work_of)
    energy = staticmethod(energy_of)
    timing_model = staticmethod(timing_model)

    def variations(self, accelerator: Accelerator) -> list[Variation]:
        """Returns what a VTA can be timed with."""
        return variations_of(accelerator, self)

    def changes(self, accelerator: Accelerator) -> Iterator[DocumentChange]:
        """Yields larger memories, and a larger tile."""
        return changes_of_vta(accelerator)

    def machine(self, accelerator: Accelerator) -> Machine:
        """Returns a machine whose kernels TVM compiles."""
        from accel.isa.vta.function import vta_machine

        return vta_machine.VtaMachine(accelerator)

    def kernel_sources(self, accelerator: Accelerator) -> tuple[KernelSource, ...]:
        """Returns the source of the kernel for a document's shapes."""
        from accel.isa.vta.function import launch_kernel

        return (launch_kernel.source_of(Geometry.of(accelerator)),)

    def kernel_source(self, text: str) -> KernelSource:
        """Returns the source of the kernel of a text."""
        from accel.isa.vta.function import launch_kernel

        return launch_kernel.source_of_text(text)

    def signatures(self) -> tuple[Signature, ...]:
        """Returns the kernels that simulations run."""
        return (vta_hazards.hazard_signature(), table_signature(), *timing_signatures())


FAMILY: Family = VtaFamily()
"""The entry point ``vta`` of the group ``cyclops.isa``."""
