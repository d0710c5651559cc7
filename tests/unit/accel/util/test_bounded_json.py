import pytest

from accel.util.strict_json import parse_json

BAD = {
    b"": "it is not JSON",
    b"[1,": "it is not JSON: .* at line 1, column 4",
    b"\xff": "it is not UTF-8: .* at byte 0",
    b"[" * 900: "it has about 900 values; the limit is 800",
    b'"' + b"x" * 9000 + b'"': "it has 9002 bytes; the limit is 8000",
    b'{"a": 1, "b": 2, "a": 3}': "the key 'a' comes twice",
    b"NaN": "NaN is no number",
    b"[-Infinity]": "-Infinity is no number",
    b'"\\udc00"': "half of a surrogate pair",
    b'{"\\ud800": 1}': "half of a surrogate pair",
    b"1" * 5000: "integer string conversion",
}


@pytest.mark.parametrize("text", BAD)
def test_what_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=BAD[text]):
        parse_json(text, most_bytes=8000, most_values=800)


def test_what_is_nested_deeply() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_json(b"[" * 10**6, most_bytes=10**7, most_values=10**7)


def test_what_is_read() -> None:
    text = '{"a": [1, -2.5e3, true, null], "ä": "\\ud83d\\ude00"}'.encode()
    assert parse_json(text, most_bytes=100, most_values=10) == {"a": [1, -2500.0, True, None], "ä": "😀"}
