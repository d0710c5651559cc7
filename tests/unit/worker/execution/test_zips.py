import io
import struct
import zipfile

import pytest

from accel.errors import InvalidTensors
from worker.execution.tensor_archives import NpzArchive
from worker.execution.zip_limits import unpacked_bytes


def crowded(count: int) -> bytes:
    """A zip that is nothing but a directory of empty members."""
    entry = struct.Struct("<4s4B4HL2L5H2L").pack(b"PK\1\2", 20, 0, 20, 0, 0, 0, 0, 33, 0, 0, 0, 7, *[0] * 6)
    members = b"".join(entry + f"{number:07}".encode() for number in range(count))
    return members + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, count & 0xFFFF, count & 0xFFFF, len(members), 0, 0)


def test_counts_what_the_members_unpack_to() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", bytes(1000))
        archive.writestr("b", bytes(234))
    assert unpacked_bytes(file) == 1234
    assert unpacked_bytes(io.BytesIO(crowded(10))) == 0


@pytest.mark.parametrize("data", [b"", b"PK", b"hello" * 100, crowded(200_000), crowded(10)[:-30]])
def test_files_that_are_not_opened(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"not a zip|directory"):
        unpacked_bytes(io.BytesIO(data))


def test_an_npz_with_too_large_a_directory() -> None:
    with pytest.raises(InvalidTensors, match="directory"):
        NpzArchive(io.BytesIO(crowded(200_000)), max_bytes=1 << 20, max_arrays=4)
