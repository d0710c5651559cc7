"""The arrays of VTA's clock: what their rows and columns hold."""

# columns of the instruction table; those after PUSH_B are for reads, whose DURATION is that of the first command
TABLE = 16  # two cache lines, of which only reads need the second
UNIT, DURATION, PRIORITY, POP_A, POP_B, PUSH_A, PUSH_B, TAIL = range(8)
ADDRESS, ROWS, ROW_BYTES, STRIDE, ZEROS_LEAD, ZEROS, BARE_ROWS, ZEROS_BELOW = range(8, TABLE)
# parameters
PARAMETERS = 12
BUS, LATENCY, BURST_BEATS, BOUNDARY, FETCH_BURST, TOKEN_LIMIT, IN_FLIGHT = range(7)
FETCH_LEAD, FETCH_TAIL, QUEUE_DEPTHS = range(7, 10)  # a depth for each of the three units
# rows of the times, of the waits (a row for each token queue follows, then one for the memory), of the units
TIMES = 2
START, END = range(TIMES)
FETCH = 0
UNITS = 2
BUSY, STUCK = range(UNITS)
