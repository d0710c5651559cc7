"""VTA's Chisel design, register by register: one step a clock cycle, no rule of ours.

Slow, and independent of :mod:`accel.isa.vta.timing.vta_timing`, which knows events and formulas. Every class stands for
a module of tvm-vta ``hardware/chisel`` (named in its docstring) and holds that module's registers; ``wires`` are read
before ``clock`` sets what the next cycle sees. The memory behind the bus is that of the recordings: in order, one beat
a cycle, the first ``latency + 2`` cycles after the request; writes are acknowledged two cycles after their last beat.
"""

from collections import deque
from dataclasses import dataclass, field

import numpy as np

_IDLE, _BUSY, _SYNC = "idle", "busy", "sync"
_CLIENTS = ("fetch", "uop", "inp", "wgt", "acc")  # core/Core.scala: io.vme.rd(0) to rd(4), first served first
_TOKENS = {("load", "compute"): 0, ("compute", "load"): 0, ("compute", "store"): 0, ("store", "compute"): 0}


@dataclass
class Machine:
    """The design's parameters: bytes of the bus and of elements in DRAM, cycles, entries."""

    bus: int = 8
    latency: int = 16
    burst: int = 256
    elements: dict = field(default_factory=lambda: {"uop": 4, "inp": 16, "wgt": 256, "acc": 64, "out": 16})
    queue: int = 512
    in_flight: int = 16
    token_limit: int = 255

    @property
    def page(self):
        return self.burst * self.bus


class Memory:
    """The harness: requests to beats."""

    def __init__(self, machine):
        self.machine, self.free, self.beats = machine, 0, deque()

    def request(self, now, client, beats):
        start = max(self.free, now + self.machine.latency + 2)
        self.free = start + beats
        self.beats.extend((start + i, client, i == beats - 1) for i in range(beats))

    def beat(self, now):
        """(client, last) of the beat on the bus in this cycle, or (None, False)."""
        if self.beats and self.beats[0][0] == now:
            return self.beats.popleft()[1:]
        return None, False


class ReadEngine:
    """shell/VME.scala: a command queue of one entry a client, 16 tags, none given in the cycle of a last beat."""

    def __init__(self, machine, memory):
        self.memory, self.commands, self.tags, self.arrived = memory, dict.fromkeys(_CLIENTS), machine.in_flight, None

    def clock(self, now, offers):
        client, last = self.memory.beat(now)
        chosen = next((c for c in _CLIENTS if self.commands[c] is not None), None)
        granted = chosen if chosen is not None and self.tags > 0 and not last else None
        accepted = {c: beats for c, beats in offers.items() if self.commands[c] is None}
        if granted is not None:
            self.memory.request(now, granted, self.commands[granted])
            self.commands[granted] = None
            self.tags -= 1
        self.tags += last
        self.commands.update(accepted)
        self.arrived = client


class Padding:
    """core/TensorLoadNarrowVME.scala, ZeroPadding: writes a zero in each cycle that brings no data."""

    def __init__(self):
        self.state = _IDLE

    def start(self, f):
        self.f, self.row, self.column = f, 0, 0
        self.last = f["x_pad_0"] + f["x_size"] + f["x_pad_1"] - 1
        if f["y_pad_0"]:
            self.state = "top"
        else:
            self._sides()

    def _sides(self):
        left, right = self.f["x_pad_0"], self.f["x_pad_1"]
        self.state = {(True, False): "left", (False, True): "right", (True, True): "both"}.get(
            (left > 0, right > 0), "skip" if self.f["y_pad_1"] else _IDLE
        )
        self.column = left + self.f["x_size"] if self.state == "right" else 0

    def clock(self, can_write):
        f, state, row, column = self.f, self.state, self.row, self.column
        writes = can_write and state not in (_IDLE, "skip")
        line_end = (state in ("both", "right") and column == self.last) or (
            state == "left" and column == f["x_pad_0"] - 1
        )
        row_end = (writes and (line_end or (state in ("top", "bottom") and column == self.last))) or state == "skip"
        self.row += row_end
        if row_end and state == "top" and row == f["y_pad_0"] - 1:
            self._sides()
        elif row_end and state in ("left", "right", "both", "skip") and row == f["y_pad_0"] + f["y_size"] - 1:
            self.state, self.column = ("bottom", 0) if f["y_pad_1"] else (_IDLE, 0)
        elif row_end and state == "bottom" and row == f["y_pad_0"] + f["y_size"] + f["y_pad_1"] - 1:
            self.state = _IDLE
        elif row_end:
            self.column = f["x_pad_0"] + f["x_size"] if state == "right" else 0
        elif writes:
            self.column += f["x_size"] + 1 if state == "both" and column == f["x_pad_0"] - 1 else 1


