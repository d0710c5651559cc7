import hashlib
from pathlib import Path

import pytest

from accel.frontend.read.model_info import TensorInfo
from worker.records.uploads import Tensors, tensors
from worker.storage.object_store import Store


@pytest.fixture
def upload(tmp_path: Path) -> tuple[Path, Tensors]:
    path = tmp_path / "x.npz"
    path.write_bytes(b"some data")
    info = TensorInfo(name="x", dtype="int8", shape=(9,))
    return path, Tensors(id=hashlib.sha256(b"some data").hexdigest(), bytes=9, tensors=[info])


def test_keeps_a_file_and_its_document(store: Store, upload: tuple[Path, Tensors], tmp_path: Path) -> None:
    path, document = upload
    for _ in range(2):
        tensors(store).add(path, document)
    assert tensors(store).get(document.id) == document
    tensors(store).fetch(document.id, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"some data"


@pytest.mark.parametrize("digest", ["", "..", "0" * 64, "../../jobs", "A" * 64])
def test_unknown_uploads(store: Store, digest: str) -> None:
    with pytest.raises(KeyError):
        tensors(store).get(digest)


def test_a_damaged_blob_is_found(store: Store, upload: tuple[Path, Tensors], tmp_path: Path) -> None:
    path, document = upload
    tensors(store).add(path, document)
    store.write(f"tensors/{document.id}/data", b"other data")
    with pytest.raises(OSError, match="damaged"):
        tensors(store).fetch(document.id, tmp_path / "copy")
