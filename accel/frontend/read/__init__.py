"""Reading of an uploaded model: limits, checks, and a description of its contents."""
