"""A model's fields counted as they lie in the file: protobuf makes a hundred bytes and more of one that takes two.

The wire format is https://protobuf.dev/programming-guides/encoding; the numbers of fields are those of ``onnx.proto``.
"""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_GRAPH, _NODE = 7, 1  # of a model, of a graph
_LARGE = 4096  # bytes of a node that may hold many fields; of smaller ones there cannot be enough


def has_more_fields(data: bytes, most: int) -> bool:
    """Whether model, graph and large nodes together have more than ``most`` fields; of a damaged file, up to there.

    It takes time for at most ``most`` of them.
    """
    view = memoryview(data)
    # what is left to count: where a message begins and ends, and the fields that lead from it to nodes
    left: list[tuple[int, int, tuple[int, ...]]] = [(0, len(data), (_GRAPH, _NODE))]
    count = 0
    try:
        while left:
            at, end, path = left.pop()
            while at < end:
                count += 1
                if count > most:
                    return True
                key, at = _varint(view, at)
                begin, at = _value(view, at, key & 7)
                if path and key == path[0] << 3 | _BYTES and (len(path) > 1 or at - begin > _LARGE):
                    left.append((begin, min(at, end), path[1:]))
    except (IndexError, ValueError):
        return False  # protobuf will say so
    return False


def _value(view: memoryview, at: int, kind: int) -> tuple[int, int]:
    """Where the value begins and ends."""
    if kind == _BYTES:
        length, at = _varint(view, at)
        return at, at + length
    if kind == _VARINT:
        return at, _varint(view, at)[1]
    if kind in (_FIXED32, _FIXED64):
        return at, at + (4 if kind == _FIXED32 else 8)
    raise ValueError(kind)


def _varint(view: memoryview, at: int) -> tuple[int, int]:
    value = view[at]
    at += 1
    if value < 128:
        return value, at
    value &= 127
    for shift in range(7, 70, 7):
        byte = view[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise ValueError(value)
