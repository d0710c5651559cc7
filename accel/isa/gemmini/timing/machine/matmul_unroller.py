"""loop_ws in hardware: five parts that write a loop's commands, of two loops at once (LoopMatmul.scala)."""

from accel.isa.gemmini.document import rocc_encoding as rocc
from accel.isa.gemmini.stream import kernel_layout as isa
from accel.isa.gemmini.stream.loop_registers import local, set_register
from accel.isa.gemmini.stream.matmul_loop import expand_matmul
from accel.isa.gemmini.timing.machine import places as at
from accel.isa.gemmini.timing.machine.commands import pass_on, queue_of, send
from accel.isa.gemmini.timing.machine.queues import front, has_room, offers, take
from accel.isa.kernels.compiled_kernels import compiled
from accel.util.arrays import Int64

IDLE, RUNS, COMPUTES = range(3)  # states of a part
FROM = 2  # what marks commands of this unroller
_LOADS = 1 << at.PART_A | 1 << at.PART_B | 1 << at.PART_D


@compiled
def _part(which: int) -> int:
    return at.MATMUL_PARTS + which * at.U_WIDTH


@compiled
def _loop(number: int) -> int:
    return at.MATMUL_LOOPS + number * at.L_WIDTH


@compiled
def end_loop(m: Int64, loop: int) -> None:
    """Make room for another loop, of either unroller."""
    m[loop + at.L_CONFIGURED] = m[loop + at.L_RUNNING] = 0
    for which in range(5):
        m[loop + at.L_STARTED + which] = m[loop + at.L_COMPLETED + which] = 0


@compiled
def _floor_add(value: int, step: int, limit: int) -> int:
    return 0 if value + step >= limit else value + step


@compiled
def _send_a(m: Int64, now: int) -> None:
    part = _part(at.PART_A)
    loop = _loop(m[part + at.U_LOOP])
    i, k, tiles_i, tiles_k = m[part + at.U_I], m[part + at.U_K], m[loop + at.L_I], m[loop + at.L_K]
    dim, turned = m[at.DIM], m[loop + at.L_A_TRANSPOSE]
    row, column, rows, columns = (k, i, tiles_k, tiles_i) if turned else (i, k, tiles_i, tiles_k)
    pad_row, pad_column = m[loop + at.L_PAD_I], m[loop + at.L_PAD_K]
    if turned:
        pad_row, pad_column = pad_column, pad_row
    most = min(columns, m[at.BLOCKS])
    blocks = min(most, columns - column)
    width = blocks * dim - (pad_column if column + blocks >= columns else 0)
    height = dim - (pad_row if row == rows - 1 else 0)
    place = m[loop + at.L_A] + ((row * m[loop + at.L_A_STRIDE] + column) * dim & 0xFFFFFFFF)
    operand = local(height, width, m[loop + at.L_A_START] + (row * columns + column) * dim)
    send(m, now, at.UNROLLED, m[loop + at.L_ORIGIN], rocc.MVIN, place, operand, FROM)
    next_i = _floor_add(i, most if turned else 1, tiles_i)
    next_k = k if next_i else _floor_add(k, 1 if turned else most, tiles_k)
    m[part + at.U_I], m[part + at.U_K] = next_i, next_k
    if next_i == 0 and next_k == 0:
        m[part + at.U_STATE] = IDLE


@compiled
def _send_b(m: Int64, now: int) -> None:
    part = _part(at.PART_B)
    loop = _loop(m[part + at.U_LOOP])
    j, k, tiles_j, tiles_k = m[part + at.U_J], m[part + at.U_K], m[loop + at.L_J], m[loop + at.L_K]
    dim, turned = m[at.DIM], m[loop + at.L_B_TRANSPOSE]
    row, column, columns = (j, k, tiles_k) if turned else (k, j, tiles_j)
    pad_column = m[loop + at.L_PAD_K] if turned else m[loop + at.L_PAD_J]
    most = min(columns, m[at.BLOCKS])
    blocks = min(most, columns - column)
    width = blocks * dim - (pad_column if column + blocks >= columns else 0)
    place = m[loop + at.L_B] + ((row * m[loop + at.L_B_STRIDE] + column) * dim & 0xFFFFFFFF)
    start = m[loop + at.L_B_END] - tiles_k * tiles_j * dim
    operand = local(dim, width, start + (row * columns + column) * dim)  # the padding's rows are loaded too
    send(m, now, at.UNROLLED, m[loop + at.L_ORIGIN], rocc.MVIN2, place, operand, FROM)
    next_j = _floor_add(j, 1 if turned else most, tiles_j)
    next_k = k if next_j else _floor_add(k, most if turned else 1, tiles_k)
    m[part + at.U_J], m[part + at.U_K] = next_j, next_k
    if next_j == 0 and next_k == 0:
        m[part + at.U_STATE] = IDLE


