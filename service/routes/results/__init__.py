"""Routes of what a job left, and of what is made of it: files, trace, timeline, passes, graph, comparison, changes."""
