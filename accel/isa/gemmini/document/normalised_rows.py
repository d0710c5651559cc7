"""Stores of functions of rows, by the commands of Gemmini's normaliser (Normalizer.scala, AccumulatorScale.scala).

libgemmini scales what it has made of a row once more, the RTL does not: so the scale is 1. And libgemmini leaves the
activation softmax at a config_st without one, which the RTL does not: so a row's mean, with a ReLU, is what comes last.
A mean, as it leaves no statistic that the next row of its number would begin with. A layer norm's activation both take
from config_st. libgemmini truncates what it stores of one, the RTL rounds it, as documents have it here.
"""

from collections.abc import Sequence

from accel.accelerator.instructions import Copy, CopyBlocks, CopyFields
from accel.accelerator.row_functions import RowFunction, RowFunctionName, RowPass
from accel.isa.gemmini.document.gemmini_parameters import STATISTICS
from accel.isa.gemmini.document.rocc_encoding import (
    INV_STDDEV,
    INV_SUM_EXP,
    LAYERNORM,
    MAX,
    MEAN,
    NONE,
    ONE,
    RELU,
    RESET,
    SUM,
    SUM_EXP,
    VARIANCE,
)

_CONFIGURATIONS = ("config_norm", "config_norm_inverse")
_APART = 4  # blocks of other rows while the normaliser finds a row's largest element


def row_softmax() -> RowFunction:
    """Returns the passes of softmax: the largest of each row, the sum of its exponentials, and the store.

    A sum of one block never takes the row's largest over (``stat.max`` is set where a row of SUM_EXP comes in).
    """
    gathered, stored = _numbers(RELU, 0), _numbers(NONE, 1)
    return RowFunction(
        function="softmax",
        numbers=tuple(f"{part}.statistics" for part in _CONFIGURATIONS),
        kept=STATISTICS,
        constants={
            "b": tuple(f"{part}.qb" for part in _CONFIGURATIONS),
            "c": tuple(f"{part}.qc" for part in _CONFIGURATIONS),
            "ln2": ("config_norm.q_const",),
            "inverse": ("config_norm_inverse.q_const",),
        },
        passes=(
            RowPass(name="largest", last=gathered | {"mvout.norm": MAX}),
            RowPass(
                name="sum of exponentials",
                last=gathered | {"mvout.norm": INV_SUM_EXP},
                before={"mvout.norm": SUM_EXP},
            ),
        ),
        stores=stored | {"mvout.norm": RESET},
        ends=gathered | {"mvout.norm": MEAN},
        least_blocks=2,
        apart=_APART,
    )


def row_layer_norm() -> RowFunction:
    """Returns the passes of a layer norm: a mean and a deviation, the mean of what is stored, and the store.

    A number of statistics takes no row in while it waits for a quotient or a root, so any rows follow each other.
    """
    norm = _numbers(LAYERNORM, 0, _CONFIGURATIONS[:1])
    mean = {"last": norm | {"mvout.norm": MEAN}, "before": {"mvout.norm": SUM}}
    return RowFunction(
        function="layer_norm",
        numbers=(f"{_CONFIGURATIONS[0]}.statistics",),
        kept=STATISTICS,
        passes=(
            RowPass(name="mean", **mean),
            RowPass(name="deviation", last=norm | {"mvout.norm": INV_STDDEV}, before={"mvout.norm": VARIANCE}),
            RowPass(name="mean of what is stored", **mean),
        ),
        stores=norm | {"mvout.norm": RESET},
    )


def row_functions() -> dict[RowFunctionName, RowFunction]:
    """Returns the functions of rows that a store computes, by their names."""
    return {each.function: each for each in (row_softmax(), row_layer_norm())}


def _numbers(activation: int, high: int, configurations: Sequence[str] = _CONFIGURATIONS) -> dict[str, int]:
    """The fields of an activation, whose highest bit is the normaliser's."""
    high_bits = {f"{part}.activation_high": high for part in configurations}
    return {"config_st.activation": activation, "config_st.scale": ONE, "mvout.is_acc": 1} | high_bits


def row_stores(dim: int, blocks: int) -> tuple[Copy, ...]:
    """Returns the stores of rows of accumulators, so many ``blocks`` of a row at once, ``dim`` rows apart."""
    inverse, norm = _CONFIGURATIONS[1], _CONFIGURATIONS[0]
    return (
        _store("softmax", row_softmax(), (inverse, norm), dim, blocks),
        _store("layer_norm", row_layer_norm(), (norm,), dim, blocks),
    )


def _store(name: str, function: RowFunction, configurations: Sequence[str], dim: int, blocks: int) -> Copy:
    return Copy(
        name=f"store_{name}",
        unit="store",
        sequence=("config_st", *configurations, "mvout"),
        pragma=f"pragma_mvout_{name}",
        direction="store",
        memory="acc",
        dram_dtype="int8",
        dram_unit="byte",
        max_rows=dim,
        copy_fields=CopyFields(sram="mvout.row", dram="mvout.dram", rows="mvout.rows", row_stride="config_st.stride"),
        blocks=CopyBlocks(scalars="mvout.columns", apart=dim, most=blocks),
        rows=function,
    )
