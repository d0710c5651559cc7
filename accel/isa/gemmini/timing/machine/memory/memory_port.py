"""The port to memory, the crossbar of reader and writer before it, their buffers, and translation's filter.

Each buffer of two entries costs a cycle (rocket-chip ``TLBuffer``; Scratchpad.scala puts one behind reader, writer and
crossbar): 2 cycles to the port, 2 back.
"""

from accel.isa.gemmini.timing.machine import places as at
from accel.isa.gemmini.timing.machine.memory.memory_hierarchy import cached_answer
from accel.isa.gemmini.timing.machine.queues import front, has_room, offers, put, take
from accel.isa.kernels.compiled_kernels import compiled
from accel.util.arrays import Int64

READER, WRITER = 1, 0  # of the translation's two clients (Scratchpad.scala)
PAGE_BITS = 12


@compiled
def send_beat(m: Int64, queue: int, now: int, packet: int, write: int, beats: int, beat: int, answer: int) -> None:
    """Put a beat of a request, whose ``packet`` is translated, into a buffer."""
    slot = put(m, queue, now)
    m[slot + at.A_WRITE], m[slot + at.A_SOURCE], m[slot + at.A_BEATS] = write, m[packet + at.P_SOURCE], beats
    m[slot + at.A_ADDRESS], m[slot + at.A_BYTES] = m[packet + at.P_ADDRESS], m[packet + at.P_BYTES]
    m[slot + at.A_BEAT], m[slot + at.A_ANSWER] = beat, answer


@compiled
def answer_start(m: Int64) -> int:
    """When the first answer that is due can be offered."""
    head = front(m, at.ANSWERS)
    return int(max(m[head + at.N_DUE], m[at.ANSWER_LAST] + 1))


@compiled
def step_answers(m: Int64, now: int) -> None:
    """Move a beat from the port's buffer to that of its client, and one from memory to the port's buffer."""
    if offers(m, at.PORT_D, now):
        beat = front(m, at.PORT_D)
        buffer = at.WRITE_D if m[beat + at.D_WRITE] else at.READ_D
        if has_room(m, buffer, now):
            slot = put(m, buffer, now)
            for place in range(1, at.D_WIDTH):
                m[slot + place] = m[beat + place]
            take(m, at.PORT_D, now)
    if m[at.ANSWERS + 1] and now >= answer_start(m) and has_room(m, at.PORT_D, now):
        head = front(m, at.ANSWERS)
        m[at.ANSWER_BEAT] += 1
        last = m[at.ANSWER_BEAT] == m[head + at.N_BEATS]
        slot = put(m, at.PORT_D, now)
        m[slot + at.D_WRITE], m[slot + at.D_SOURCE] = m[head + at.N_WRITE], m[head + at.N_SOURCE]
        m[slot + at.D_LAST] = last
        m[at.PROGRESS] = now
        if last:
            take(m, at.ANSWERS, now)
            m[at.ANSWER_BEAT], m[at.ANSWER_LAST] = 0, now
            m[at.OPEN] -= 1
            m[at.CLOSED_AT] = now


@compiled
def _answer(m: Int64, index: int) -> int:
    """Where the numbers of an answer lie; 0: the first that is due."""
    position = m[at.ANSWERS] + index
    if position >= at.MOST_OPEN:
        position -= at.MOST_OPEN
    return int(at.ANSWERS + at.HEADER + position * at.N_WIDTH)


@compiled
def _sort_answers(m: Int64) -> None:
    """Move the last answer before those that are due later, but not before one that has begun."""
    index = m[at.ANSWERS + 1] - 1
    first = 1 if m[at.ANSWER_BEAT] else 0
    while index > first:
        slot, before = _answer(m, index), _answer(m, index - 1)
        if m[before + at.N_DUE] <= m[slot + at.N_DUE]:
            return
        for place in range(at.N_WIDTH):
            kept = m[slot + place]
            m[slot + place] = m[before + place]
            m[before + place] = kept
        index -= 1


@compiled
def _accept(m: Int64, now: int) -> None:
    """Memory takes a beat, if fewer requests are open than it takes; a write that has begun is always taken."""
    if not offers(m, at.PORT_A, now):
        return
    beat = front(m, at.PORT_A)
    first = m[beat + at.A_BEAT] == 0
    if first and m[at.OPEN] + (m[at.CLOSED_AT] == now) >= m[at.MEMORY_IN_FLIGHT]:
        return
    if first:
        m[at.OPEN] += 1
    if m[beat + at.A_BEAT] == m[beat + at.A_BEATS] - 1:
        slot = put(m, at.ANSWERS, now)
        m[slot + at.N_WRITE], m[slot + at.N_SOURCE] = m[beat + at.A_WRITE], m[beat + at.A_SOURCE]
        m[slot + at.N_BEATS] = m[beat + at.A_ANSWER]
        if m[at.L2_SETS]:
            m[slot + at.N_DUE] = cached_answer(m, now, beat)
            _sort_answers(m)
        else:
            m[slot + at.N_DUE] = now + m[at.LATENCY]
    take(m, at.PORT_A, now)