@compiled
def _send_d(m: Int64, now: int) -> None:
    part = _part(at.PART_D)
    loop = _loop(m[part + at.U_LOOP])
    i, j, tiles_i, tiles_j, dim = m[part + at.U_I], m[part + at.U_J], m[loop + at.L_I], m[loop + at.L_J], m[at.DIM]
    low = m[loop + at.L_LOW_D]
    most = min(tiles_j, m[at.BLOCKS] if low else m[at.BLOCKS_ACC])
    blocks = min(most, tiles_j - j)
    width = blocks * dim - (m[loop + at.L_PAD_J] if j + blocks >= tiles_j else 0)
    height = dim - (m[loop + at.L_PAD_I] if i == tiles_i - 1 else 0)
    offset = (i * m[loop + at.L_D_STRIDE] + j) * dim * (1 if low else 4)
    operand = local(height, width, rocc.ACCUMULATOR + m[part + at.U_START] + (i * tiles_j + j) * dim)
    place = m[loop + at.L_D] + (offset & 0xFFFFFFFF)
    send(m, now, at.UNROLLED, m[loop + at.L_ORIGIN], rocc.MVIN3, place, operand, FROM)
    next_i = _floor_add(i, 1, tiles_i)
    next_j = j if next_i else _floor_add(j, most, tiles_j)
    m[part + at.U_I], m[part + at.U_J] = next_i, next_j
    if next_i == 0 and next_j == 0:
        m[part + at.U_STATE] = IDLE


@compiled
def _send_product(m: Int64, now: int) -> None:
    part = _part(at.PART_EX)
    loop = _loop(m[part + at.U_LOOP])
    i, j, k, dim = m[part + at.U_I], m[part + at.U_J], m[part + at.U_K], m[at.DIM]
    tiles_i, tiles_j, tiles_k = m[loop + at.L_I], m[loop + at.L_J], m[loop + at.L_K]
    height = dim - (m[loop + at.L_PAD_I] if i == tiles_i - 1 else 0)
    width = dim - (m[loop + at.L_PAD_J] if j == tiles_j - 1 else 0)
    depth = dim - (m[loop + at.L_PAD_K] if k == tiles_k - 1 else 0)
    origin = m[loop + at.L_ORIGIN]
    if m[part + at.U_STATE] == RUNS:
        start = m[loop + at.L_B_END] - tiles_k * tiles_j * dim
        b = start + (j * tiles_k + k if m[loop + at.L_B_TRANSPOSE] else k * tiles_j + j) * dim
        adds = m[loop + at.L_ACCUMULATE] or k != 0
        c = rocc.ACCUMULATOR | (rocc.ACCUMULATE if adds else 0)
        c += m[part + at.U_START] + (i * tiles_j + j) * dim
        weights = local(depth, width, b if i == 0 else rocc.GARBAGE)
        send(m, now, at.UNROLLED, origin, rocc.PRELOAD, weights, local(height, width, c), FROM)
        m[part + at.U_STATE] = COMPUTES
        return
    a = m[loop + at.L_A_START] + (k * tiles_i + i if m[loop + at.L_A_TRANSPOSE] else i * tiles_k + k) * dim
    funct = rocc.COMPUTE_PRELOADED if i == 0 else rocc.COMPUTE_ACCUMULATED
    send(m, now, at.UNROLLED, origin, funct, local(height, depth, a), local(dim, dim, rocc.GARBAGE), FROM)
    next_i = _floor_add(i, 1, tiles_i)
    next_j = j if next_i else _floor_add(j, 1, tiles_j)
    next_k = k if next_i or next_j else _floor_add(k, 1, tiles_k)
    m[part + at.U_I], m[part + at.U_J], m[part + at.U_K] = next_i, next_j, next_k
    m[part + at.U_STATE] = RUNS if next_i or next_j or next_k else IDLE


