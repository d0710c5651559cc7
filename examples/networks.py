"""The examples by name."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass

import onnx

from examples import light
from examples.attention import attention
from examples.autoencoder import autoencoder
from examples.conv224 import conv224
from examples.ds_cnn import keyword_spotting
from examples.efficientnet import efficientnet_b0
from examples.mobilenet_v1 import mobilenet_v1, visual_wake_words
from examples.mobilenet_v2 import mobilenet_v2
from examples.mobilenet_v3 import mobilenet_v3
from examples.resnet import resnet18, resnet34, resnet50
from examples.resnet8 import resnet8
from examples.shufflenet_v2 import shufflenet_v2


@dataclass(frozen=True)
class Network:
    """A generator: ``make(seed=..., opset=..., batch_norm=...)``, where it takes the last two; and what it makes."""

    make: Callable[..., onnx.ModelProto]
    summary: str

    @property
    def options(self) -> frozenset[str]:
        """Those of opset and batch_norm that ``make`` takes."""
        return frozenset(inspect.signature(self.make).parameters) & {"opset", "batch_norm"}


NETWORKS = {
    "autoencoder": Network(autoencoder, "MLPerf Tiny's anomaly detection: dense layers, 640 values"),
    "keyword_spotting": Network(keyword_spotting, "MLPerf Tiny's DS-CNN, 49x10, 12 classes"),
    "resnet8": Network(resnet8, "MLPerf Tiny's image classification, 32x32, 10 classes"),
    "visual_wake_words": Network(visual_wake_words, "MLPerf Tiny's MobileNet V1 0.25, 96x96, 2 classes"),
    "mobilenet_v1": Network(mobilenet_v1, "MobileNet V1 1.0, 224x224, 1000 classes"),
    "mobilenet_v2": Network(mobilenet_v2, "MobileNet V2 1.0, 224x224, 1000 classes"),
    "mobilenet_v3": Network(mobilenet_v3, "MobileNet V3 large, 224x224, 1000 classes"),
    "efficientnet_b0": Network(efficientnet_b0, "EfficientNet-B0, 224x224, 1000 classes"),
    "shufflenet_v2": Network(shufflenet_v2, "ShuffleNet V2 1.0, 224x224, 1000 classes"),
    "resnet18": Network(resnet18, "ResNet-18, 224x224, 1000 classes"),
    "resnet34": Network(resnet34, "ResNet-34, 224x224, 1000 classes"),
    "resnet50": Network(resnet50, "ResNet-50, 224x224, 1000 classes"),
    "attention": Network(attention, "one block of self-attention, 32 tokens of 64 channels, 4 heads"),
    "conv224": Network(conv224, "one convolution of 16 channels, 224x224, quantised"),
} | {
    name: Network(functools.partial(light.light, name), "of the onnx package, 224x224, 1000 classes")
    for name in light.NAMES
}


def build(name: str, seed: int = 0, *, batch_norm: bool | None = None, opset: int | None = None) -> onnx.ModelProto:
    """The network ``name`` of ``NETWORKS``; what is None is as the generator has it by default.

    Raises:
        ValueError: there is no such network, or it has not that option.
    """
    if name not in NETWORKS:
        raise ValueError(f"no network {name!r}; there are {', '.join(NETWORKS)}")
    wanted = {key: value for key, value in (("batch_norm", batch_norm), ("opset", opset)) if value is not None}
    for option in wanted:
        if option not in NETWORKS[name].options:
            raise ValueError(f"{name} has no option {option}")
    return NETWORKS[name].make(seed=seed, **wanted)
