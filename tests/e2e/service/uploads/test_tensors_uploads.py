import hashlib
import io
import zipfile
from collections.abc import Callable

import httpx2
import numpy as np
import pytest

Check = Callable[..., dict]


def npz(**arrays: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def bomb() -> bytes:
    file = io.BytesIO()
    with (
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as target,
        target.open("x.npy", "w") as member,
    ):
        for _ in range(300):
            member.write(bytes(1 << 20))
    return file.getvalue()


def test_an_upload_is_described(client: httpx2.Client) -> None:
    data = npz(x=np.zeros((2, 3), np.float32), y=np.ones(4, np.int8))
    response = client.post("/v1/tensors", content=data)
    assert response.status_code == 201
    document = response.json()
    assert document["id"] == hashlib.sha256(data).hexdigest()
    assert document["tensors"] == [
        {"name": "x", "dtype": "float32", "shape": [2, 3]},
        {"name": "y", "dtype": "int8", "shape": [4]},
    ]
    assert client.get(response.headers["location"]).json() == document
    assert client.post("/v1/tensors", files={"file": ("x.npz", data)}).json() == document


BAD = {
    "not an npz": b"PK nothing",
    "pickled": npz(x=np.array([{"a": 1}], dtype=object)),
    "truncated": npz(x=np.zeros(1000))[:-100],
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files(client: httpx2.Client, is_problem: Check, name: str) -> None:
    is_problem(client.post("/v1/tensors", content=BAD[name]), 422, "invalid-tensors")


@pytest.mark.slow
def test_a_zip_bomb(client: httpx2.Client, is_problem: Check) -> None:
    is_problem(client.post("/v1/tensors", content=bomb()), 422, "tensors-too-large")


def test_unknown_tensors(client: httpx2.Client, is_problem: Check) -> None:
    is_problem(client.get(f"/v1/tensors/{'0' * 64}"), 404, "not-found")
