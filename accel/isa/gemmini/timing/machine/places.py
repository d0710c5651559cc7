"""Where everything lies in the array that is the machine: parameters, registers, queues.

Names follow the RTL's. A queue is :data:`HEADER` numbers and then its entries; see ``queues.py``.
"""

from accel.isa.gemmini.document.gemmini_parameters import STATISTICS

HEADER = 5  # of a queue: first entry, entries, cycle of the last one taken, capacity, numbers an entry

# parameters
DIM, BUS, MAX_BYTES, LATENCY, MEMORY_IN_FLIGHT, READS, WRITES = range(7)
LOAD_ENTRIES, EXECUTE_ENTRIES, STORE_ENTRIES, LOAD_COMMANDS, STORE_COMMANDS = range(7, 12)
SPAD_BANKS, SPAD_BANK_ROWS, SPAD_ROWS, ACC_BANKS, ACC_BANK_ROWS, ACC_ROWS = range(12, 18)
SPAD_DELAY, ACC_LATENCY, ACC_SCALE, MVIN_SCALE, SCALE_UNITS, MESH_LATENCY = range(18, 24)
SPACING, STORES_ORDERED, WIDE, WIDE_WORDS, WALK_LATENCY, TLB_SECTORS = range(24, 30)
NORMALISES, BLOCKS, BLOCKS_ACC, ROWS_AHEAD = 30, 31, 32, 33
LOAD_COMMAND_QUEUE, EXECUTE_COMMAND_QUEUE, STORE_COMMAND_QUEUE = 34, 35, 36
SPAD_BANK_SHIFT, ACC_BANK_SHIFT, DIM_SHIFT = 37, 38, 39  # -1: no power of two
L2_SETS, L2_WAYS, L2_LATENCY, L2_BUS, L2_WRITE, L2_MISSES, DRAM_LATENCY, DRAM_CYCLES = range(40, 48)  # no sets: no L2
LLC_SETS, LLC_WAYS, LLC_LATENCY, LLC_LINES = range(48, 52)  # no sets: no last level; where its lines are
LLC_MISSES, LLC_LINE, LLC_BUS, DRAM_ROW, DRAM_BANKS, DRAM_ROW_LINES = range(52, 58)  # lines of 64 bytes a line, a row
START_AT = 58
COMMAND_CYCLES = 59  # after each instruction, by its code: until the processor offers the next one
PARAMETERS = COMMAND_CYCLES + 128

_next = PARAMETERS


def _take(count: int) -> int:
    """Reserve ``count`` numbers; where they begin."""
    global _next  # noqa: PLW0603 - only while this module is loaded
    start = _next
    _next += count
    return start


# ---- memory port: buffers of the two directions, of the reader, of the writer, and behind the crossbar
A_TIME, A_WRITE, A_SOURCE, A_BEATS, A_BEAT, A_ANSWER, A_ADDRESS, A_BYTES = range(8)  # a beat of a request
A_WIDTH = 8
D_TIME, D_WRITE, D_SOURCE, D_LAST = range(4)  # a beat of an answer
D_WIDTH = 4
_BUFFER = 2
READ_A, WRITE_A, PORT_A = (_take(HEADER + _BUFFER * A_WIDTH) for _ in range(3))
READ_D, WRITE_D, PORT_D = (_take(HEADER + _BUFFER * D_WIDTH) for _ in range(3))
N_TIME, N_WRITE, N_SOURCE, N_BEATS, N_DUE = range(5)  # an answer, and when it is due
N_WIDTH = 5
MOST_OPEN = 4096
ANSWERS = _take(HEADER + MOST_OPEN * N_WIDTH)
ANSWER_BEAT, ANSWER_LAST, OPEN, CLOSED_AT, XBAR_AFTER_WRITER, XBAR_LOCKED = (_take(1) for _ in range(6))
L2_FREE, DRAM_FREE, L2_RANDOM = (_take(1) for _ in range(3))  # when the L2 takes a request, and DRAM a line; victims
LLC_FREE, LLC_READ, LLC_WRITE = (_take(1) for _ in range(3))  # when the last level is idle, took a read, a write
MOST_MISSES = 64
V_SET, V_UNTIL, V_REFILL, V_REFILLED = range(
    4
)  # a miss of the last level: until when it holds its set; when it is filled
V_WIDTH = 4
LLC_MISS = _take(MOST_MISSES * V_WIDTH)
MOST_DRAM_BANKS = 256
DRAM_ROWS = _take(MOST_DRAM_BANKS)  # the row of each bank that is open, and one more; 0: none

