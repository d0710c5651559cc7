"""Code generation: scratchpad addresses, micro-op tables, instruction words, relocatable objects, linking."""
