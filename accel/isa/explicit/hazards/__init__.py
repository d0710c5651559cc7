"""What the launches of a document's machine touch, and hazards among it: accesses in no order, reads of nothing."""
