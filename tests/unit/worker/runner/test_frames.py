import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.runner.job_protocol import BrokenFrameError, Frames, encode_frame, parse_message

documents = st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=20) | st.none(), max_size=4)


@pytest.mark.slow
@given(st.lists(st.tuples(documents, st.binary(max_size=300)), max_size=6), st.lists(st.integers(1, 200), min_size=1))
def test_frames_come_through_however_they_are_cut(sent: list, cuts: list[int]) -> None:
    data = b"".join(encode_frame(document, body) for document, body in sent)
    frames, found, at = Frames(300), [], 0
    while at < len(data):
        cut = cuts[len(found) % len(cuts)]
        found += frames.feed(data[at : at + cut])
        at += cut
    assert found == sent


@given(st.binary(max_size=2000))
def test_noise_is_frames_or_refused(data: bytes) -> None:
    try:
        for found in Frames(100).feed(data):
            parse_message(found)
    except BrokenFrameError:
        return


@pytest.mark.parametrize(
    "data",
    [
        b"\xff" * 8,
        (2).to_bytes(4) + bytes(4) + b"[]",
        (1).to_bytes(4) + bytes(4) + b"{",
        (200_000).to_bytes(4) + bytes(4) + b"[" * 200_000,
        bytes(4) + (1 << 20).to_bytes(4),
    ],
    ids=["lengths", "no object", "no JSON", "deep", "too long"],
)
def test_what_is_no_frame(data: bytes) -> None:
    with pytest.raises(BrokenFrameError):
        list(Frames(1000).feed(data))


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"kind": "exit"},
        {"kind": "get", "key": "../../jobs/x"},
        {"kind": "put", "key": "A" * 64},
        {"kind": "line", "level": 10**9, "text": ""},
        {"kind": "succeeded", "result": {}},
    ],
)
def test_what_nobody_says(document: dict) -> None:
    with pytest.raises(BrokenFrameError):
        parse_message((document, b""))
