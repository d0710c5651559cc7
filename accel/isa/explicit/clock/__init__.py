"""Clocks of a document's machines: decoupled units, units in program order, and the bus that they share."""
