"""The streams that Gemmini's own library sends for a layer, and their cycles compared with those of an FPGA.

The rules of tiling are those of gemmini-rocc-tests ``include/gemmini.h`` (``tiled_matmul_auto``, ``tiled_conv_auto``).
"""
