"""Scheduling: regions are tiled, buffers get storage scopes, nests get pragmas; then blocks become plain loops."""