class Loader:
    """core/TensorLoadNarrowVME.scala; for elements that fit a beat, as micro-ops do, core/TensorLoadWideVME.scala."""

    def __init__(self, machine, client):
        self.machine, self.client, self.size = machine, client, machine.elements[client]
        self.wide = self.size <= machine.bus
        self.busy, self.commands_done, self.outstanding, self.pipe = False, True, 0, False
        self.padding, self.padding_starts = Padding(), False

    def start(self, f):
        self.f, self.busy, self.commands_done, self.outstanding = f, True, False, 0
        self.source_row, self.row, self.read = 0, 0, 0
        self.line = f["dram_base"] * self.size
        self.address = self.line // self.machine.bus * self.machine.bus
        if self.wide:
            self.padding.start(f)
        else:
            self.padding_starts = True

    @property
    def done(self):
        return self.busy and self.commands_done and self.outstanding == 0 and self.padding.state == _IDLE

    def _beats_of_line(self):
        begin, end = self.line, self.line + self.f["x_size"] * self.size
        return -(-end // self.machine.bus) - begin // self.machine.bus

    def offer(self):
        """Beats of the command on its wires, or None."""
        f = self.f if self.busy else None
        if not self.busy or self.commands_done or not f["y_pad_0"] <= self.row < f["y_pad_0"] + f["y_size"]:
            return None
        room = (self.machine.page - self.address % self.machine.page) // self.machine.bus
        return min(self._beats_of_line() - self.read, room if self.read == 0 else self.machine.burst)

    def clock(self, arrived, fired):
        """``arrived``: the memory engine hands over a beat; ``fired``: it took the command of that many beats."""
        data = arrived if self.wide else self.pipe
        self.pipe = arrived
        if self.done:
            self.busy = False
        self.outstanding -= data and self.busy
        starts, self.padding_starts = self.padding_starts, False
        if starts:
            self.padding.start(self.f)
        elif self.padding.state != _IDLE:
            self.padding.clock(not data)
        if not self.busy:
            return
        stride = False
        if fired:
            self.outstanding += fired
            self.read += fired
            self.address += fired * self.machine.bus
            if self.read == self._beats_of_line():
                if self.source_row == self.f["y_size"] - 1:
                    self.commands_done = True
                else:
                    stride = True
        if stride or self.row < self.f["y_pad_0"]:
            self.row += 1
        if stride:
            self.source_row += 1
            self.read = 0
            self.line += self.f["x_stride"] * self.size
            self.address = self.line // self.machine.bus * self.machine.bus


class Pipeline:
    """core/TensorGemm.scala, TensorAlu.scala: an index generator, and four stages until the result is written."""

    def __init__(self):
        self.state, self.stages, self.inflight, self.starts = _IDLE, [False] * 4, 0, None

    def start(self, steps, cycles_a_step):
        self.starts = (steps, cycles_a_step)  # Compute.scala: RegNext

    @property
    def done(self):
        return self.state == "wait" and self.inflight == 0

    def clock(self):
        valid, leaving = False, self.stages[-1]
        if self.done:
            self.state = _IDLE
        elif self.state == "run":
            self.phase += 1
            if self.phase == self.cycles:
                valid, self.phase = True, 0
                self.left -= 1
                self.state = "run" if self.left else "wait"
        if self.starts is not None:
            (self.left, self.cycles), self.phase, self.state, self.starts = self.starts, 0, "run", None
        self.stages = [valid, *self.stages[:-1]]
        self.inflight += valid - leaving


class Storer:
    """core/TensorStoreNarrowVME.scala, and the write half of shell/VME.scala."""

    def __init__(self, machine):
        self.machine, self.state, self.engine = machine, _IDLE, _IDLE
        self.blocks = max(machine.elements["out"] // machine.bus, 1)

    def start(self, f):
        self.f, self.state, self.row, self.tag = f, "command", 0, 0
        self.address = self.line = f["dram_base"] * self.machine.elements["out"]
        self.left = f["x_size"] * self.blocks
        self._burst()

    def _burst(self):
        room = (self.machine.page - self.address % self.machine.page) // self.machine.bus
        self.beats = min(self.left, room)
        self.left -= self.beats
        self.address += self.beats * self.machine.bus
        self.count = 0

    @property
    def acknowledged(self):
        return self.state == "acknowledge" and self.engine == "acknowledge"

    @property
    def done(self):
        return self.acknowledged and self.left == 0 and self.row == self.f["y_size"] - 1

    def clock(self):
        state, engine = self.state, self.engine
        if state == "command" and engine == _IDLE:
            self.state, self.engine, self.tag = "data", "address", 0
        elif engine == "address":
            self.engine = "data"
        elif state == "read":
            self.state = "data"
        elif state == "data":
            self.count += 1
            self.tag = (self.tag + 1) % self.blocks
            if self.count == self.beats:
                self.state, self.engine = "acknowledge", "respond"
            elif self.tag == 0:
                self.state = "read"
        elif engine == "respond":
            self.engine = "acknowledge"
        elif self.acknowledged:
            self._go_on()

    def _go_on(self):
        done, self.engine = self.done, _IDLE
        if done:
            self.state = _IDLE
            return
        if self.left == 0:
            self.row += 1
            self.line += self.f["x_stride"] * self.machine.elements["out"]
            self.address, self.left = self.line, self.f["x_size"] * self.blocks
        self.state = "command"
        self._burst()


class Fetch:
    """core/FetchVME64.scala: a burst of 128 instructions; the next when all of them are in their units' queues."""

    def __init__(self, machine, units):
        self.machine, self.units, self.state = machine, units, "command"
        self.left, self.next, self.held, self.beats = len(units), 0, 0, 0
        self._burst()

    def _burst(self):
        self.size = min(self.left, self.machine.burst * self.machine.bus // 16)
        self.left -= self.size
        self.beats = self.size * 16 // self.machine.bus

    def offer(self):
        return self.beats if self.state == "command" else None

    def dispatch(self, queues):
        """The unit that takes the next instruction in this cycle, or None."""
        if self.state == "drain" and self.held and len(queues[self.units[self.next]]) < self.machine.queue:
            return self.units[self.next]
        return None

    def clock(self, arrived, fired, dispatched):
        if self.state == "command" and fired:
            self.state = "read"
        elif self.state == "read" and arrived:
            self.beats -= 1
            if self.beats == 0:
                self.state, self.held = "drain", self.size
        elif self.state == "drain" and self.held == 0:
            self.state = "command" if self.left else _IDLE
            if self.left:
                self._burst()
        elif dispatched:
            self.next += 1
            self.held -= 1


class Unit:
    """core/Load.scala, Compute.scala, Store.scala: idle, then sync or busy, then idle."""

    def __init__(self):
        self.queue, self.state, self.current = deque(), _IDLE, None


def _moves(f):
    return f["x_size"] > 0


class Design:
    """The whole accelerator on one launch: ``decoded`` instructions, tokens in the queues, until it is quiet."""

    def __init__(self, decoded, machine, tokens=None):
        self.machine = machine
        self.instructions = decoded.accelerator.instructions
        self.kind = [self.instructions[k] for k in decoded.kind]
        self.fields = [
            {f.name: int(decoded.columns[f.name][i]) for f in kind.fields} for i, kind in enumerate(self.kind)
        ]
        self.memory = Memory(machine)
        self.reads = ReadEngine(machine, self.memory)
        self.fetch = Fetch(machine, [kind.unit for kind in self.kind])
        self.loaders = {client: Loader(machine, client) for client in _CLIENTS[1:]}
        self.pipeline, self.storer = Pipeline(), Storer(machine)
        self.units = {name: Unit() for name in ("load", "compute", "store")}
        self.tokens = dict(_TOKENS)
        for name, count in (tokens or {}).items():
            self.tokens[tuple(name.split("_to_"))] = count
        self.start = np.full(len(self.kind), -1, np.int64)
        self.end = np.full(len(self.kind), -1, np.int64)

    def run(self, limit=1_000_000):
        """Step until every instruction has ended; the cycle of the last end, or None when ``limit`` is reached."""
        for now in range(limit):
            self.step(now)
            if now % 64 == 63 and (self.end >= 0).all():
                return int(self.end.max())
        return None

    def tokens_left(self):
        return {"_to_".join(queue): count for queue, count in self.tokens.items()}

    def step(self, now):
        queues = {name: unit.queue for name, unit in self.units.items()}
        to = self.fetch.dispatch(queues)
        offers = {"fetch": self.fetch.offer()} | {c: loader.offer() for c, loader in self.loaders.items()}
        offers = {c: beats for c, beats in offers.items() if beats is not None}
        fired = {c: beats for c, beats in offers.items() if self.reads.commands[c] is None}
        pops, posts, starting = set(), set(), []
        for name, unit in self.units.items():
            self._unit(name, unit, now, pops, posts, starting)
        arrived = self.reads.arrived
        self.reads.clock(now, offers)
        index = self.fetch.next
        self.fetch.clock(arrived == "fetch", "fetch" in fired, to is not None)
        for client, loader in self.loaders.items():
            loader.clock(arrived == client, fired.get(client, 0))
        self.pipeline.clock()
        self.storer.clock()
        for act in starting:
            act()
        if to is not None:
            self.units[to].queue.append(index)
        for queue in _TOKENS:  # core/Semaphore.scala
            posted, popped = queue in posts, queue in pops
            if posted and not popped:
                self.tokens[queue] = min(self.tokens[queue] + 1, self.machine.token_limit)
            if popped and not posted:
                self.tokens[queue] -= 1

    def _unit(self, name, unit, now, pops, posts, starting):
        if unit.state == _IDLE:
            if not unit.queue:
                return
            index = unit.queue[0]
            kind, f = self.kind[index], self.fields[index]
            wanted = [(other, name) for other, token in kind.tokens.pop.items() if f[token]]
            if any(self.tokens[queue] == 0 for queue in wanted):
                return
            pops.update(wanted)
            self.start[index] = now
            unit.state, action = self._begin(kind, f)
            if action is not None:
                starting.append(action)
            return
        index = unit.queue[0]
        kind, f = self.kind[index], self.fields[index]
        if unit.state == _SYNC or self._done(kind):
            posts.update((name, other) for other, token in kind.tokens.push.items() if f[token])
            unit.state = _IDLE
            unit.queue.popleft()
            self.end[index] = now + 1

    def _begin(self, kind, f):
        if kind.kind == "finish":
            return _BUSY, None
        if kind.kind == "compute":
            steps = f["iter_out"] * f["iter_in"] * (f["uop_end"] - f["uop_bgn"])
            cycles = 2 if kind.name == "alu" and not f["use_imm"] else 1
            return _BUSY, lambda: self.pipeline.start(steps, cycles)
        if kind.kind == "sync" or not _moves(f):
            return _SYNC, None
        module = self.storer if kind.direction == "store" else self.loaders[kind.memory]
        return _BUSY, lambda: module.start(f)

    def _done(self, kind):
        if kind.kind == "finish":
            return True
        if kind.kind == "compute":
            return self.pipeline.done
        return self.storer.done if kind.direction == "store" else self.loaders[kind.memory].done
