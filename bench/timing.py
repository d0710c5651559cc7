"""Instructions a second of the timing engine, decoding included, warm, in one thread.

The streams are the recordings' largest, 401,419 instructions of a convolution in single pixels, and the 25 launches of
ResNet-18; without the recordings, random launches of the same sizes. As a measure of the machine, the same bytes are
copied in the same run: the words that come in, and the columns and times that go out.
"""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from accel.accelerator.document import Accelerator
from accel.catalog.load_accelerator import load_accelerator
from accel.isa.decode import decode
from accel.isa.vta.timing.vta_timing import time_launch

Words = npt.NDArray[np.uint64]
RECORDINGS = Path(__file__).resolve().parents[2] / "shared" / "golden" / "vta" / "streams.npz"
LARGE, LAUNCHES = 401_419, 25
_RUNS = 15


def least(act: Callable[[], object]) -> float:
    """Seconds of the fastest of some runs, after one that does not count."""
    act()
    seconds = []
    for _ in range(_RUNS):
        begin = time.perf_counter()
        act()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def synthetic(count: int, seed: int) -> Words:
    """A launch of small copies, GEMMs, ALU passes and stores, ordered by tokens as in the recordings."""
    random = np.random.default_rng(seed)
    words = np.zeros((count, 2), np.uint64)
    period = np.arange(count) % 6
    once = np.uint64(1 | 1 << 16 | 1 << 32)  # y_size, x_size, x_stride
    head = [0 | 1 << 4 | 2 << 7, 0 | 1 << 6 | 1 << 7, 2 | 1 << 3 | 1 << 5, 4, 4 | 1 << 6, 1 | 1 << 3 | 4 << 7]
    for kind, value in enumerate(head):
        rows = period == kind
        words[rows, 0] = value
        words[rows, 1] = once
        if kind in (0, 1, 5):
            words[rows, 0] |= random.integers(0, 4096, rows.sum(), np.uint64) << np.uint64(26)
        else:
            words[rows, 0] |= np.uint64(1 << 21 | 4 << 35 | 4 << 49)
            words[rows, 1] = np.uint64(1 << 47)
    words[period == 0, 0] &= ~np.uint64(1 << 4)
    words[period == 2, 0] &= ~np.uint64(1 << 5)
    words[-1] = (3, 0)
    return words


def launches() -> tuple[str, Words, dict[str, int], list[Words]]:
    """What is timed: where it comes from, the large launch, the tokens it begins with, the launches of a network."""
    if not RECORDINGS.is_file():
        sizes = np.full(LAUNCHES, 6_082)
        return "random launches", synthetic(LARGE, 0), {}, [synthetic(n, i + 1) for i, n in enumerate(sizes)]
    with np.load(RECORDINGS) as data:
        network = [data[name].view(np.uint64) for name in sorted(data.files) if name.startswith("resnet18_network_")]
        return "recordings", data["conv16_224_shift9_fallback"].view(np.uint64), {"store_to_compute": 1}, network


def run_all(accelerator: Accelerator, network: list[Words]) -> None:
    tokens: dict[str, int] = {}
    for words in network:
        tokens = time_launch(decode(accelerator, words), tokens).tokens


def copied_bytes(accelerator: Accelerator, words: Words) -> npt.NDArray[np.uint8]:
    """As many bytes as go in and come out."""
    decoded = decode(accelerator, words)
    timing = time_launch(decoded, dict.fromkeys(time_launch(decode(accelerator, words[:0]), {}).tokens, 200))
    columns = [*decoded.columns.values(), decoded.rest, timing.start, timing.end, *timing.waits.values()]
    return np.zeros(words.nbytes + sum(column.nbytes for column in columns), np.uint8)


def main() -> None:
    accelerator = load_accelerator("vta")
    source, large, tokens, network = launches()
    decoded = decode(accelerator, large)
    both = {"decode": least(lambda: decode(accelerator, large)), "time": least(lambda: time_launch(decoded, tokens))}
    together = least(lambda: time_launch(decode(accelerator, large), tokens))
    bytes_ = copied_bytes(accelerator, large)
    copy = least(lambda: np.copyto(np.empty_like(bytes_), bytes_))
    count, networks = len(large), sum(map(len, network))
    seconds = least(lambda: run_all(accelerator, network))
    print(f"{source:44} {'seconds':>8} {'instructions/s':>15}")
    for name, value in both.items():
        print(f"{f'{count:,} instructions: {name}':44} {value:8.3f} {count / value:15,.0f}")
    print(f"{f'{count:,} instructions: decode and time':44} {together:8.3f} {count / together:15,.0f}")
    print(f"{f'copying the same {bytes_.nbytes / 1e6:.0f} MB':44} {copy:8.3f} {count / copy:15,.0f}")
    print(
        f"{f'{len(network)} launches, {networks:,} instructions: both':44} {seconds:8.3f} {networks / seconds:15,.0f}"
    )
    for name, value in ((f"{count:,} instructions", together), (f"{len(network)} launches", seconds)):
        print(f"{name} in under 0.1 s: {'yes' if value < 0.1 else 'no'}")


if __name__ == "__main__":
    main()
