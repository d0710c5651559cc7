"""What regions share whose tiles are made of steps on accumulators, lane by lane: pooling and elementwise work."""