# ---- load controller
C_TIME, C_ROW, C_FUNCT, C_RS1, C_RS2, C_SLOT = range(6)  # a command in a controller's queue: row of the log, slot
C_WIDTH = 6
MOST_QUEUED = 64
LOAD_QUEUE = _take(HEADER + MOST_QUEUED * C_WIDTH)
STORE_QUEUE = _take(HEADER + MOST_QUEUED * C_WIDTH)
LD_STATE, LD_ROW, LD_COMMAND = (_take(1) for _ in range(3))
LD_STRIDE, LD_SCALE, LD_SHRINK, LD_BLOCK, LD_PIXELS = (_take(3) for _ in range(5))
T_VALID, T_LEFT, T_ZERO, T_SLOT, T_WIDTH = 0, 1, 2, 3, 4  # a tracked command
MOST_COMMANDS = 260
T_ENDED = MOST_COMMANDS * T_WIDTH  # behind a tracker's commands: how many have nothing left
LOAD_TRACKER, STORE_TRACKER = (_take(MOST_COMMANDS * T_WIDTH + 1) for _ in range(2))
LOAD_TRACKED, STORE_TRACKED, LOAD_RELEASED, STORE_RELEASED = (_take(1) for _ in range(4))

# ---- reader: requests of rows, the request that is cut into packets, the two stages of translation
Q_TIME, Q_ADDRESS, Q_LOCAL, Q_COLUMNS, Q_REPEATS, Q_PIXELS, Q_SCALE, Q_ACC, Q_WIDE, Q_BLOCK, Q_COMMAND = range(11)
Q_WIDTH = 11
MOST_ROWS = 64
ROW_QUEUE = _take(HEADER + MOST_ROWS * Q_WIDTH)
ROW = _take(Q_WIDTH)  # the request that is being cut
ROW_ACTIVE, ROW_REQUESTED = _take(1), _take(1)
P_VALID, P_ADDRESS, P_SOURCE, P_BYTES, P_BEAT, P_BEATS = range(6)  # a packet
P_WIDTH = 6
READ_TLB, READ_TRANSLATE = _take(P_WIDTH), _take(P_WIDTH)
X_SHIFT, X_BYTES, X_OFFSET, X_LOCAL, X_LENGTH = range(Q_WIDTH, Q_WIDTH + 5)  # a transaction: its row, and these
X_WIDTH = Q_WIDTH + 5
MOST_READS = 1024
XACTS, XACT_FREE = _take(MOST_READS * X_WIDTH), _take(MOST_READS)
XACTS_USED, XACT_FREED = _take(1), _take(1)

# ---- beat merger, scale units, pixel repeaters, zero writer
MERGE_VALID, MERGE_SENT, MERGE_READ, MERGE = _take(1), _take(1), _take(1), _take(X_WIDTH)
R_VALID, R_REPEATS, R_PIXELS, R_LAST, R_LOCAL, R_ACC, R_ACCUMULATE, R_COMMAND, R_BYTES, R_SCALED = range(10)
R_FIRED, R_DONE = 10, 11
R_WIDTH = 12
SCALE_IN, ACC_IN, REPEATER, ZERO_REPEATER = (_take(R_WIDTH) for _ in range(4))
SCALE_STAGES = 3
SCALE_REGS, SCALE_HEAD, SCALE_TAIL, SCALE_COUNT = _take(SCALE_STAGES * R_WIDTH), _take(1), _take(1), _take(1)
SCALE_FREED, SCALE_GRANT, SCALE_BUSY = (_take(1) for _ in range(3))
ZERO_VALID, ZERO_COLUMN, ZERO_FREED = (_take(1) for _ in range(3))
ZERO = _take(Q_WIDTH)

# ---- banks
SPAD_WRITTEN, ACC_ADDING = _take(1), _take(1)  # banks that are written, or accumulated into, in this cycle: bits
MOST_BANKS = 16
ACC_WRITES = _take(MOST_BANKS * 16 * 2)  # of each bank a ring of the last writes: cycle, row
PENDING_EX, PENDING_DMA, HELD_EX, HELD_DMA = (_take(1) for _ in range(4))  # reads of the last cycle, and kept: bits
EX_PIPE = _take(MOST_BANKS)
MOST_DELAY = 64
DMA_PIPES = _take(MOST_BANKS * (HEADER + MOST_DELAY))
DMA_PIPE = HEADER + MOST_DELAY
ACC_PENDING, ACC_HELD, STORE_READING = (_take(1) for _ in range(3))

