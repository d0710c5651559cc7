"""One file a resource; each has a ``router``."""
