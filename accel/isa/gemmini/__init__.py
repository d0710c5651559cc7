"""Family ``gemmini``: Gemmini's documents, instruction streams, function and cycles."""
