"""Function of Gemmini: what a stream leaves in DRAM and in the on-chip memories, bit by bit (libgemmini)."""
