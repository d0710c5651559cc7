"""Lists of jobs: rows, their order, the index in Redis that they are read from, and its repair."""