@compiled
def _has_operand(m: Int64, which: int) -> bool:
    """Whether a part has something to move: an address of 0 stands for nothing."""
    loop = _loop(m[_part(which) + at.U_LOOP])
    if which == at.PART_A:
        return bool(m[loop + at.L_A] != 0)
    if which == at.PART_B:
        return bool(m[loop + at.L_B] != 0)
    if which == at.PART_D:
        return bool(m[loop + at.L_D] != 0)
    return bool(which == at.PART_EX or m[loop + at.L_C] != 0)


@compiled
def _tiles_stored(m: Int64, loop: int) -> int:
    """Tiles of a row that one store takes."""
    return int(1 if m[loop + at.L_FULL_C] else min(m[loop + at.L_J], m[at.BLOCKS]))


@compiled
def _send_store(m: Int64, now: int) -> None:
    part = _part(at.PART_ST)
    loop = _loop(m[part + at.U_LOOP])
    i, j, tiles_i, tiles_j, dim = m[part + at.U_I], m[part + at.U_J], m[loop + at.L_I], m[loop + at.L_J], m[at.DIM]
    most = _tiles_stored(m, loop)
    blocks = min(most, tiles_j - j)
    full = m[loop + at.L_FULL_C]
    width = blocks * dim - (m[loop + at.L_PAD_J] if j + blocks >= tiles_j else 0)
    height = dim - (m[loop + at.L_PAD_I] if i == tiles_i - 1 else 0)
    offset = (i * m[loop + at.L_C_STRIDE] + j) * dim * (4 if full else 1)
    address = rocc.ACCUMULATOR + (rocc.FULL if full else 0) + m[part + at.U_START] + (i * tiles_j + j) * dim
    place = m[loop + at.L_C] + (offset & 0xFFFFFFFF)
    send(m, now, at.UNROLLED, m[loop + at.L_ORIGIN], rocc.MVOUT, place, local(height, width, address), FROM)
    next_i = _floor_add(i, 1, tiles_i)
    next_j = j if next_i else _floor_add(j, most, tiles_j)
    m[part + at.U_I], m[part + at.U_J] = next_i, next_j
    if next_i == 0 and next_j == 0:
        m[part + at.U_STATE] = IDLE


@compiled
def _products_may_go(m: Int64) -> bool:
    """Whether the loads of the next product have been sent."""
    a, b, d, ex = _part(at.PART_A), _part(at.PART_B), _part(at.PART_D), _part(at.PART_EX)
    loop, k = m[ex + at.U_LOOP], m[ex + at.U_K]
    if m[d + at.U_LOOP] == loop and m[d + at.U_STATE] != IDLE:
        return False
    if m[a + at.U_LOOP] == loop and m[a + at.U_STATE] != IDLE:
        same = m[a + at.U_K] == k
        if not (m[a + at.U_K] > k or (same and m[a + at.U_I] > m[ex + at.U_I])):
            return False
    if m[b + at.U_LOOP] == loop and m[b + at.U_STATE] != IDLE:
        same = m[a + at.U_K] == k  # A's k, as in the RTL
        if not (m[b + at.U_K] > k or (same and m[b + at.U_J] > m[ex + at.U_J])):
            return False
    return True


@compiled
def _stores_may_go(m: Int64) -> bool:
    """Whether the products of the next store have been sent."""
    ex, st = _part(at.PART_EX), _part(at.PART_ST)
    if m[ex + at.U_LOOP] != m[st + at.U_LOOP] or m[ex + at.U_STATE] == IDLE:
        return True
    loop = _loop(m[st + at.U_LOOP])
    if m[ex + at.U_K] != m[loop + at.L_K] - 1:
        return False
    j = m[st + at.U_J]
    blocks = min(_tiles_stored(m, loop), m[loop + at.L_J] - j)
    if m[ex + at.U_J] >= j + blocks:
        return True
    return bool(m[ex + at.U_J] == j + blocks - 1 and m[ex + at.U_I] > m[st + at.U_I])


