"""The reader of transcripts reads them as its text says."""

import pytest

from tests.helpers.transcript import Command, File, matches, steps

DOCUMENT = """Write `a.yaml`:

```yaml
x: 1
```

As it is:

```yaml
no: file
```

```
$ cat a.yaml
x: 1
$ true
```

```
no command
```
"""


def test_files_and_commands_are_found_in_order() -> None:
    assert list(steps(DOCUMENT)) == [File("a.yaml", "x: 1\n"), Command("cat a.yaml", ("x: 1",)), Command("true", ())]


@pytest.mark.parametrize(
    ("wanted", "found", "same"),
    [
        (("a", "b"), ["a", "b"], True),
        (("a",), ["a", "b"], False),
        (("a", "..."), ["a", "b", "c"], True),
        (("...", "c"), ["a", "b", "c"], True),
        (("a", "...", "b"), ["a", "b"], True),
        (("x ... z",), ["x y z"], True),
        (("x ... z",), ["x y"], False),
        (("1.5",), ["125"], False),
        ((), ["a"], False),
    ],
)
def test_output_is_compared(wanted: tuple[str, ...], found: list[str], same: bool) -> None:
    assert matches(wanted, found) is same
