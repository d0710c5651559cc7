"""Controllers and DMA: from when each instruction may begin, when it is done; packets, requests in flight, the bus."""

from accel.isa.compiled_kernels import compiled
from accel.isa.gemmini.stream import kernel_layout as isa
from accel.isa.gemmini.timing import timing_columns as at
from accel.util.arrays import Int64

# state of a channel, (CHANNEL + requests in flight,): last request, bus free, requests so far; then ends as a ring
LAST, BUS_FREE, COUNT = range(3)
CHANNEL = 3


@compiled
def packet(address: int, left: int, bus: int, most: int) -> tuple[int, int]:
    """Size of the next request and how many of its bytes are wanted."""
    best, useful = bus, 0
    size = bus
    while size <= most:
        end = (address // size + 1) * size
        wanted = min(end - address, left)
        if wanted > useful:
            best, useful = size, wanted
        size *= 2
    return best, useful


@compiled
def transfer(channel: Int64, parameters: Int64, address: int, nbytes: int, ready: int, latency: int) -> int:
    """Move one row that can be requested from cycle ``ready`` on; when its last beat has passed."""
    flights = parameters[at.IN_FLIGHT]
    end = ready
    while nbytes > 0:
        size, useful = packet(address, nbytes, parameters[at.BUS], parameters[at.MAX_BYTES])
        slot = CHANNEL + channel[COUNT] % flights
        request = max(ready, channel[LAST] + 1, channel[slot])
        channel[LAST] = request
        end = max(request + latency, channel[BUS_FREE]) + size // parameters[at.BUS]
        channel[BUS_FREE] = end
        channel[slot] = end if latency > 0 else end + parameters[at.LATENCY]
        channel[COUNT] += 1
        address += useful
        nbytes -= useful
    return end


# of the execute unit, (EXECUTE_STATE,): the slot in which the mesh takes rows; the preload that waits for its compute
SLOT_START, SLOT_END, WEIGHTS_READY, RESULT_OF, SLOT_BANK, LAST_DONE = range(6)
EXECUTE_STATE = 6


# rows that loads write into a bank within a span of cycles, (banks, SLOTS, 2): the span's number, and the rows
SLOTS, _SPAN = 1 << 12, 32


@compiled
def _note(ledger: Int64, bank: int, time: int, rows: int) -> None:
    if 0 <= bank < len(ledger):
        span = time // _SPAN
        slot = ledger[bank, span % SLOTS]
        if slot[0] != span:
            slot[0], slot[1] = span, 0
        slot[1] += rows


@compiled
def _stolen(ledger: Int64, bank: int, start: int, cycles: int) -> int:
    """Cycles in which a bank does not answer reads, because writes go first in its one port (Scratchpad.scala)."""
    if not 0 <= bank < len(ledger):
        return 0
    first, last, rows = start // _SPAN, (start + cycles - 1) // _SPAN, 0
    for span in range(first, last + 1):
        slot = ledger[bank, span % SLOTS]
        if slot[0] == span:
            rows += min(slot[1], _SPAN)
    return rows * cycles // ((last + 1 - first) * _SPAN)


@compiled
def load(
    words: Int64, state: Int64, which: int, parameters: Int64, channel: Int64, ledger: Int64, begin: int
) -> tuple[int, int]:
    """A mvin: when the controller has sent its last request, and when its last row is written.

    A stride of 0 reads one row and writes it many times (LoadController.scala ``actual_rows_read``); address 0 reads
    nothing (Scratchpad.scala, ZeroWriter).
    """
    rs1, rs2 = words[1], words[2]
    columns, rows = rs2 >> 32 & 0xFFFF, rs2 >> 48 & 0xFFFF
    dim = parameters[at.DIM]
    blocks = (columns + dim - 1) // dim
    bank = len(ledger) if rs2 & isa.ACCUMULATOR else (rs2 & isa.LOAD_ROW) // parameters[at.BANK_ROWS]
    if rs1 == 0 or columns == 0:
        for r in range(rows):
            _note(ledger, bank, begin + (r + 1) * blocks, blocks)
        return begin + rows, begin + rows * blocks + parameters[at.MVIN_SCALE]
    size = 4 if rs2 & isa.ACCUMULATOR and not state[isa.LD_SHRUNK + which] else 1
    stride = state[isa.LD_STRIDE + which]
    end = begin
    ready = begin
    for r in range(rows if stride != 0 else 1):
        end = transfer(channel, parameters, rs1 + r * stride, columns * size, ready, parameters[at.LATENCY])
        ready = max(ready + 1, channel[LAST])
        _note(ledger, bank, end + parameters[at.MVIN_SCALE], blocks)
    if stride == 0:
        end += (rows - 1) * blocks
        channel[BUS_FREE] = end
    return channel[LAST] + 1, end + parameters[at.MVIN_SCALE] + 1


@compiled
def store(words: Int64, state: Int64, parameters: Int64, channel: Int64, begin: int) -> tuple[int, int]:
    """A mvout: when the controller can take the next, and when the writer has the last row.

    A row is read in a cycle; from the accumulator it passes the scaling units (Scratchpad.scala, AccumulatorScale).
    With pooling all elements of a window are read for each one that is written (StoreController.scala ``pooling``).
    """
    rs1, rs2 = words[1], words[2]
    columns, rows = rs2 >> 32 & 0xFFFF, rs2 >> 48 & 0xFFFF
    accumulator = rs2 & isa.ACCUMULATOR
    dim = parameters[at.DIM]
    delay = parameters[at.STORE_DELAY] + parameters[at.SPAD_DELAY]
    if accumulator:
        delay = parameters[at.STORE_DELAY] + parameters[at.ACC_LATENCY] + parameters[at.ACC_SCALE]
    size = 4 if accumulator and rs2 & isa.FULL else 1
    each, width = (columns + dim - 1) // dim, 0
    if state[isa.POOL_STRIDE]:
        each, width = state[isa.POOL_SIZE] * state[isa.POOL_SIZE], state[isa.POCOLS]
        rows = state[isa.POROWS] * width
    reads, end = begin, begin + delay
    for r in range(rows):
        reads += each
        place = r
        if width:
            place = r // width * state[isa.POOL_OUT] + r % width
        if rs2 >> 26 & 7 and accumulator:  # a statistic: nothing is written
            end = reads + delay
        else:
            address = rs1 + place * state[isa.ST_STRIDE]
            end = transfer(channel, parameters, address, columns * size, reads + delay, 0)
    return max(reads, end - delay), end


@compiled
def _bank(parameters: Int64, word: int) -> int:
    """The bank of an operand, or -1 if it is not read."""
    if word & isa.GARBAGE == isa.GARBAGE or word & isa.ACCUMULATOR:
        return -1
    return int((word & isa.LOAD_ROW) // parameters[at.BANK_ROWS])


@compiled
def preload(words: Int64, width: int, parameters: Int64, mesh: Int64, ledger: Int64, begin: int) -> tuple[int, int]:
    """Bring weights into the mesh: in the slot of the compute before, if it has not begun, or in one of its own.

    ExecuteController.scala: ``mul_pre`` runs a compute and the next preload together, ``single_preload`` one alone; two
    operands in one bank take turns.
    """
    if width == 0:
        mesh[WEIGHTS_READY] = max(begin, mesh[SLOT_START])
        return mesh[WEIGHTS_READY], begin
    bank = _bank(parameters, words[1])
    if begin <= mesh[SLOT_START]:
        if bank >= 0 and bank == mesh[SLOT_BANK]:
            mesh[SLOT_END] += width
        mesh[SLOT_END] = max(mesh[SLOT_END], mesh[SLOT_START] + width + _stolen(ledger, bank, mesh[SLOT_START], width))
    else:
        mesh[SLOT_START] = max(begin, mesh[SLOT_END])
        mesh[SLOT_END] = mesh[SLOT_START] + width + _stolen(ledger, bank, mesh[SLOT_START], width)
        mesh[SLOT_BANK] = -1
    mesh[WEIGHTS_READY] = mesh[SLOT_END]
    return mesh[SLOT_START], mesh[SLOT_END]


@compiled
def compute(
    words: Int64, width: int, parameters: Int64, mesh: Int64, ledger: Int64, begin: int
) -> tuple[int, int, int]:
    """Send rows through the mesh: when they start, when they are all read, and when the result is written."""
    start = max(begin, mesh[SLOT_END], mesh[WEIGHTS_READY])
    bank = _bank(parameters, words[1])
    mesh[SLOT_START], mesh[SLOT_END] = start, start + width + _stolen(ledger, bank, start, width)
    mesh[SLOT_BANK] = bank
    result = mesh[SLOT_END] + parameters[at.SPAD_DELAY] + parameters[at.MESH] + parameters[at.ACC_LATENCY]
    mesh[LAST_DONE] = max(mesh[LAST_DONE], result)
    return start, mesh[SLOT_END], result
