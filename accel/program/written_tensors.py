"""Which tensors of a program are read though nothing is in them: no step wrote them, and the image has no contents."""

from accel.program.program_model import HostStep, Launch, Program, Segment


def read_unwritten(program: Program) -> tuple[Launch | HostStep | None, str] | None:
    """Returns the first step that reads a tensor of which no byte is written before, and the tensor's name.

    The step is None where it is an output of the program that no step wrote. A segment counts as written where one that
    shares bytes with it is: parts of a concatenation lie within the whole.
    """
    written = _Written(program)
    for name in (*program.inputs, *(program.image.keys() - program.written_later)):
        written.add(name)
    for step in program.steps:
        for name in step.writes if isinstance(step, Launch) else ():
            written.add(name)
        for name in step.inputs:
            if not written.holds(name):
                return step, name
        for name in step.outputs:
            written.add(name)
    makes = any(step.outputs for step in program.steps)  # programs of other tools say nothing of their launches
    return next(((None, name) for name in program.outputs if makes and not written.holds(name)), None)


class _Written:
    """The segments that are written by now."""

    def __init__(self, program: Program) -> None:
        self._segments = program.segments
        self._names = set[str]()

    def add(self, name: str) -> None:
        self._names.add(name)

    def holds(self, name: str) -> bool:
        if name in self._names:
            return True
        segment = self._segments[name]
        return segment.nbytes == 0 or any(_overlap(segment, self._segments[other]) for other in self._names)


def _overlap(one: Segment, other: Segment) -> bool:
    return one.address < other.address + other.nbytes and other.address < one.address + one.nbytes