@compiled
def _next_load(m: Int64) -> int:
    """Which of A's and B's loads goes first (WeightedArbiter.scala), or -1."""
    a, b = _part(at.PART_A), _part(at.PART_B)
    runs_a, runs_b = m[a + at.U_STATE] != IDLE, m[b + at.U_STATE] != IDLE
    has_a, has_b = runs_a and _has_operand(m, at.PART_A), runs_b and _has_operand(m, at.PART_B)
    head = m[at.MATMUL_HEAD]
    chosen = at.PART_A
    if m[a + at.U_LOOP] != m[b + at.U_LOOP]:
        chosen = at.PART_A if m[a + at.U_LOOP] == head else at.PART_B
    elif not runs_a or (runs_b and (m[a + at.U_K] > m[b + at.U_K] or (m[b + at.U_K] == 0 and m[b + at.U_J] == 0))):
        chosen = at.PART_B
    return chosen if (has_a if chosen == at.PART_A else has_b) else -1


@compiled
def _send_next(m: Int64, now: int, commands: Int64) -> int:
    """Send a command of the first part that has one; which queue it goes to, or -1."""
    if m[_part(at.PART_EX) + at.U_STATE] != IDLE and m[_loop(m[_part(at.PART_EX) + at.U_LOOP]) + at.L_LISTED]:
        return _send_listed(m, now, commands)
    st, ex, d = _part(at.PART_ST), _part(at.PART_EX), _part(at.PART_D)
    stores = m[st + at.U_STATE] != IDLE and _has_operand(m, at.PART_ST)
    if stores and m[at.MATMUL_USED + 2] < m[at.STORE_ENTRIES] and _stores_may_go(m):
        _send_store(m, now)
        return 2
    if m[ex + at.U_STATE] != IDLE and m[at.MATMUL_USED + 1] < m[at.EXECUTE_ENTRIES] and _products_may_go(m):
        _send_product(m, now)
        return 1
    if m[at.MATMUL_USED] >= m[at.LOAD_ENTRIES]:
        return -1
    if m[d + at.U_STATE] != IDLE and _has_operand(m, at.PART_D):
        _send_d(m, now)
        return 0
    chosen = _next_load(m)
    if chosen == at.PART_A:
        _send_a(m, now)
    elif chosen == at.PART_B:
        _send_b(m, now)
    return 0 if chosen >= 0 else -1


@compiled
def _begin_parts(m: Int64, idle: int) -> None:
    """Parts that were idle take the next loop that is configured; products behind loads, stores behind products."""
    head = m[at.MATMUL_HEAD]
    started = 0
    for number in range(2):
        for which in range(5):
            started |= m[_loop(number) + at.L_STARTED + which] << 5 * number + which
    half = m[at.ACC_ROWS] // 2
    for which in range(5):
        if not idle >> which & 1:
            continue
        number = 1 - head if started >> 5 * head + which & 1 else head
        loop, before = _loop(number), started >> 5 * number
        if before >> which & 1 or not m[loop + at.L_CONFIGURED]:
            continue
        if which == at.PART_EX and before & _LOADS != _LOADS:
            continue
        if which == at.PART_ST and not before >> at.PART_EX & 1:
            continue
        part = _part(which)
        m[part + at.U_STATE], m[part + at.U_LOOP] = RUNS, number
        m[part + at.U_I] = m[part + at.U_J] = m[part + at.U_K] = 0
        m[loop + at.L_STARTED + which], m[loop + at.L_RUNNING] = 1, 1
        m[at.CHANGED] = 1
        if which >= at.PART_EX:
            start = at.D_START
            if which == at.PART_EX:
                start = at.C_START
            elif which == at.PART_ST:
                start = at.ST_START
            m[part + at.U_START] = m[start]
            if m[loop + at.L_C] != 0 and not m[loop + at.L_LISTED]:
                m[start] = half - m[start]