# ---- store controller and writer
W_TIME, W_ADDRESS, W_LOCAL, W_BYTES, W_BLOCK, W_STORE, W_KIND, W_COMMAND, W_NORM, W_STATISTICS = range(10)
W_WIDTH = 10
W_SPAD, W_ACC, W_GARBAGE = range(3)  # kinds of rows
DISPATCH, NORM, SCALE, ISSUE = (_take(HEADER + MOST_DELAY * W_WIDTH) for _ in range(4))
PASSTHROUGH, ACC_SCALE_PIPE = _take(HEADER + 2), _take(HEADER + MOST_DELAY)
ST_STATE, ST_ROW, ST_BLOCK_COUNT, ST_COMMAND = (_take(1) for _ in range(4))
ST_WINDOW_ROW, ST_WINDOW_COL, ST_POOL_ROW, ST_POOL_COL = (_take(1) for _ in range(4))
ST_STRIDE, ST_POOL_STRIDE, ST_POOL_SIZE, ST_OUT_DIM, ST_POROWS, ST_POCOLS = (_take(1) for _ in range(6))
ST_OROWS, ST_OCOLS, ST_UPAD, ST_LPAD, ST_STATISTICS = (_take(1) for _ in range(5))
WR_STATE, WR_ADDRESS, WR_LEFT, WR_BEATS_LEFT, WR_BEATS = (_take(1) for _ in range(5))
WR_PACKET_ADDRESS, WR_PACKET_BYTES = _take(1), _take(1)
WR_BUSY, WR_FREED, WR_READY = (_take(1) for _ in range(3))
WRITE_TLB, WRITE_TRANSLATE, WRITE_SHADOW = (_take(P_WIDTH) for _ in range(3))

# ---- normaliser: of each number of statistics when it is free, whether it has a row that is stored, and when the
# quotient of its exponentials begins
STATISTICS_FREE, STORED, QUOTIENT = (_take(STATISTICS) for _ in range(3))
STATISTICS_FROM, DIVIDER_FREE, ROOT_FREE, RECIPROCAL_FREE = (_take(1) for _ in range(4))  # from when rows are taken in

# ---- translation: of the writer, of the reader: last page, and what the last cycle asked
TLB_PAGE, TLB_ASKED, TLB_HIT, TLB_ASKED_PAGE, TLB_MISS = (_take(2) for _ in range(5))
TLB_GRANT, TLB_WALK_PAGE, TLB_WALK_READY, TLB_FOUND, TLB_FOUND_PAGE = (_take(1) for _ in range(5))
TLB_GROUP, TLB_VALID = _take(1), _take(1)

# ---- execute controller
E_ROW, E_FUNCT, E_RS1, E_RS2, E_SLOT = range(5)
E_WIDTH = 5
UNROLL_HEAD, UNROLL_COUNT, UNROLL_STATE, UNROLL_TRANSPOSED = (_take(1) for _ in range(4))
UNROLL = _take(2 * E_WIDTH)
EX_HEAD, EX_COUNT, EX_CAPACITY = (_take(1) for _ in range(3))
EX_QUEUE = _take(MOST_QUEUED * E_WIDTH)
EX_STATE, EX_MODE, EX_A, EX_B, EX_D, EX_STARTED = (_take(1) for _ in range(6))
EX_WS, EX_A_TRANSPOSE, EX_B_TRANSPOSE, EX_A_STRIDE, EX_C_STRIDE = (_take(1) for _ in range(5))
EX_PENDING = _take(2)
# the rows that are being read: which operands, from where, of how many rows
EX_READS_A, EX_READS_B, EX_READS_D, EX_A_ROW, EX_B_ROW, EX_D_ROW = (_take(1) for _ in range(6))
EX_A_ROWS, EX_B_ROWS, EX_D_ROWS, EX_TOTAL = (_take(1) for _ in range(4))
EX_TAG_SLOT, EX_TAG_ADDRESS, EX_TAG_ROWS = (_take(1) for _ in range(3))
EX_DONE = _take(1)  # the slot that is complete in this cycle, or -1
# rows on their way to the mesh
K_TIME, K_A, K_B, K_D, K_FIRST, K_ROWS, K_SLOT, K_ADDRESS, K_TAG_ROWS, K_WS, K_A_BANK, K_B_BANK, K_D_BANK = range(13)
K_WIDTH = 13
CONTROL = _take(HEADER + MOST_DELAY * K_WIDTH)
# the mesh
MESH_VALID, MESH_FLUSH, MESH_ROWS, MESH_FIRED, MESH_ID, MESH_A, MESH_B, MESH_D = (_take(1) for _ in range(8))
TAGS_LENGTH = 6
TAGS = _take(HEADER + TAGS_LENGTH * 5)  # time, id, slot, address, rows
G_TIME, G_ID, G_SLOT, G_ADDRESS, G_ROWS = range(5)
ROWS_QUEUE = _take(HEADER + TAGS_LENGTH * 3)  # time, id, rows
MOST_OUTPUTS = 1024
OUTPUTS = _take(HEADER + MOST_OUTPUTS * 3)  # time, id, last
OUTPUT_ROW, EX_WRITES, EX_WRITE_BANK, TAG_DONE = (_take(1) for _ in range(4))

