"""Routes: one module a resource or concern, each with a ``router``; every endpoint declares its policy."""
