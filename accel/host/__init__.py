"""Host steps: Relax functions of plain tensor operators as data that is safe to read from anybody, and running them."""
