"""What a process has in memory is as it was, and its collector passes over it."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import gc, os, random
from worker.process.children import share_with_children, use_large_pages
content = random.Random(0).randbytes(8 << 20)
pieces = [content[at:at + 1000] for at in range(0, len(content), 1000)]
share_with_children()
use_large_pages()
use_large_pages()
assert b"".join(pieces) == content
assert gc.get_freeze_count() > 1000
pid = os.fork()
if pid == 0:
    pieces[0] = b"changed"
    os._exit(b"".join(pieces[1:]) != content[1000:])
assert os.waitpid(pid, 0)[1] == 0
assert b"".join(pieces) == content
"""


@pytest.mark.skipif(sys.platform != "linux", reason="large pages are Linux's")
def test_memory_is_as_it_was() -> None:
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=Path(__file__).parents[4], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
