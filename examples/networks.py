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
from examples.transformers.decoders import gpt2_block, llama_block, llama_decode
from examples.transformers.encoders import bert, bert_tiny, vit, whisper_encoder
from examples.transformers.images import convnext, mlp_mixer, mobilevit


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
    "bert_tiny": Network(bert_tiny, "BERT, 2 layers of 128 channels, 128 tokens"),
    "bert_base": Network(bert, "BERT, 12 layers of 768 channels, 128 tokens"),
    "vit_tiny": Network(vit, "ViT, 12 layers of 192 channels, 224x224 in patches of 16, 1000 classes"),
    "gpt2_block": Network(gpt2_block, "a block of GPT-2, 768 channels, 64 tokens"),
    "llama_block": Network(llama_block, "a block like Llama's, 512 channels, 8 heads on 2, 64 tokens"),
    "llama_decode": Network(llama_decode, "the same with one token, 63 in a cache"),
    "whisper_encoder": Network(whisper_encoder, "Whisper tiny's encoder, 4 layers of 384 channels, 3000 frames"),
    "mobilevit": Network(mobilevit, "MobileViT XXS, 256x256, 1000 classes"),
    "convnext_tiny": Network(convnext, "ConvNeXt tiny, 224x224, 1000 classes"),
    "mlp_mixer": Network(mlp_mixer, "MLP-Mixer S/16, 224x224, 1000 classes"),
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
