"""The arrays of the timing kernel: what their columns hold."""

# places of the parameters
DIM, LOAD_ENTRIES, EXECUTE_ENTRIES, STORE_ENTRIES, COMMANDS, IN_FLIGHT, BUS, MAX_BYTES = range(8)
LATENCY, ISSUE, SPAD_DELAY, ACC_LATENCY, ACC_SCALE, MVIN_SCALE, MESH, BANK_ROWS, ACC_BANK_ROWS = range(8, 17)
STATION, STORE_DELAY, BANKS = 17, 18, 19
PARAMETERS = 20

# queues
LOAD, EXECUTE, STORE, NO_QUEUE = range(4)

# one instruction's ranges, (n, RANGES): memory (0 scratchpad, 1 accumulator, -1 none), first row, row past the last
DST, SRC, SRC2 = 0, 3, 6
KIND, WIDTH = 9, 10  # what it is, and rows that the mesh takes
RANGES = 11
# kinds
CONFIGURES, MOVES_IN, MOVES_OUT, PRELOADS, COMPUTES, IGNORED = range(6)

# rows of the times of primitive instructions: beside start and end, when it came into the station, its queue, and
# until when it kept its controller at work: a product until its result is written, with which its preload ends
TIMES = 5
START, END, ENTERED, QUEUE, WORKED = range(TIMES)

# causes of waiting, (CAUSES, n)
PROCESSOR, STATION_FULL, ON_LOAD, ON_EXECUTE, ON_STORE, UNIT_BUSY = range(6)
CAUSES = 6
NAMES = ("processor", "reservation_station", "load", "execute", "store", "unit")
