"""Transformers: those of the literature by parameters and multiply-accumulates; written out they are ONNX's own."""

import math
from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime
import pytest

from accel.frontend.read.model_inspection import inspect_model
from examples.networks import NETWORKS, build
from examples.transformers.decoders import gpt2_block, llama_block
from examples.transformers.encoders import bert, vit, whisper_encoder
from examples.transformers.images import convnext, mlp_mixer, mobilevit
from tests.helpers.marking import rest_slow

# multiply-accumulates, and parameters where the network has just what is published:
# DeiT-Ti, MLP-Mixer S/16 and ConvNeXt tiny as timm and torchvision count them, a block of GPT-2 by 12 d^2 + 13 d
PUBLISHED: dict[str, tuple[float | None, int | None]] = {
    "gpt2_block": (None, 7_087_872),
    "vit_tiny": (1.26e9, 5_717_416),
    "mlp_mixer": (3.78e9, 18_528_264),
    "convnext_tiny": (4.456e9, 28_589_128),
    "mobilevit": (0.42e9, None),
    "bert_base": (11.2e9, None),
}
SMALL: dict[str, Callable[..., onnx.ModelProto]] = {
    "bert": lambda opset: bert(opset=opset, layers=1, width=32, heads=4, tokens=12),
    "vit": lambda opset: vit(opset=opset, layers=1, width=32, heads=2, image=48),
    "whisper": lambda opset: whisper_encoder(opset=opset, layers=1, width=32, heads=2, frames=40),
    "gpt2": lambda opset: gpt2_block(opset=opset, width=32, heads=4, tokens=9),
    "llama": lambda opset: llama_block(opset=opset, width=64, heads=4, groups=2, tokens=9),
    "llama, one token": lambda opset: llama_block(opset=opset, width=64, heads=4, groups=1, tokens=1, past=7),
    "llama, more tokens": lambda opset: llama_block(opset=opset, width=64, heads=4, groups=2, tokens=3, past=5),
    "convnext": lambda opset: convnext(opset=opset, depths=(1, 1), widths=(16, 32), image=32),
    "mixer": lambda opset: mlp_mixer(opset=opset, layers=1, width=32, image=32, patch=8),
    "mobilevit": lambda opset: mobilevit(opset=opset, image=64),
}
OPSETS = (17, 20, 24)


@pytest.mark.parametrize("name", rest_slow(PUBLISHED, keep=2))
def test_a_transformer_is_the_published_one(name: str) -> None:
    model = build(name)
    macs, parameters = PUBLISHED[name]
    roles = ("weight", "bias", "layer_scale", "embed_positions")
    found = sum(
        math.prod(tensor.dims)
        for tensor in model.graph.initializer
        if tensor.name.rsplit("/", 1)[-1].split("_")[0] in roles or tensor.name.rsplit("/", 1)[-1].startswith(roles)
    )
    if macs is not None:
        assert inspect_model(model.SerializeToString()).macs == pytest.approx(macs, rel=0.035)
    if parameters is not None:
        assert found == parameters
    assert name in NETWORKS


def run(model: onnx.ModelProto, seed: int = 3) -> list[np.ndarray]:
    """The outputs in onnxruntime, whose kernels of the operators are its own."""
    rng = np.random.default_rng(seed)
    feeds: dict[str, np.ndarray] = {}
    for value in model.graph.input:
        shape = [each.dim_value for each in value.type.tensor_type.shape.dim]
        if value.type.tensor_type.elem_type == onnx.TensorProto.INT64:
            kept = value.name == "attention_mask"
            feeds[value.name] = np.arange(math.prod(shape)).reshape(shape) < 8 if kept else rng.integers(0, 999, shape)
            feeds[value.name] = feeds[value.name].astype(np.int64)
        else:
            feeds[value.name] = rng.standard_normal(shape).astype(np.float32)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return [np.asarray(each) for each in session.run(None, feeds)]


@pytest.mark.parametrize("name", SMALL)
def test_each_opset_has_the_same_network(name: str) -> None:
    """Norms, rotary places, masks, heads that share keys: written out they give what ONNX's own operators give."""
    models = [SMALL[name](opset) for opset in OPSETS]
    written, gelu, own = (run(model) for model in models)
    for one, two, three in zip(written, gelu, own, strict=True):
        assert np.abs(one).max() > 0.1
        np.testing.assert_allclose(two, one, rtol=2e-3, atol=2e-4)
        np.testing.assert_allclose(three, one, rtol=2e-3, atol=2e-4)
    infos = [inspect_model(model.SerializeToString()) for model in models]
    assert len({info.macs for info in infos}) == 1, "an Attention has the products of those that it stands for"
    operators = infos[-1].operators
    assert ("Attention" in operators) == (name not in ("convnext", "mixer"))
    assert not {"RMSNormalization", "RotaryEmbedding", "Swish"} - operators.keys() or "llama" not in name


def test_a_mask_and_an_order_matter() -> None:
    """A token attends to no later one, and what is masked changes nothing before it."""
    model = SMALL["llama"](17)
    x = np.random.default_rng(0).standard_normal((1, 9, 64)).astype(np.float32)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    later = x.copy()
    later[:, 6:] += 1
    (one,), (two,) = (session.run(None, {"hidden_states": value}) for value in (x, later))
    np.testing.assert_allclose(one[:, :6], two[:, :6], rtol=1e-4, atol=1e-5)
    assert np.abs(one[:, 6:] - two[:, 6:]).max() > 0.1
