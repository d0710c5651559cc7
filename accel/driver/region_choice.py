"""Which regions a job compiles: by prices and trials, and by what earlier jobs have asked of the accelerator."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from accel.accelerator.document import Accelerator
from accel.accelerator.target import Target
from accel.driver.compilation import CompilationInputs
from accel.driver.helpers.plans_beside import BesidePlans
from accel.driver.kept_programs import KeptProgram
from accel.driver.run_options import Options
from accel.driver.trials.row_timer import RowTimer
from accel.driver.trials.trial_timer import TrialTimer
from accel.isa.family_registry import family_of, joined_cost, priced_exactly
from accel.joining.joined_launches import can_join, orders_itself
from accel.joining.resident_tensors import can_keep
from accel.lowering.analysis.capabilities import Capabilities
from accel.lowering.analysis.kept_answers import kept_answers
from accel.lowering.partition.composite_graph import CompositeGraph
from accel.lowering.partition.graph_partition import JoinedPrices, RegionChoice, choose_regions
from accel.util.content_cache import CacheStore, SealedCache, cache_key

_TRIALS, _MOST_TRIALS = 16, 96  # of launches with their neighbours, of `auto` and of `timed`
_LEAST_ROUNDED = 10  # cycles of latency
_LEAST_TILE, _LARGE_TILE = 0.002, 0.1  # of the cycles of a network, those of a tile that is worth such a trial


def planned_for(accelerator: Accelerator, options: Options) -> Accelerator:
    """Returns what a job chooses and compiles for: its accelerator with a rounded latency of DRAM.

    So near latencies have one program, which takes as few cycles as one chosen for the latency itself, within what
    choices by estimates and trials differ in anyway (decision 262). A job that is ``timed``, or places nodes by cycles,
    has the accelerator itself.
    """
    if options.schedule == "timed" or options.placement == "fastest":
        return accelerator
    names, said = family_of(accelerator).parameters.LATENCIES, accelerator.parameters
    dram = accelerator.dram.model_copy(update={"read_latency": _rounded(accelerator.dram.read_latency)})
    parameters = said | {name: _rounded(said[name]) for name in names & said.keys()}
    return accelerator.model_copy(update={"dram": dram, "parameters": parameters})


def _rounded(latency: int) -> int:
    """A latency in steps of 2 below 20, 5 below 50, 10 below 100, and ten times that from there on."""
    if latency < _LEAST_ROUNDED:
        return latency
    scale = int(10 ** (len(str(latency)) - 2))
    step = scale * (2 if latency < 20 * scale else 5 if latency < 50 * scale else 10)
    return round(latency / step) * step


def choose(job: CompilationInputs, graph: CompositeGraph, *, beside: bool = False) -> RegionChoice:
    """Returns the regions of a graph; where launches run as one, those that take the fewest with their neighbours.

    ``beside``: the job's second process plans some of them, if there is one.
    """
    accelerator, timer, assistant = job.target.accelerator, job.measure, job.helpers.assistant
    measure = None if timer is None else TrialTimer(timer, job.target).times
    exact = priced_exactly(accelerator) if job.options.schedule == "auto" else None
    cost = family_of(accelerator).tiling_cost
    joined = _joined_prices(job)
    plans = None
    if beside and assistant is not None:
        plans = BesidePlans(assistant, job.target, graph, joined=joined is not None)
    choice = choose_regions(graph, Capabilities.of(job.target), cost, measure, exact, joined, plans)
    if timer is not None:
        timer.keep()
    return choice


def _joined_prices(job: CompilationInputs) -> JoinedPrices | None:
    """How tilings of launches that run as one are chosen; None where none do.

    Launches are timed with their neighbours: all if the job wants that, else most where they follow one another as they
    are, as there seams are longest, and elsewhere the largest of small networks. None are where results may stay on the
    chip, as a row by itself has them in DRAM, nor where the host lays them out before the next launch.
    """
    accelerator, options = job.target.accelerator, job.options
    family = family_of(accelerator)
    if options.launches == "separate" or not can_join(accelerator, family):
        return None
    rows = job.target.contraction.results_are_data and not results_may_stay(job)
    if job.measure is None or not rows:
        return JoinedPrices(joined_cost(accelerator))
    row = RowTimer(job.target, job.measure, job.cache)
    behind, trials = joined_cost(accelerator), _MOST_TRIALS if options.schedule == "timed" else _TRIALS
    all_of_them = options.schedule == "timed" or orders_itself(accelerator, family)
    least = _LEAST_TILE if all_of_them else _LARGE_TILE
    return JoinedPrices(behind, row, trials, least, row.expect)


def results_may_stay(job: CompilationInputs) -> bool:
    """Returns whether results of a job's launches may stay on the chip."""
    options, accelerator = job.options, job.target.accelerator
    joined = options.launches == "joined" and options.on_chip == "auto"
    return joined and can_keep(accelerator, family_of(accelerator))


def find_program(job: CompilationInputs) -> KeptProgram | None:
    """Returns the program that an earlier job compiled of the regions that this one chooses; None if there is none.

    What one chose for the same times is known; another choice is made anew, of what is kept of the model's graph.
    None for a stream of inputs, whose launches are joined anew: a program that is kept has them joined.
    """
    if job.options.repeat > 1:
        return None
    program = job.kept.find_chosen(job.accelerator)
    if program is not None:
        return program
    graph = job.kept.find_graph()
    if graph is None:
        return None
    answers, known = job.target.derived(kept_answers), job.kept.find_answers()
    if known is not None:
        with suppress(ValueError):
            answers.recall(known)
    job.kept.choice = choose(job, graph)
    job.kept.keep_answers(answers)
    return job.kept.find(job.accelerator)


@contextmanager
def kept_capabilities(target: Target, cache: CacheStore | None) -> Iterator[None]:
    """Within, what the accelerator can do is known as far as an earlier job has asked; what is new is kept.

    Raises:
        InvalidAccelerator: nothing in it contracts.
    """
    capabilities, kept = Capabilities.of(target), SealedCache(cache)
    target.derived(kept_answers).cache = kept
    key = cache_key("capabilities", target.accelerator.untimed().model_dump_json())
    known = None if capabilities.recalled else kept.get(key)
    if known is not None:
        with suppress(ValueError):
            capabilities.recall(known)
    recalled = len(capabilities.recalled)
    yield
    if capabilities.asked_anew or len(capabilities.recalled) > recalled:  # by this process, or by one beside it
        kept.put(key, capabilities.dump())
