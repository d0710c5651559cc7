"""Movement between launches: affine maps that loads and stores take in, or programs that do nothing else."""
