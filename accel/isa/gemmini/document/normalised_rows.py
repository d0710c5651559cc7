"""The store of softmax of rows, by the commands of Gemmini's normaliser (Normalizer.scala, AccumulatorScale.scala).

libgemmini scales what it has made of a row once more, the RTL does not: so the scale is 1. And libgemmini leaves the
activation softmax at a config_st without one, which the RTL does not: so a row's mean, with a ReLU, is what comes last.
A mean, as it leaves no statistic that the next row of its number would begin with.
"""

from accel.accelerator.instructions import Copy, CopyBlocks, CopyFields
from accel.accelerator.row_functions import RowFunction, RowPass
from accel.isa.gemmini.document.gemmini_parameters import STATISTICS
from accel.isa.gemmini.document.rocc_encoding import (
    INV_SUM_EXP,
    MAX,
    MEAN,
    NONE,
    ONE,
    RELU,
    RESET,
    SUM_EXP,
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


def _numbers(activation: int, high: int) -> dict[str, int]:
    """The fields of an activation, whose highest bit is the normaliser's."""
    high_bits = {f"{part}.activation_high": high for part in _CONFIGURATIONS}
    return {"config_st.activation": activation, "config_st.scale": ONE, "mvout.is_acc": 1} | high_bits


def store_softmax(dim: int, blocks: int) -> Copy:
    """Returns the store of softmax of rows of accumulators, so many ``blocks`` of a row at once, ``dim`` rows apart."""
    return Copy(
        name="store_softmax",
        unit="store",
        sequence=("config_st", "config_norm_inverse", "config_norm", "mvout"),
        pragma="pragma_mvout_softmax",
        direction="store",
        memory="acc",
        dram_dtype="int8",
        dram_unit="byte",
        max_rows=dim,
        copy_fields=CopyFields(sram="mvout.row", dram="mvout.dram", rows="mvout.rows", row_stride="config_st.stride"),
        blocks=CopyBlocks(scalars="mvout.columns", apart=dim, most=blocks),
        rows=row_softmax(),
    )
