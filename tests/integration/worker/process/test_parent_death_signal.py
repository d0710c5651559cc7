import subprocess
import sys

import pytest

from worker.process import parent_death

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux ties a process to its parent")


def test_a_command_whose_parent_has_ended_is_not_run() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    command = [sys.executable, parent_death.__file__, str(ended.pid), sys.executable, "-c", "print('ran')"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
