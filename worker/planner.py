"""Dry runs beside the service: each in a confined process, forked from one that has the compiler loaded."""

from pathlib import Path

from worker.confined import Confined
from worker.forked import Forked
from worker.requests import PlanInputs
from worker.settings import Settings
from worker.work import Work


class Planner:
    """Makes plans; may be used from several threads, and limits nobody's number.

    ``compiler`` is the server of ``worker.compiler``.
    """

    def __init__(self, settings: Settings, compiler: Forked) -> None:
        self._seconds = settings.plan_seconds
        self._tasks = Confined(settings, compiler)

    def plan(self, work: Work, scratch: Path) -> bytes:
        """The plan, as JSON; its files are in ``scratch`` meanwhile, and the inputs may be.

        Raises:
            LimitError: it needs more than the settings allow, or its process died.
            RefusedError: an input cannot be used.
        """
        inputs = PlanInputs(
            model=work.model.resolve(),
            accelerator=work.accelerator,
            options=work.options,
            calibration=work.calibration and work.calibration.resolve(),
            sources=work.sources,
        )
        readable = [path for path in (work.model, work.calibration) if path]
        return self._tasks.ask("plan", inputs, scratch, seconds=self._seconds, readable=readable)
