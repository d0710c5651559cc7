"""What the family ``explicit`` executes at most: sizes at which all its arithmetic is exact and its memory bounded."""

LOOPS = 3  # hardware loops of an instruction
MAX_CHIP_BYTES = 1 << 30
MAX_ELEMENT_BYTES = 1 << 16
MAX_POINTS = 1 << 24  # values that one execution computes
MAX_SORTS = 512  # operations of all instructions together; each is compiled

ADDRESS_BITS = 48  # a DRAM address or stride, and an address in a memory
COUNT_BITS = 20  # an extent, rows, columns, padding
STEP_BITS = 32
MAX_CYCLES = 1 << 40  # of one instruction
