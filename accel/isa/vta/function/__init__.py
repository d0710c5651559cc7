"""Function of VTA: one TIR kernel runs a launch on the machine's memories, bit by bit."""