@compiled
def _configure(m: Int64, loop: int, number: int, command: int) -> None:
    funct, rs1, rs2 = m[command + at.F_FUNCT], m[command + at.F_RS1], m[command + at.F_RS2]
    if funct == rocc.LOOP_BOUNDS:
        m[loop + at.L_K], m[loop + at.L_J], m[loop + at.L_I] = rs2 >> 32 & 0xFFFF, rs2 >> 16 & 0xFFFF, rs2 & 0xFFFF
        m[loop + at.L_PAD_K], m[loop + at.L_PAD_J] = rs1 >> 32 & 0xFFFF, rs1 >> 16 & 0xFFFF
        m[loop + at.L_PAD_I] = rs1 & 0xFFFF
    elif funct == rocc.LOOP_AB:
        m[loop + at.L_A], m[loop + at.L_B] = rs1, rs2
    elif funct == rocc.LOOP_DC:
        m[loop + at.L_D], m[loop + at.L_C] = rs1, rs2
    elif funct == rocc.LOOP_STRIDES_AB:
        m[loop + at.L_A_STRIDE], m[loop + at.L_B_STRIDE] = rs1, rs2
    elif funct == rocc.LOOP_STRIDES_DC:
        m[loop + at.L_D_STRIDE], m[loop + at.L_C_STRIDE] = rs1, rs2
    else:
        m[loop + at.L_ACCUMULATE], m[loop + at.L_FULL_C], m[loop + at.L_LOW_D] = rs1 & 1, rs1 >> 1 & 1, rs1 >> 2 & 1
        m[loop + at.L_A_TRANSPOSE], m[loop + at.L_B_TRANSPOSE] = rs2 & 1, rs2 >> 1 & 1
        half = m[at.SPAD_ROWS] // 2
        a_half, b_half = rs1 >> 18 & 3, rs1 >> 16 & 3
        m[loop + at.L_A_START] = half * (a_half - 1 if a_half else number)
        m[loop + at.L_B_END] = half * (b_half or number + 1)
        m[loop + at.L_ORIGIN], m[loop + at.L_CONFIGURED] = m[command + at.F_ORIGIN], 1


@compiled
def _write_out(m: Int64, number: int, command: int, registers: Int64, sizes: Int64, commands: Int64) -> None:
    """Write out a loop of no tiles, one that adds two matrices, or one whose stores normalise.

    No recording has one. All its commands are sent by one part, one after the other.
    """
    loop, rs1, rs2 = _loop(number), m[command + at.F_RS1], m[command + at.F_RS2]
    empty = m[loop + at.L_I] == 0 or m[loop + at.L_J] == 0 or m[loop + at.L_K] == 0
    m[loop + at.L_LISTED] = empty or rs2 >> 2 & 1 or rs1 >> 8 & 7 in (rocc.LAYERNORM, rocc.SOFTMAX)
    if not m[loop + at.L_LISTED]:
        return
    half = m[at.ACC_ROWS] // 2
    registers[isa.HALF_LOOP] = number
    registers[isa.HALF_MATMUL_D], registers[isa.HALF_MATMUL_C] = m[at.D_START] // half, m[at.C_START] // half
    m[loop + at.L_FIRST] = expand_matmul(commands[2 + number], 0, registers, rs1, rs2, sizes, 1)
    for which in range(5):
        if which != at.PART_EX:
            m[loop + at.L_STARTED + which] = m[loop + at.L_COMPLETED + which] = 1
    if m[loop + at.L_C] != 0:
        m[at.D_START], m[at.C_START] = half - m[at.D_START], half - m[at.C_START]
        m[at.ST_START] = half - m[at.ST_START]


@compiled
def _send_listed(m: Int64, now: int, commands: Int64) -> int:
    """Send the next command of a loop that is written out; which queue it goes to, or -1."""
    part = _part(at.PART_EX)
    number, row = m[part + at.U_LOOP], m[part + at.U_K]
    loop = _loop(number)
    if row >= m[loop + at.L_FIRST]:
        m[part + at.U_STATE] = IDLE
        m[at.CHANGED] = 1
        return -1
    command = commands[2 + number, row]
    queue = queue_of(command[0], command[1])
    if m[at.MATMUL_USED + queue] >= m[at.LOAD_ENTRIES + queue]:
        return -1
    send(m, now, at.UNROLLED, m[loop + at.L_ORIGIN], command[0], command[1], command[2], FROM)
    m[part + at.U_K] += 1
    return queue


