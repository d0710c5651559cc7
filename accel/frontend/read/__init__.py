"""Reading an uploaded model: limits, checks, what it holds."""
