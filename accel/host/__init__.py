"""Host steps: Relax functions of plain tensor operators as data that is safe to read, and their execution."""
