"""From S-TIR blocks to plain loops over flat buffers, by TVM's own passes."""

from tvm import ir, s_tir, tirx

PLAIN_LOOPS = ir.transform.Sequential(
    [
        s_tir.transform.PlanAndUpdateBufferAllocationLocation(),
        s_tir.transform.ConvertBlocksToOpaque(),
        s_tir.transform.CompactBufferAllocation(),
        s_tir.transform.LowerMatchBuffer(),
        s_tir.transform.LowerOpaqueBlock(),
        tirx.transform.FlattenBuffer(),
        tirx.transform.UnrollLoop(),
        s_tir.transform.StmtSimplify(),
        tirx.transform.RemoveNoOp(),
    ]
)
"""Makes attributes of pragmas, around their nests; buffers shrink to one tile and keep their scope."""
