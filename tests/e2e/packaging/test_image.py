"""The image, built for real where buildah is, and run by its user, from a root that nobody can write to."""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.single import Conv, conv_model
from tests.conftest import running
from tests.helpers import processes

ROOT = Path(__file__).parents[3]
USER = "10001:10001"
# an image of a registry to build on; else a Debian is made, as Debian's own tool does it
BASE = os.environ.get("TEST_BASE_IMAGE")
# how this machine reaches the package index, where that is not the usual way
HOST_FILES = [Path("/etc/ssl/certs"), Path("/etc/pip.conf")]

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]


class Buildah:
    """Images and containers in a directory of the test."""

    def __init__(self, storage: Path) -> None:
        self._storage = ["--root", storage / "root", "--runroot", storage / "run", "--storage-driver", "vfs"]

    def __call__(self, command: str, *arguments: str | Path) -> str:
        environment = os.environ | {"BUILDAH_ISOLATION": "chroot"}
        line = ["buildah", *self._storage, command, *arguments]
        done: subprocess.CompletedProcess[str] = subprocess.run(
            line, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout.strip()


@pytest.fixture(scope="module")
def buildah(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Buildah]:
    if shutil.which("buildah") is None:
        pytest.skip("no buildah")
    if os.geteuid() != 0:
        pytest.skip("buildah in a directory of the test needs root")
    storage = tmp_path_factory.mktemp("images")
    yield Buildah(storage)
    shutil.rmtree(storage)


@pytest.fixture(scope="module")
def base(buildah: Buildah, tmp_path_factory: pytest.TempPathFactory) -> str:
    if BASE is not None:
        return BASE
    if shutil.which("debootstrap") is None:
        pytest.skip("no debootstrap to make a base, and TEST_BASE_IMAGE names none")
    system = tmp_path_factory.mktemp("base") / "system"
    line: list[str | Path] = [
        "debootstrap",
        "--variant=minbase",
        "--include=python3-venv,ca-certificates",
        "bookworm",
        system,
    ]
    made = subprocess.run(line, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout[-3000:]
    container = buildah("from", "scratch")
    buildah("add", "--quiet", container, system, "/")
    buildah("commit", "--quiet", "--rm", container, "base")
    shutil.rmtree(system)
    return "localhost/base"


@pytest.fixture(scope="module")
def container(buildah: Buildah, base: str) -> str:
    """A container of the image."""
    volumes = [option for path in HOST_FILES if path.exists() for option in ("--volume", f"{path}:{path}:ro")]
    options = ["--build-arg", f"BASE={base}", "--format", "docker", "--pull=missing", "--tag", "cyclops", *volumes]
    buildah("build", *options, ".")
    return buildah("from", "--pull=never", "localhost/cyclops")


def run(buildah: Buildah, container: str, *command: str) -> str:
    return buildah("run", "--user", USER, container, "--", *command)


def test_the_image_says_who_runs_it_and_what(buildah: Buildah, container: str) -> None:
    form = "{{.OCIv1.Config.User}} {{.OCIv1.Config.Entrypoint}} {{.Docker.Config.Healthcheck.Test}}"
    assert buildah("inspect", "--format", form, container) == f"{USER} [cyclops] [CMD cyclops health]"


def test_its_user_may_write_its_data_and_nothing_else(buildah: Buildah, container: str) -> None:
    # it fails where it may not look either
    look = "find / -xdev -writable -type d -not -path '/proc/*' 2> /dev/null || true"
    found = run(buildah, container, "sh", "-c", look)
    kept = {path for path in found.splitlines() if not path.startswith(("/dev", "/tmp", "/var/tmp", "/run/lock"))}
    assert kept == {"/data"}


def test_a_model_is_compiled_and_verified_in_it(buildah: Buildah, container: str) -> None:
    save = "import onnx, examples.single as s; onnx.save(s.conv_model(s.Conv(16, 16, 8, 8)), '/data/m.onnx')"
    run(buildah, container, "python", "-c", save)
    report = run(buildah, container, "cyclops", "run", "/data/m.onnx", "--accelerator", "vta", "--json")
    assert '"verified": true' in report


def test_every_part_of_the_service_starts(buildah: Buildah, container: str) -> None:
    assert '"openapi"' in run(buildah, container, "cyclops", "openapi")
    run(
        buildah,
        container,
        "python",
        "-c",
        "import worker.runner.worker_main, worker.inspection.compiler_tasks, worker.inspection.upload_tasks; "
        "import service.app",
    )


# as `docker run --read-only --tmpfs /tmp` has it: buildah itself has no such option
_READ_ONLY = """
mount --make-rprivate /
mount --bind "$1" "$1"
mount -o remount,bind,ro "$1"
mount -t proc proc "$1/proc"
mount --rbind /dev "$1/dev"
mount -t tmpfs tmpfs "$1/tmp"
mount -t tmpfs -o uid=10001,gid=10001,mode=0700 tmpfs "$1/data"
shift
exec "$@"
"""


def test_it_serves_from_a_read_only_root(buildah: Buildah, container: str) -> None:
    root = buildah("mount", container)
    environment = buildah("inspect", "--format", "{{range .OCIv1.Config.Env}}{{println .}}{{end}}", container).split()
    inside = ["chroot", f"--userspec={USER}", root, "env", "-i", *environment]
    begin = ["unshare", "--mount", "--pid", "--fork", "sh", "-ec", _READ_ONLY, "sh", root, *inside]
    tried = subprocess.run(
        [*begin, "sh", "-c", "touch /opt/x /x /etc/x; touch /data/x /tmp/x && id -u"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert tried.stdout == "10001\n", tried.stderr
    assert tried.stderr.count("Read-only file system") == 3
    serve = [*begin, "CYCLOPS_LOG_FORMAT=text", "cyclops", "serve", "--port", "0"]
    with running(serve, Path(root) / "data", os.environ) as service:
        job = service.wait(service.submit(conv_model(Conv(16, 16, 8, 8)).SerializeToString()), 120)
        assert job["result"]["verified"] is True
        page = service.client.get("/", headers={"Accept": "text/html"}).raise_for_status().text
        for link in re.findall('"(/static/[^"]+)"', page):
            service.client.get(link).raise_for_status()
        confinement = service.client.get("/v1/about").json()["confinement"]
        assert confinement["privileges"]["active"] is True
        (first,) = processes.children(service.process.pid)
        os.kill(first, signal.SIGTERM)  # unshare itself only waits for it
