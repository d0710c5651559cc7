"""How near a run is to the model before quantisation: its outputs, and its quantised tensors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx

from accel.frontend.integer_recovery.quantised_activations import Activation
from accel.frontend.read.model_info import ModelInfo
from accel.util.arrays import Array
from accel.verify.input_tensors import Tensors
from accel.verify.output_quality import Qualities, float_network, quality_of
from accel.verify.tensor_quality import TensorQualities, tensor_qualities


@dataclass(frozen=True)
class ModelQuality:
    """The figures of each output, and of each quantised tensor."""

    outputs: Qualities
    tensors: TensorQualities


@dataclass(frozen=True)
class QualityInputs:
    """What quality is measured against.

    Attributes:
        uploaded: the model as uploaded, unchanged.
        original: the same as it was read.
        info: the model's inputs and outputs.
        feeds: an array for each input.
        wanted: names of tensors of the float network to keep.
    """

    uploaded: onnx.ModelProto
    original: onnx.ModelProto
    info: ModelInfo
    feeds: Tensors
    wanted: Sequence[str] = ()

    def measure(
        self, outputs: Sequence[Array], activations: Sequence[Activation], tensors: Mapping[str, Array]
    ) -> ModelQuality:
        """Returns the quality of a run.

        Args:
            outputs: those of the model, in its order.
            activations: the quantised tensors of the model in QDQ form.
            tensors: the tensors of that model, by name, as far as they were computed.

        Raises:
            InvalidModel: the model has no tensor of a wanted name, or they are too large.
        """
        named = {tensor.name: output for tensor, output in zip(self.info.outputs, outputs, strict=True)}
        quality = quality_of(self.uploaded, self.original, self.info, self.feeds, named)
        network = float_network(self.original)
        found = TensorQualities([], {})
        if network is not None:
            found = tensor_qualities(network, self.feeds, activations, tensors, self.wanted)
        elif self.wanted:
            found = TensorQualities([], {}, "the quality of the tensors is not known: nor is their float network")
        return ModelQuality(quality, found)
