"""Family ``vta``: VTA's documents, function, cycles and hazards."""
