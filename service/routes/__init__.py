"""The routes: one file a resource, each with a ``router``."""
