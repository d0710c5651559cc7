"""What limits a program: its launches timed again with one resource changed at a time, exactly as the clock has it."""

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

from accel.errors import CyclopsError
from accel.isa.decode import Decoded
from accel.isa.family import LaunchTime, Timing, Variation
from accel.isa.family_registry import family_of
from accel.program.program_model import Program
from accel.report.documents.report_documents import Change, FieldDifference, ProgramLimits
from accel.simulate.cycle_account import Shares, merge_accounts
from accel.simulate.engine import MANY, LaunchResult, Simulation, decoded_together, part_ends

MOST_PIECES = 1_000_000  # pieces of work that are timed, over all changes: a second or two
_MANY_PIECES = 5_000  # from there clocks take longer than the Python around them, and they run without its lock
_LITTLE = 0.01  # share of the cycles below which a change does not help


def limits_of(program: Program, simulation: Simulation, *, every: bool = False) -> ProgramLimits:
    """Returns what each change would save; nothing is compiled, and what the program does stays the same.

    Unless ``every`` change is wanted, a program too large to be timed as often is timed only with those that may take
    most of its account, and with none whose causes take too little of it to be worth a change, and says so: what is
    tried depends on the program, never on how fast the host is.
    """
    family = family_of(program.accelerator)
    pieces = _pieces(simulation)
    if not hasattr(family, "variations"):  # a plug-in that was written before families had it
        return _nothing(f"the family {program.accelerator.family} names nothing that could be changed")
    if not simulation.cycles:
        return _nothing("nothing ran on the accelerator")
    promise = _by_cause(merge_accounts(each.account for each in simulation.launches if each.account is not None).total)
    known = sorted(family.variations(program.accelerator), key=lambda each: -_share(each, promise))
    affordable = max(MOST_PIECES // max(pieces, 1), int(pieces <= 2 * MOST_PIECES))  # rather one than none
    if every or affordable >= len(known):
        changes = _changes(known, program, simulation, pieces)
        return ProgramLimits(sentence=_sentence(changes), changes=changes)
    least = _LITTLE * simulation.cycles
    tried = [each for each in known[:affordable] if not each.eases or _share(each, promise) >= least]
    changes = _changes(tried, program, simulation, pieces)
    sentence = _sentence(changes)
    if affordable and not tried:
        sentence = f"no known change eases as much as {_LITTLE:.0%} of the cycles, by their account"
    left = f"{len(known) - len(tried)} of {len(known)} changes were not tried, as the program is large: ask for all"
    return ProgramLimits(sentence=sentence, changes=changes, left_out=left)


def _share(variation: Variation, promise: Counter[str]) -> int:
    """The cycles of what it may take something of."""
    return sum(promise[name] for name in variation.eases)


def begin_limits(program: Program, simulation: Simulation, *, every: bool) -> Callable[[], ProgramLimits]:
    """Returns what returns :func:`limits_of`, in a thread from now on where the clocks take long and little memory."""
    wanted = partial(limits_of, program, simulation, every=every)
    largest = max((result.launch.count for result in simulation.launches), default=0)
    if _pieces(simulation) <= _MANY_PIECES or largest > MANY:
        return wanted
    pool = ThreadPoolExecutor(1, "limits")
    found = pool.submit(wanted)
    pool.shutdown(wait=False)
    return found.result


def _pieces(simulation: Simulation) -> int:
    return sum(result.account.pieces for result in simulation.launches if result.account is not None)


def _by_cause(total: Shares) -> Counter[str]:
    """Cycles by category, and by cause."""
    found: Counter[str] = Counter()
    for category, causes in total.items():
        found[category] += sum(causes.values())
        found.update({cause: cycles for cause, cycles in causes.items() if cause != category})
    return found


def _nothing(reason: str) -> ProgramLimits:
    return ProgramLimits(sentence=None, changes=[], left_out=reason)


def _changes(variations: Sequence[Variation], program: Program, simulation: Simulation, pieces: int) -> list[Change]:
    """The program with each change, the fastest first; without what no clock can run, as a cost that is no number."""
    threads = 2 if pieces > _MANY_PIECES else 1
    sync = program.accelerator.synchronisation
    carried = sync.kind == "tokens" and sync.carry
    retimed = [_Retimed(variation, dict(program.initial_tokens)) for variation in variations]
    with ThreadPoolExecutor(threads, "limits") as pool:
        if threads > 1 and len(retimed) == 1 and not carried and not program.initial_tokens:
            alone = retimed[0]
            for lengths in pool.map(alone.lengths, simulation.together()):
                alone.add(lengths)
        else:
            each_of = pool.map if threads > 1 else map
            for results in simulation.together():
                decoded = decoded_together(results)
                list(each_of(lambda each: each.time(decoded, results, carried=carried), retimed))  # noqa: B023
    found = [_change(each.variation, each.layers, simulation.cycles) for each in retimed if each.layers is not None]
    return sorted(found, key=lambda change: change.cycles)


@dataclass
class _Retimed:
    """A variation, the cycles of each launch so far, None if one cannot run, and the tokens that the last has left."""

    variation: Variation
    tokens: dict[str, int]
    layers: list[int] | None = field(default_factory=list)

    def time(self, decoded: Decoded, results: Sequence[LaunchResult], *, carried: bool) -> None:
        """Times the next launches that run as one."""
        if self.layers is None:
            return
        try:
            timing = self.variation.time(decoded, self.tokens)
        except CyclopsError:
            self.layers = None
            return
        self.layers += _lengths(decoded, timing, results)
        self.tokens = timing.tokens if carried else {}

    def lengths(self, results: Sequence[LaunchResult]) -> list[int] | None:
        """Returns the cycles of launches that run as one, and find no tokens; None if they cannot run."""
        decoded = decoded_together(results)
        try:
            return _lengths(decoded, self.variation.time(decoded, {}), results)
        except CyclopsError:
            return None

    def add(self, lengths: list[int] | None) -> None:
        """Takes the cycles of the next launches."""
        self.layers = None if lengths is None or self.layers is None else self.layers + lengths


def _lengths(decoded: Decoded, timing: LaunchTime, results: Sequence[LaunchResult]) -> list[int]:
    """The cycles of each of the launches that ran as one; where their ends are not known, all are the last one's."""
    counts = [len(result.kind) for result in results]
    ends = (
        part_ends(decoded, timing, counts) if isinstance(timing, Timing) else [0] * (len(counts) - 1) + [timing.cycles]
    )
    return [end - before for before, end in pairwise([0, *ends])]


def _change(variation: Variation, layers: list[int], cycles: int) -> Change:
    return Change(
        resource=variation.resource,
        change=variation.change,
        fields=[
            FieldDifference(field=field, before=before, after=after)
            for field, (before, after) in variation.fields.items()
        ],
        cycles=sum(layers),
        gain=1 - sum(layers) / cycles,
        layers=layers,
    )


def _sentence(changes: Sequence[Change]) -> str | None:
    if not changes:
        return None
    best = changes[0]
    if best.gain < _LITTLE:
        return f"no change that was tried saves 1% of the cycles; the most, {best.gain:.1%}, {best.change}"
    return f"bound by {best.resource}: with {best.change} it would take {best.gain:.1%} fewer cycles"
