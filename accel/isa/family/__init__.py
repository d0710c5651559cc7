"""Contract of a family of instruction sets: the code that no document can express, in four protocols.

:class:`DocumentCheck` says which documents it takes, :class:`CostModel` guides the planner, :class:`FunctionalModel`
runs launches and :class:`CycleModel` times them. A family is one object that satisfies all four (:class:`Family`),
found by the entry point ``cyclops.isa`` under its name (:mod:`accel.isa.family_registry`). The passes, the engine and
the reports know no family by name.
"""

from accel.isa.family.changed_machines import Derives, DocumentChange, NamesChanges, Variation
from accel.isa.family.joined_machines import (
    ArrangesInstructions,
    FencesLaunches,
    JoinsLaunches,
    OrdersAccesses,
    PlacedLaunch,
    PlacesLaunches,
    PrefetchesLoads,
    PricesExactly,
    PricesJoined,
)
from accel.isa.family.launch_cycles import PREVIOUS, Activity, Cycles, LaunchTime, TimeLaunch, Timing, Work, places_back
from accel.isa.family.memory_accesses import Boxes, ReadDram, Touches, dram_traffic
from accel.isa.family.protocols import (
    CostModel,
    CycleModel,
    DocumentCheck,
    Family,
    FindsInCaches,
    FunctionalModel,
    HazardChecker,
    KernelProvider,
    KernelSource,
    Machine,
    NoContext,
    NoKernels,
    PreparedBySignatures,
    ReservesAddresses,
    TimedAlone,
)
from accel.isa.family.resident_results import DramTensor, KeepsResults, ResidentRow, ResidentTensor, RowResidency

__all__ = [
    "PREVIOUS",
    "Activity",
    "ArrangesInstructions",
    "Boxes",
    "CostModel",
    "CycleModel",
    "Cycles",
    "Derives",
    "DocumentChange",
    "DocumentCheck",
    "DramTensor",
    "Family",
    "FencesLaunches",
    "FindsInCaches",
    "FunctionalModel",
    "HazardChecker",
    "JoinsLaunches",
    "KeepsResults",
    "KernelProvider",
    "KernelSource",
    "LaunchTime",
    "Machine",
    "NamesChanges",
    "NoContext",
    "NoKernels",
    "OrdersAccesses",
    "PlacedLaunch",
    "PlacesLaunches",
    "PrefetchesLoads",
    "PreparedBySignatures",
    "PricesExactly",
    "PricesJoined",
    "ReadDram",
    "ReservesAddresses",
    "ResidentRow",
    "ResidentTensor",
    "RowResidency",
    "TimeLaunch",
    "TimedAlone",
    "Timing",
    "Touches",
    "Variation",
    "Work",
    "dram_traffic",
    "places_back",
]
