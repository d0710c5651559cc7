"""loop_conv_ws in hardware: five parts that send a loop's commands, of two loops at once (LoopConv.scala).

What a part sends does not depend on time, so all is written when the loop is configured; when it is sent does.
"""

from accel.isa.gemmini.document import rocc_encoding as rocc
from accel.isa.gemmini.stream import conv_loop
from accel.isa.gemmini.stream import conv_loop_shape as shapes
from accel.isa.gemmini.stream import kernel_layout as isa
from accel.isa.gemmini.stream.loop_registers import set_register
from accel.isa.gemmini.timing.machine import places as at
from accel.isa.gemmini.timing.machine.commands import pass_on, send
from accel.isa.gemmini.timing.machine.matmul_unroller import IDLE, RUNS, end_loop
from accel.isa.gemmini.timing.machine.queues import front, has_room, has_room_now, offers, put, take
from accel.isa.kernels.compiled_kernels import compiled
from accel.util.arrays import Int64

FROM = 1  # what marks commands of this unroller
_STAGES = 2  # of the pipeline behind each part
_LOADS = 1 << at.PART_A | 1 << at.PART_B | 1 << at.PART_D


@compiled
def _part(which: int) -> int:
    return at.CONV_PARTS + which * at.U_WIDTH


@compiled
def _pipe(which: int) -> int:
    return at.CONV_PIPES + which * at.CONV_PIPE


@compiled
def _loop(number: int) -> int:
    return at.CONV_LOOPS + number * at.L_WIDTH


@compiled
def is_loop_command(funct: int) -> bool:
    """Whether a command is loop_conv_ws or one of its registers."""
    return rocc.LOOP_CONV <= funct <= rocc.CONV_6


@compiled
def _write_out(
    m: Int64, loop: int, number: int, command: int, registers: Int64, sizes: Int64, shape: Int64, commands: Int64
) -> None:
    """Write a loop's commands to ``commands`` (n, 3), part by part."""
    rs1, rs2 = m[command + at.F_RS1], m[command + at.F_RS2]
    m[loop + at.L_ORIGIN], m[loop + at.L_CONFIGURED] = m[command + at.F_ORIGIN], 1
    shapes.conv_fault(shape, registers, rs1, rs2, sizes)
    registers[isa.HALF_LOOP] = number
    d_half, c_half = registers[isa.HALF_D], registers[isa.HALF_C]
    shapes.place_conv(shape, registers, rs1, sizes, 1)
    turn = 1 if registers[isa.C_OUTPUT] != 0 else 0
    registers[isa.HALF_D], registers[isa.HALF_C] = d_half ^ turn, c_half ^ turn
    count = 0
    for which in range(5):
        m[loop + at.L_FIRST + which] = count
        if which == at.PART_A and registers[isa.C_INPUT] != 0:
            count = conv_loop.load_input(commands, count, shape, registers, sizes)
        elif which == at.PART_B and registers[isa.C_WEIGHTS] != 0:
            count = conv_loop.load_weights(commands, count, shape, registers, sizes)
        elif which == at.PART_EX:
            count = conv_loop.compute(commands, count, shape, registers, sizes[isa.DIM])
        elif which == at.PART_D and registers[isa.C_BIAS] != 0:
            count = conv_loop.load_bias(commands, count, shape, registers, sizes)
        elif which == at.PART_ST and registers[isa.C_OUTPUT] != 0:
            if shape[shapes.POOLED]:
                count = conv_loop.store_pooled(commands, count, shape, registers, sizes[isa.DIM])
            else:
                count = conv_loop.store(commands, count, shape, registers, sizes[isa.DIM])
    m[loop + at.L_FIRST + 5] = count


@compiled
def _is_idle(m: Int64, which: int) -> bool:
    return bool(m[_part(which) + at.U_STATE] == IDLE and m[_pipe(which) + 1] == 0)


@compiled
def _other_loads_first(m: Int64, which: int) -> bool:
    """Whether a part's loads wait for those of the loop before, whose products wait for them."""
    number = m[_part(at.PART_EX) + at.U_LOOP]
    loop = _loop(number)
    if m[_part(which) + at.U_LOOP] == number:
        return False
    if not m[loop + at.L_STARTED + at.PART_EX] or m[loop + at.L_COMPLETED + at.PART_EX]:
        return False
    loaded = m[loop + at.L_COMPLETED + at.PART_A] and m[loop + at.L_COMPLETED + at.PART_B]
    return not (loaded and m[loop + at.L_COMPLETED + at.PART_D])


@compiled
def _enters(m: Int64, which: int, idle: int) -> bool:
    """Whether a part puts its next command into its pipeline; ``idle``: which parts were idle in this cycle."""
    part = _part(which)
    if m[part + at.U_STATE] == IDLE or m[part + at.U_NEXT] >= m[part + at.U_END]:
        return False
    if which == at.PART_EX:
        for other in (at.PART_A, at.PART_B, at.PART_D):
            if m[_part(other) + at.U_LOOP] == m[part + at.U_LOOP] and not idle >> other & 1:
                return False
        return True
    if which == at.PART_ST:
        return bool(m[_part(at.PART_EX) + at.U_LOOP] != m[part + at.U_LOOP] or idle >> at.PART_EX & 1)
    return not _other_loads_first(m, which)


