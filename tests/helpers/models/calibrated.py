"""What samples tell of the tensors of a float model."""

from collections.abc import Mapping, Sequence

import onnx

from accel.frontend.quantize.activation_calibration import Observations
from accel.frontend.quantize.quantization_targets import Targets
from accel.frontend.quantize.sample_runs import Sample, count_values
from accel.frontend.quantize.scale_grid import Grid, Loss


def losses_of(model: onnx.ModelProto, grids: Mapping[str, Grid], samples: Sequence[Sample]) -> dict[str, Loss]:
    """Returns the losses of the tensors that have a grid."""
    observed = Observations(Targets(layers=(), additions=(), activations=tuple(grids), moves=()), len(samples))
    count_values(model, list(grids), samples, observed.add)
    return observed.calibrated(grids).losses