@compiled
def is_loop_command(funct: int) -> bool:
    """Whether a command is loop_ws or one of its registers."""
    return rocc.LOOP_WS <= funct <= rocc.LOOP_STRIDES_DC


@compiled
def step_matmul_unroller(m: Int64, now: int, registers: Int64, sizes: Int64, commands: Int64) -> None:
    """Move the unroller one cycle on: all parts see what the others were when it began.

    ``commands`` (4, n, 3) holds those of loops that are written out, the third and the fourth.
    """
    configured = m[_loop(0) + at.L_CONFIGURED] or m[_loop(1) + at.L_CONFIGURED]
    room, commanded = has_room(m, at.UNROLLED, now), offers(m, at.MATMUL_QUEUE, now)
    if not configured and not (commanded and is_loop_command(m[front(m, at.MATMUL_QUEUE) + at.F_FUNCT])):
        if m[at.FSM_ANY]:
            for queue in range(3):
                m[at.MATMUL_USED + queue] -= m[at.FSM_DONE + 3 + queue]
        if commanded and room:
            pass_on(m, now, at.MATMUL_QUEUE, at.UNROLLED)
        m[at.MATMUL_STILL] = 0
        return
    returned = m[at.FSM_DONE + 3] + m[at.FSM_DONE + 4] + m[at.FSM_DONE + 5]
    if m[at.MATMUL_STILL] and returned == 0 and m[at.MATMUL_STILL] == 1 + room + 2 * commanded:
        return  # nothing moved in the cycle before, and all is as it was
    changed, m[at.CHANGED] = m[at.CHANGED], 0
    head = m[at.MATMUL_HEAD]
    being = 1 - head if m[_loop(head) + at.L_CONFIGURED] else head
    being_configured = m[_loop(being) + at.L_CONFIGURED]
    sent = -1
    ends = False
    idle = 0
    if configured:
        first = _loop(head)
        ends = m[first + at.L_RUNNING] == 1
        for which in range(5):
            part = _part(which)
            ends = ends and m[first + at.L_COMPLETED + which] == 1
            if m[part + at.U_STATE] == IDLE:
                idle |= 1 << which
        for which in range(5):
            loop = _loop(m[_part(which) + at.U_LOOP])
            if idle >> which & 1 and m[loop + at.L_RUNNING] and m[loop + at.L_STARTED + which]:
                if not m[loop + at.L_COMPLETED + which]:
                    m[at.CHANGED] = 1
                m[loop + at.L_COMPLETED + which] = 1
        stops = 0
        for which in range(5):
            if not idle >> which & 1 and not _has_operand(m, which):
                stops |= 1 << which
        if room:
            sent = _send_next(m, now, commands)
        for which in range(5):
            if stops >> which & 1:
                m[_part(which) + at.U_STATE] = IDLE
                m[at.CHANGED] = 1
        _begin_parts(m, idle)
    for queue in range(3):
        m[at.MATMUL_USED + queue] += (queue == sent) - m[at.FSM_DONE + 3 + queue]
    if commanded:
        command = front(m, at.MATMUL_QUEUE)
        funct = m[command + at.F_FUNCT]
        if is_loop_command(funct) and not being_configured:
            _configure(m, _loop(being), being, command)
            set_register(registers, funct, m[command + at.F_RS1], m[command + at.F_RS2])
            if funct == rocc.LOOP_WS:
                _write_out(m, being, command, registers, sizes, commands)
            take(m, at.MATMUL_QUEUE, now)
    if ends:
        end_loop(m, _loop(head))
        m[at.MATMUL_HEAD] = 1 - head
        m[at.CHANGED] = 1
    m[at.MATMUL_STILL] = 0 if m[at.CHANGED] or returned else 1 + room + 2 * commanded
    m[at.CHANGED] |= changed
