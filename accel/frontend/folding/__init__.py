"""What a float model says in several nodes and a layer can do in one: before it is quantised."""
