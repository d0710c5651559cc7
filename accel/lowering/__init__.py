"""The compiler: from the integer graph to a program. ``stages.py`` lists its stages in order."""
