"""Sums that begin with a product that overwrites, on machines that cannot clear their accumulators."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import load_accelerator
from accel.driver.run_model import run_model
from accel.driver.run_options import Options
from accel.program_files.open_program import open_program
from examples.single import Conv, Dense, conv_model, dense_model


def overwriting() -> Accelerator:
    """The preset ``mvin-mvout`` with a slow load of accumulators; a field of ``matmul`` says whether it goes on.

    Its data are int8, of which a product can make the bias.
    """
    document = load_accelerator("mvin-mvout").model_dump(mode="json")
    document["memories"][0]["dtype"] = "int8"
    document["name"] = "overwriting"
    by_name = {each["name"]: each for each in document["instructions"]}
    by_name["mvin_a"]["dram_dtype"] = "int8"
    by_name["mvin_c"]["cycles"] = "10000"
    matmul = by_name["matmul"]
    matmul["fields"].append({"name": "goes_on", "lsb": 56, "bits": 1})
    product = "i32(A[i, k]) * i32(B[k, j])"
    matmul["operations"] = [
        {"name": "multiply", "when": {"goes_on": 1}, "does": f"C[i, j] += {product}"},
        {"name": "overwrite", "when": {"goes_on": 0}, "does": f"C[i, j] = {product}"},
    ]
    return Accelerator.model_validate(document)


def test_the_first_product_of_each_sum_overwrites(tmp_path: Path) -> None:
    """Of 8 x 8 pixels, 16 channels and 9 places each of 2 blocks: a product for each 4 x 4 results overwrites.

    The bias is a product more, as its load is slow.
    """
    report = run_model(
        conv_model(Conv(16, 16, 8, 8)).SerializeToString(), overwriting(), Options(trace=False), tmp_path
    )
    assert report.verified
    words = np.asarray(open_program(tmp_path / "program.zip").words)[:, 0]
    products = words[words & np.uint64(0xFF) == 4]
    goes_on = products >> np.uint64(56) & np.uint64(1)
    assert int((goes_on == 0).sum()) == 8 * 8 * 16 // 16
    assert int((goes_on == 1).sum()) == int((goes_on == 0).sum()) * (9 * 2)


@settings(max_examples=4, deadline=None)
@given(
    st.integers(1, 40), st.integers(1, 24), st.integers(3, 12), st.sampled_from([1, 3]), st.sampled_from([1, 2]),
    st.booleans(),
)  # fmt: skip
def test_layers_are_bit_exact(inputs: int, outputs: int, size: int, kernel: int, stride: int, grouped: bool) -> None:
    """Catches a sum that goes on from what an earlier tile left, and one that overwrites what it has summed."""
    pads = (kernel // 2,) * 4
    layer = Conv(
        inputs, inputs if grouped else outputs, size, size, kernel=(kernel, kernel), strides=(stride, stride),
        pads=pads, groups=inputs if grouped else 1,
    )  # fmt: skip
    for accelerator in (overwriting(), load_accelerator("gemmini")):
        with tempfile.TemporaryDirectory() as out:
            report = run_model(conv_model(layer).SerializeToString(), accelerator, Options(trace=False), Path(out))
        assert report.verified


@pytest.mark.parametrize("accelerator", [overwriting(), load_accelerator("gemmini")], ids=["overwriting", "gemmini"])
def test_a_long_sum_in_parts(accelerator: Accelerator, tmp_path: Path) -> None:
    """A reduction that does not fit on the chip at once begins in the first of its parts alone."""
    model = dense_model(Dense(3, 6000, 40))
    assert run_model(model.SerializeToString(), accelerator, Options(trace=False), tmp_path).verified


@pytest.mark.parametrize("stride", [1, 2])
def test_a_bias_by_product_sets_no_other_stride(stride: int, tmp_path: Path) -> None:
    """It would catch constants that are walked otherwise than the data: each change empties Gemmini's mesh."""
    model = conv_model(Conv(32, 16, 32, 32, kernel=(1, 1), strides=(stride, stride), pads=(0, 0, 0, 0)))
    report = run_model(model.SerializeToString(), load_accelerator("gemmini"), Options(trace=False), tmp_path)
    assert report.verified
    words = np.asarray(open_program(tmp_path / "program.zip").words)
    configured = (words[:, 0] == 0) & (words[:, 1] & np.uint64(3) == 0)
    products = np.isin(words[:, 0], [4, 5])
    pixels = (32 // stride) ** 2
    assert int(products.sum()) >= 3 * pixels // 16  # of two blocks of data, and of the constants
    assert int(configured.sum()) == 1
