"""Quantisation that ``cyclops run`` begins before it imports the compiler."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from accel.driver.helpers.quantisation_ahead import QuantisationAhead, quantisation_ahead
from accel.driver.run_options import Options
from accel.errors import CyclopsError
from worker.process.collection import collection_paused


@contextmanager
def begun_quantisation(model: Path, accelerator: str, options: Options) -> Iterator[QuantisationAhead | None]:
    """Within, a process quantises ``model`` for an accelerator, of which the first of TVM's modules tell enough.

    What is wrong with either the job tells.
    """
    with quantisation_ahead(model, options.axes, options.seed) as ahead:
        if ahead is not None:
            with collection_paused():
                from accel.accelerator.target import Target
                from accel.catalog.load_accelerator import load_accelerator
                from accel.driver.quantisation_scheme import scheme_of

            with suppress(CyclopsError, OSError):
                ahead.begin(scheme_of(Target(load_accelerator(accelerator)), options))
        yield ahead
