"""A dry run with files in: what the process of a plan runs, and the command line too."""

from accel.catalog import load_accelerator
from accel.dry_run import plan_model
from accel.frontend.read.inspect import inspect_model
from accel.plan_documents import Plan
from worker.execute import load_arrays
from worker.settings import Settings
from worker.tensors import as_samples, check_fit
from worker.work import Work

_SAMPLES = "options.calibration"


def plan_work(work: Work, settings: Settings) -> Plan:
    """What would become of the model; its inputs are not read.

    Raises:
        CyclopsError: an input cannot be used.
    """
    model = work.model.read_bytes()
    accelerator = load_accelerator(work.accelerator)
    axes = work.options.axes
    info = inspect_model(model, axes=axes)
    wanted = info.inputs
    samples = load_arrays(
        work.calibration,
        settings,
        _SAMPLES,
        lambda given: check_fit(given, wanted, field=_SAMPLES, samples=True, unset=info.unset),
    )
    return plan_model(
        model,
        accelerator,
        calibration=None if samples is None else as_samples(samples, wanted),
        seed=work.options.seed,
        sources=work.sources,
        axes=axes,
    )
