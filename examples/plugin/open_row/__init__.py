"""A family of instruction sets for Cyclops: ``explicit``, with a DRAM whose open rows answer sooner."""
