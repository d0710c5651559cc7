"""Reading of an uploaded model: limits, checks, and what it holds."""
