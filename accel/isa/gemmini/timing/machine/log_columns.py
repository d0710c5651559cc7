"""The log of primitive instructions: what its columns hold."""

QUEUE, ORIGIN, FUNCT, RS1, RS2 = range(5)
ASKED, ENTERED, ISSUED, COMPLETE, BEGUN = range(5, 10)  # cycles
CLEARED = 10  # when the last instruction of each other queue that it had to wait for was complete: three cycles
CLEARED_BY = 13  # and the rows of those instructions
COLUMNS = 16
