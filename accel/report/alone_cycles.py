"""The cycles of the accelerator alone, beside those with the processor and the memory that a document has."""

from accel.isa.family import TimedAlone
from accel.isa.family_registry import family_of
from accel.program.program_model import Program
from accel.simulate.engine import Simulation


def alone_cycles(program: Program, simulation: Simulation) -> int | None:
    """Returns the cycles of all launches without processor and memory; None where the document has neither.

    Raises:
        SimulationError: a deadlock.
    """
    family = family_of(program.accelerator)
    if not isinstance(family, TimedAlone) or not simulation.cycles:
        return None
    time = family.alone(program.accelerator)
    if time is None:
        return None
    return sum(time(result.decoded, {}).cycles for result in simulation.launches)