@compiled
def step_requests(m: Int64, now: int) -> None:
    """Memory takes a beat; the crossbar passes one on: reader and writer in turn, all beats of a write together."""
    _accept(m, now)
    if not has_room(m, at.PORT_A, now):
        return
    reads, writes = offers(m, at.READ_A, now), offers(m, at.WRITE_A, now)
    if m[at.XBAR_LOCKED]:
        reads = False
    if not reads and not writes:
        return
    # rocket-chip's TLArbiter.roundRobin: the writer first, after a write the reader
    writer = writes and (not reads or not m[at.XBAR_AFTER_WRITER])
    source = at.WRITE_A if writer else at.READ_A
    beat = front(m, source)
    if not m[at.XBAR_LOCKED]:
        m[at.XBAR_AFTER_WRITER] = writer
    m[at.XBAR_LOCKED] = m[beat + at.A_BEAT] < m[beat + at.A_BEATS] - 1
    slot = put(m, at.PORT_A, now)
    for place in range(1, at.A_WIDTH):
        m[slot + place] = m[beat + place]
    take(m, source, now)


@compiled
def asks_page(m: Int64, client: int, address: int) -> bool:
    """Whether the client's last page is another one than this address's (FrontendTLB.scala)."""
    return bool(m[at.TLB_PAGE + client] != address >> PAGE_BITS)


@compiled
def _find_page(m: Int64, page: int, now: int) -> bool:
    """Whether the translation buffer has a page; a miss begins a walk, if none is under way.

    Its one entry is of pages that lie together in an aligned group (rocket-chip ``TLB``, ``nSectors``): a page of
    another group drives all of these out, as vm/loop_ws_4x4x4 shows, which walks for B's page again after A's.
    """
    if m[at.WALK_LATENCY] < 0:
        return True
    sector, group = page & m[at.TLB_SECTORS] - 1, page & -m[at.TLB_SECTORS]
    if m[at.TLB_WALK_READY] == now:  # the entry is written in this cycle
        _keep_walked(m, m[at.TLB_WALK_PAGE])
        return False
    if m[at.TLB_GROUP] == group and m[at.TLB_VALID] >> sector & 1:
        return True
    if m[at.TLB_WALK_READY] < now:
        m[at.TLB_WALK_READY], m[at.TLB_WALK_PAGE] = now + 1 + m[at.WALK_LATENCY], page
    return False


@compiled
def _keep_walked(m: Int64, page: int) -> None:
    group = page & -m[at.TLB_SECTORS]
    if m[at.TLB_GROUP] != group:
        m[at.TLB_GROUP], m[at.TLB_VALID] = group, 0
    m[at.TLB_VALID] |= 1 << (page & m[at.TLB_SECTORS] - 1)


@compiled
def answer_translation(m: Int64, now: int) -> None:
    """Answer what the two clients asked in the cycle before: who misses.

    One buffer serves both: if both ask, one is refused and must ask again (FrontendTLB.scala, Chisel's RRArbiter).
    """
    m[at.TLB_FOUND] = -1
    for client in range(2):
        m[at.TLB_MISS + client] = 1 - m[at.TLB_HIT + client]
    reader, writer = m[at.TLB_ASKED + READER], m[at.TLB_ASKED + WRITER]
    if not reader and not writer:
        if m[at.TLB_WALK_READY] == now:
            _keep_walked(m, m[at.TLB_WALK_PAGE])
        return
    granted = READER if reader and (not writer or m[at.TLB_GRANT] == WRITER) else WRITER
    m[at.TLB_GRANT] = granted
    m[at.CHANGED] = 1
    page = m[at.TLB_ASKED_PAGE + granted]
    if _find_page(m, page, now):
        m[at.TLB_MISS + granted] = 0
        m[at.TLB_FOUND], m[at.TLB_FOUND_PAGE] = granted, page


@compiled
def forget_pages(m: Int64) -> None:
    """Empty the translation buffer, and the clients' last pages."""
    m[at.TLB_PAGE] = m[at.TLB_PAGE + 1] = m[at.TLB_GROUP] = -1
    m[at.TLB_VALID] = 0


@compiled
def keep_page(m: Int64) -> None:
    """Remember the page that was found in this cycle, as its client's last."""
    if m[at.TLB_FOUND] >= 0:
        m[at.TLB_PAGE + m[at.TLB_FOUND]] = m[at.TLB_FOUND_PAGE]
