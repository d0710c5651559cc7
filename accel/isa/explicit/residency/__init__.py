"""Results that stay on the chip: what a launch stores and a later one loads is left where this one reads it."""