# ---- reservation station: per queue (load, execute, store) slots
MOST_ENTRIES = 62
S_VALID, S_ISSUED, S_CONFIG, S_ROW, S_FROM, S_FUNCT, S_RS1, S_RS2 = range(8)
S_DEPS = 8  # three masks
S_A, S_A_FIRST, S_A_END, S_B, S_B_FIRST, S_B_END, S_WRITES = range(11, 18)  # ranges: memory, first, end; opa is written
S_WIDTH = 18
STATION = _take(3 * MOST_ENTRIES * S_WIDTH)
STATION_QUEUE = MOST_ENTRIES * S_WIDTH
STATION_USED, STATION_MASK = _take(3), _take(3)
OLDEST = _take(3 * (HEADER + MOST_ENTRIES * 2))  # slots not issued, in order
OLDEST_QUEUE = HEADER + MOST_ENTRIES * 2
BEGUN = _take(3 * MOST_ENTRIES)  # when the controller began with a slot's instruction
SOLITARY = _take(1)
RS_A_STRIDE, RS_C_STRIDE, RS_A_TRANSPOSE, RS_POOLING = (_take(1) for _ in range(4))
RS_BLOCK, RS_PIXELS = _take(3), _take(3)
LOGGED, LOG_MASK = _take(1), _take(1)  # instructions so far; of these the bits that count: the row that each gets
FSM_DONE, FSM_ANY = (
    _take(6),
    _take(1),
)  # complete in this cycle: load, execute, store of the convolution's unroller, then of the product's

# ---- commands: an instruction's number, or what an unroller made
F_TIME, F_ORIGIN, F_FUNCT, F_RS1, F_RS2, F_FROM, F_ASKED = range(7)
F_WIDTH = 7
RAW, CONV_QUEUE, MATMUL_QUEUE, UNROLLED = (_take(HEADER + 2 * F_WIDTH) for _ in range(4))
SENT, NEXT_AT, FENCED, QUIET, ACCEPTED_AT = (_take(1) for _ in range(5))

# ---- loops
L_K, L_J, L_I, L_PAD_K, L_PAD_J, L_PAD_I, L_A, L_B, L_D, L_C = range(10)
L_A_STRIDE, L_B_STRIDE, L_D_STRIDE, L_C_STRIDE = range(10, 14)
L_A_TRANSPOSE, L_B_TRANSPOSE, L_LOW_D, L_FULL_C, L_ACCUMULATE, L_ACTIVATION = range(14, 20)
L_CONFIGURED, L_RUNNING, L_ORIGIN, L_A_HALF, L_B_HALF = range(20, 25)
L_STARTED, L_COMPLETED = (
    25,
    30,
)  # five each: A, B, execute, D, store; of a convolution: input, weights, execute, bias, store
L_A_START, L_B_END = 35, 36
L_FIRST = 37  # of a convolution: where each part's commands begin, six numbers
L_LISTED = 43  # of a product: whether its commands are written out
L_WIDTH = 48
PART_A, PART_B, PART_EX, PART_D, PART_ST = range(5)
MATMUL_LOOPS, CONV_LOOPS = _take(2 * L_WIDTH), _take(2 * L_WIDTH)
MATMUL_HEAD, CONV_HEAD, MATMUL_CONFIGURED, CONV_CONFIGURED = (_take(1) for _ in range(4))
U_STATE, U_LOOP, U_I, U_J, U_K, U_START, U_NEXT, U_END = range(8)  # an unroller's part
U_WIDTH = 8
MATMUL_PARTS, CONV_PARTS = _take(5 * U_WIDTH), _take(5 * U_WIDTH)
CONV_PIPES = _take(5 * (HEADER + 4))  # two stages of time and command
CONV_PIPE = HEADER + 4
MATMUL_USED, CONV_USED = _take(3), _take(3)
D_START, C_START, ST_START = (_take(1) for _ in range(3))
CONV_D_START, CONV_C_START, CONV_ST_START = (_take(1) for _ in range(3))

MATMUL_STILL, CONV_STILL, TURN = (_take(1) for _ in range(3))
PROGRESS = _take(1)  # the last cycle in which an instruction or an answer moved
CHANGED = _take(1)  # whether anything moved in this cycle
SIZE = _next

# ---- behind the others, if there is an L2: when each of its misses under way is done, then its lines, set by set, when
# each of its sets is free after a write, and the lines (a tag each) of the last level
LINE_TAG, LINE_READY, LINE_DIRTY = range(3)
LINE_WIDTH = 3
LINES = SIZE + MOST_MISSES
