"""Host graphs: Relax functions of plain tensor operators, as text that is safe to read from anybody."""
