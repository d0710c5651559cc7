"""Quantisation that ``cyclops run`` begins before it imports the compiler."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from accel.driver.helpers.quantisation_ahead import QuantisationAhead, quantisation_ahead
from accel.errors import CyclopsError
from accel.frontend.read.model_info import Axes
from worker.process.collection import collection_paused

if TYPE_CHECKING:
    from accel.driver.run_options import Options

Chosen = TypeVar("Chosen", bound="Options")


@contextmanager
def begun_quantisation(
    model: Path, accelerator: str, axes: Axes, seed: int, options: Callable[[], Chosen]
) -> Iterator[tuple[QuantisationAhead | None, Chosen]]:
    """Within, a process quantises ``model`` for an accelerator, of which the first of TVM's modules tell enough.

    What is wrong with either the job tells. The process begins before ``options`` are made, whose modules it needs not.
    """
    with quantisation_ahead(model, axes, seed) as ahead:
        chosen = options()
        if ahead is not None:
            with collection_paused():
                from accel.accelerator.target import Target
                from accel.catalog.load_accelerator import load_accelerator
                from accel.driver.quantisation_scheme import scheme_of

            with suppress(CyclopsError, OSError):
                ahead.begin(scheme_of(Target(load_accelerator(accelerator)), chosen))
        yield ahead, chosen
