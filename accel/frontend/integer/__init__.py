"""Recovery of integer arithmetic from QDQ form."""
