"""Compiler: from the integer graph to a Program. ``pipeline.py`` lists its stages in order."""
