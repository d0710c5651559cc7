"""Structure-aware mutations of programs: of fields, tokens, the order of instructions, bits, micro-ops."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from accel.accelerator.instructions import Copy
from accel.isa.decode import Decoded, decode
from accel.program.program_model import Launch, Program
from tests.reference.encode import encode

Random = np.random.Generator


def mutate(program: Program, random: Random) -> Program:
    """The program with one to four changes.

    Raises:
        SimulationError: a change that no instruction word can hold.
    """
    for _ in range(min(int(random.geometric(0.6)), 4)):
        program = _CHANGES[random.choice(len(_CHANGES), p=_SHARES)](program, random)
    return program


def _decoded(program: Program) -> Decoded:
    return decode(program.accelerator, program.words)


def _with_words(program: Program, words: np.ndarray) -> Program:
    """The program with other instructions; its last launch takes what was added or removed."""
    last = program.steps[-1]
    assert isinstance(last, Launch)
    count = max(len(words) - last.begin, 0)
    steps = (*program.steps[:-1], replace(last, begin=min(last.begin, len(words)), count=count))
    return replace(program, words=words, steps=steps, origin=np.full(len(words), -1, np.int32))


def _value(random: Random, bits: int, old: int) -> int:
    """A value near the old one, at an edge of the field, or anywhere in it."""
    top = (1 << bits) - 1
    small = [max(old - 1, 0), min(old + 1, top), old // 2, min(2 * old, top)]
    return int(random.choice([*small, 0, 1, top, int(random.integers(0, top + 1))], p=[0.2, 0.2, *[0.1] * 6]))


def _field(program: Program, random: Random) -> Program:
    decoded = _decoded(program)
    row = int(random.integers(len(decoded)))
    instruction = program.accelerator.instructions[decoded.kind[row]]
    fields = [f for f in instruction.fields if f.value is None and f.bits > 1]
    if not fields:
        return program
    field = fields[random.integers(len(fields))]
    old = int(decoded.columns[field.name][row])
    signed = field.type == "signed"
    value = _value(random, field.bits - signed, abs(old))
    decoded.columns[field.name][row] = -value if signed and random.integers(2) else value
    return replace(program, words=encode(decoded))


def _token(program: Program, random: Random) -> Program:
    words = program.words.copy()
    words[random.integers(len(words)), 0] ^= np.uint64(1 << int(random.integers(3, 7)))
    return replace(program, words=words)


def _token_pair(program: Program, random: Random) -> Program:
    """Take a push away and a pop of the same queue."""
    decoded = _decoded(program)
    push, pop = [("push_next", "pop_prev"), ("push_prev", "pop_next")][random.integers(2)]
    for field in (push, pop):
        rows = np.flatnonzero(decoded.columns[field])
        if len(rows):
            decoded.columns[field][random.choice(rows)] = 0
    return replace(program, words=encode(decoded))


def _initial_token(program: Program, random: Random) -> Program:
    queue = ["load_to_compute", "compute_to_load", "compute_to_store", "store_to_compute"][random.integers(4)]
    return replace(program, initial_tokens={queue: int(random.integers(0, 3))})


def _swap(program: Program, random: Random) -> Program:
    words = program.words.copy()
    at = int(random.integers(len(words) - 1))
    words[[at, at + 1]] = words[[at + 1, at]]
    return replace(program, words=words)


def _repeat(program: Program, random: Random) -> Program:
    at = int(random.integers(len(program.words)))
    return _with_words(program, np.insert(program.words, at, program.words[at], axis=0))


def _drop(program: Program, random: Random) -> Program:
    if len(program.words) < 3:
        return program
    return _with_words(program, np.delete(program.words, random.integers(len(program.words)), axis=0))


def _bit(program: Program, random: Random) -> Program:
    words = program.words.copy()
    words[random.integers(len(words)), random.integers(2)] ^= np.uint64(1) << np.uint64(random.integers(64))
    return replace(program, words=words)


def _opcode(program: Program, random: Random) -> Program:
    words = program.words.copy()
    at = random.integers(len(words))
    words[at, 0] = (words[at, 0] & ~np.uint64(7)) | np.uint64(random.integers(8))
    return replace(program, words=words)


def _too_wide(program: Program, random: Random) -> Program:
    """A value beyond its field, which only the encoder can see: padding, most of all."""
    decoded = _decoded(program)
    copies = [i for i in program.accelerator.instructions if isinstance(i, Copy) and i.copy_fields.pad_top]
    rows = np.concatenate([decoded.rows(copy) for copy in copies])
    field = ["y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1", "sram_base", "x_size"][random.integers(6)]
    decoded.columns[field][random.choice(rows)] = 1 << int(random.integers(4, 20))
    return replace(program, words=encode(decoded))


def _data(program: Program, random: Random) -> Program:
    """Some bytes of the image: micro-ops among them."""
    name = list(program.image)[random.integers(len(program.image))]
    array = program.image[name].copy()
    flat = array.reshape(-1).view(np.uint8)
    begin = int(random.integers(len(flat)))
    end = min(begin + int(random.integers(1, 9)), len(flat))
    flat[begin:end] = random.integers(0, 256, end - begin)
    return replace(program, image=program.image | {name: array})


def _loops(program: Program, random: Random) -> Program:
    """Longer loops of an instruction that repeats the same elements, up to the longest."""
    decoded = _decoded(program)
    rows = np.flatnonzero(decoded.column("iter_out"))
    if not len(rows):
        return program
    row = random.choice(rows)
    for side in ("out", "in"):
        decoded.columns[f"iter_{side}"][row] = int(random.integers(1, 1 << 14))
        for name in ("dst", "src", "wgt"):
            decoded.columns[f"{name}_factor_{side}"][row] = 0
    return replace(program, words=encode(decoded))


_WEIGHTED: list[tuple[Callable[[Program, Random], Program], float]] = [
    (_field, 6), (_token, 2), (_token_pair, 2), (_initial_token, 2), (_swap, 3), (_repeat, 3), (_drop, 2), (_bit, 2),
    (_opcode, 0.5), (_too_wide, 0.5), (_data, 6), (_loops, 0.3),
]  # fmt: skip
_CHANGES = [change for change, _ in _WEIGHTED]
_SHARES = np.array([share for _, share in _WEIGHTED]) / sum(share for _, share in _WEIGHTED)
