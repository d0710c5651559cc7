"""Kernels that are compiled once: through numba or TVM, with object code kept between processes."""