@compiled
def _send_next(m: Int64, now: int, commands: Int64) -> int:
    """Send a command of the first part whose pipeline has one; which queue it goes to, or -1."""
    for which in (at.PART_ST, at.PART_EX, at.PART_D, at.PART_B, at.PART_A):
        pipe = _pipe(which)
        if not m[pipe + 1] or m[front(m, pipe)] + _STAGES > now:
            continue
        queue = 2 if which == at.PART_ST else (1 if which == at.PART_EX else 0)
        if m[at.CONV_USED + queue] >= m[at.LOAD_ENTRIES + queue]:
            continue
        row = m[front(m, pipe) + 1]
        number = m[_part(which) + at.U_LOOP]
        command = commands[number, row]
        send(m, now, at.MATMUL_QUEUE, m[_loop(number) + at.L_ORIGIN], command[0], command[1], command[2], FROM)
        take(m, pipe, now)
        return queue
    return -1


@compiled
def _begin_parts(m: Int64, idle: int) -> None:
    head = m[at.CONV_HEAD]
    started = 0
    for number in range(2):
        for which in range(5):
            started |= m[_loop(number) + at.L_STARTED + which] << 5 * number + which
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
        m[part + at.U_NEXT], m[part + at.U_END] = m[loop + at.L_FIRST + which], m[loop + at.L_FIRST + which + 1]
        m[loop + at.L_STARTED + which], m[loop + at.L_RUNNING] = 1, 1
        m[at.CHANGED] = 1


@compiled
def _move_parts(m: Int64, now: int, room: bool, commands: Int64) -> int:
    """Move the parts of running loops one cycle on; which queue a command was sent to, or -1."""
    idle, enters = 0, 0
    for which in range(5):
        if _is_idle(m, which):
            idle |= 1 << which
    for which in range(5):
        if _enters(m, which, idle):
            enters |= 1 << which
    for which in range(5):
        loop = _loop(m[_part(which) + at.U_LOOP])
        if idle >> which & 1 and m[loop + at.L_RUNNING] and m[loop + at.L_STARTED + which]:
            if not m[loop + at.L_COMPLETED + which]:
                m[at.CHANGED] = 1
            m[loop + at.L_COMPLETED + which] = 1
    sent = _send_next(m, now, commands) if room else -1
    for which in range(5):
        part = _part(which)
        if m[part + at.U_STATE] != IDLE and m[part + at.U_NEXT] >= m[part + at.U_END]:
            m[part + at.U_STATE] = IDLE  # nothing to send
            m[at.CHANGED] = 1
        elif enters >> which & 1 and has_room_now(m, _pipe(which)):
            m[put(m, _pipe(which), now) + 1] = m[part + at.U_NEXT]
            m[part + at.U_NEXT] += 1
            if m[part + at.U_NEXT] == m[part + at.U_END]:
                m[part + at.U_STATE] = IDLE
    _begin_parts(m, idle)
    return sent


@compiled
def step_conv_unroller(m: Int64, now: int, registers: Int64, sizes: Int64, shape: Int64, commands: Int64) -> None:
    """Move the unroller one cycle on; ``commands`` (2, n, 3) holds those of its two loops."""
    configured = m[_loop(0) + at.L_CONFIGURED] or m[_loop(1) + at.L_CONFIGURED]
    room, commanded = has_room(m, at.MATMUL_QUEUE, now), offers(m, at.CONV_QUEUE, now)
    if not configured and not (commanded and is_loop_command(m[front(m, at.CONV_QUEUE) + at.F_FUNCT])):
        if m[at.FSM_ANY]:
            for queue in range(3):
                m[at.CONV_USED + queue] -= m[at.FSM_DONE + queue]
        if commanded and room:
            pass_on(m, now, at.CONV_QUEUE, at.MATMUL_QUEUE)
        m[at.CONV_STILL] = 0
        return
    returned = m[at.FSM_DONE] + m[at.FSM_DONE + 1] + m[at.FSM_DONE + 2]
    if m[at.CONV_STILL] and returned == 0 and m[at.CONV_STILL] == 1 + room + 2 * commanded:
        return  # nothing moved in the cycle before, and all is as it was
    changed, m[at.CHANGED] = m[at.CHANGED], 0
    head = m[at.CONV_HEAD]
    being = 1 - head if m[_loop(head) + at.L_CONFIGURED] else head
    being_configured = m[_loop(being) + at.L_CONFIGURED]
    sent, ends = -1, False
    if configured:
        first = _loop(head)
        ends = m[first + at.L_RUNNING] == 1
        for which in range(5):
            ends = ends and m[first + at.L_COMPLETED + which] == 1
        sent = _move_parts(m, now, room, commands)
    for queue in range(3):
        m[at.CONV_USED + queue] += (queue == sent) - m[at.FSM_DONE + queue]
    if commanded:
        command = front(m, at.CONV_QUEUE)
        funct = m[command + at.F_FUNCT]
        if is_loop_command(funct) and not being_configured:
            if funct == rocc.LOOP_CONV:
                _write_out(m, _loop(being), being, command, registers, sizes, shape, commands[being])
            else:
                set_register(registers, funct, m[command + at.F_RS1], m[command + at.F_RS2])
            take(m, at.CONV_QUEUE, now)
    if ends:
        end_loop(m, _loop(head))
        m[at.CONV_HEAD] = 1 - head
        m[at.CHANGED] = 1
    moves = m[at.CHANGED] or returned
    for which in range(5):
        pipe = _pipe(which)
        moves = moves or (m[pipe + 1] > 0 and m[front(m, pipe)] + _STAGES > now)
    m[at.CONV_STILL] = 0 if moves else 1 + room + 2 * commanded
    m[at.CHANGED] |= changed
