"""Seeds the defects of ``mutants.toml`` one at a time, and runs the tests nearest to each: one that lives is a hole.

As a script, ``python -m tests.mutants [NAME...]``. Each defect is one or two whole lines of the product and what stands
in their place, found by their text, so that it goes with them to another file. A copy of the tree is changed, never the
tree itself. A defect is killed by a test that fails with it and passes without it; a defect that stops tests from being
collected shows nothing, and counts as alive.
"""

import argparse
import contextlib
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = ("accel", "worker", "service")
_NOT_COPIED = (".git", ".venv", ".hypothesis", ".import_linter_cache", "*_cache", "__pycache__", "node_modules", "out")
_CI = "not long and not all"  # what `.ci/run` runs
_NEAREST_SECONDS = 300.0  # a hang is no proof that something is noticed
_ALL_SECONDS = 3600.0
_SOME_FAILED = 1  # pytest's exit status


@dataclass(frozen=True)
class Mutant:
    """A defect.

    Attributes:
        name: in the table and on the command line.
        breaks: what no longer holds.
        text: whole lines, without the indentation that they share; they are in the product once.
        replacement: the lines in their place; none: they are dropped.
        tests: names of the nearest test files, in the order in which they run; with a folder where names are not
            unique.
        only: an expression for pytest's ``-k``; empty: all of them.
    """

    name: str
    breaks: str
    text: str
    replacement: str
    tests: tuple[str, ...]
    only: str = ""


@dataclass(frozen=True)
class Site:
    """Where a mutant's lines are: ``at`` is the first one's index."""

    path: Path
    at: int


@dataclass(frozen=True)
class Verdict:
    """What came of a mutant; ``killer`` is the test that failed, ``alive`` says why it counts as alive."""

    mutant: Mutant
    site: Site
    seconds: float
    killer: str = ""
    alive: str = ""


@dataclass(frozen=True)
class Ran:
    """What came of a run of pytest; ``failed`` are the ids of the tests."""

    failed: tuple[str, ...] = ()
    trouble: str = ""


def load() -> list[Mutant]:
    """Returns the mutants in the order of the file."""
    entries = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())["mutant"]
    return [Mutant(**entry | {"tests": tuple(entry["tests"])}) for entry in entries]


def sources(root: Path) -> dict[Path, list[str]]:
    """Returns the lines of all modules of the product, by their paths below ``root``."""
    found = sorted(path for package in PACKAGES for path in (root / package).rglob("*.py"))
    return {path.relative_to(root): path.read_text().splitlines(keepends=True) for path in found}


def sites(mutant: Mutant, modules: dict[Path, list[str]]) -> list[Site]:
    """Returns where the mutant's lines are; there should be one such place."""
    wanted = [line.strip() for line in mutant.text.strip().splitlines()]
    return [
        Site(path, at)
        for path, lines in modules.items()
        for at, line in enumerate(lines)
        if line.strip() == wanted[0] and [each.strip() for each in lines[at : at + len(wanted)]] == wanted
    ]


def mutated(mutant: Mutant, lines: Sequence[str], at: int) -> str:
    """Returns the module with the mutant's replacement, indented as what it replaces."""
    indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
    replacement = textwrap.indent(textwrap.dedent(mutant.replacement).strip("\n"), indent)
    end = at + len(mutant.text.strip().splitlines())
    return "".join([*lines[:at], replacement + "\n" if replacement else "", *lines[end:]])


class Tree:
    """A copy of the tree, with caches of machine code of its own."""

    def __init__(self, home: Path) -> None:
        self.root = home / "tree"
        self._home = home
        shutil.copytree(ROOT, self.root, ignore=shutil.ignore_patterns(*_NOT_COPIED), symlinks=True)
        if (ROOT / ".venv").exists():
            (self.root / ".venv").symlink_to(ROOT / ".venv")
        self._check_imports()

    def _check_imports(self) -> None:
        """The packages of an editable installation must not get in the way."""
        show = f"import {', '.join(PACKAGES)}; print(*(m.__file__ for m in ({', '.join(PACKAGES)})), sep='\\n')"
        told = subprocess.run(
            [sys.executable, "-c", show], cwd=self.root, env=self._environment("caches"), check=True,
            capture_output=True, text=True,
        )  # fmt: skip
        for line in told.stdout.splitlines():
            if not Path(line).is_relative_to(self.root):
                raise RuntimeError(f"{line} would be tested, which is not in {self.root}")

    def _environment(self, caches: str) -> dict[str, str]:
        return os.environ | {
            "PYTHONPATH": str(self.root),
            "XDG_CACHE_HOME": str(self._home / caches),
        }

    def files(self, names: Sequence[str]) -> list[str]:
        """Returns the paths of test files by their names.

        Raises:
            FileNotFoundError: no file has the name.
        """
        found: list[str] = []
        for name in names:
            paths = sorted(str(path.relative_to(self.root)) for path in self.root.glob(f"tests/**/{name}"))
            if not paths:
                raise FileNotFoundError(f"no test file is called {name}")
            found += paths
        return found

    @contextlib.contextmanager
    def changed(self, path: Path, text: str) -> Iterator[None]:
        """One module is ``text`` inside the context, and afterwards as it was.

        The time of its last change tells whoever keeps compiled code which of the two it is.
        """
        file = self.root / path
        before, status = file.read_bytes(), file.stat()
        file.write_text(text)
        try:
            yield
        finally:
            file.write_bytes(before)
            os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))

    def run(self, arguments: Sequence[str], seconds: float, caches: str = "caches") -> Ran:
        """Run pytest, for so long at most."""
        command = [
            sys.executable, "-m", "pytest", "-q", "--tb=no", "-rfE", "-p", "no:cacheprovider",
            *arguments,
        ]  # fmt: skip
        with subprocess.Popen(
            command, cwd=self.root, env=self._environment(caches), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, start_new_session=True,
        ) as process:  # fmt: skip
            try:
                said, _ = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.communicate(timeout=30)
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                return Ran(trouble=f"not done in {seconds:g} s")
        starts = ("FAILED ", "ERROR ")
        told = [line for line in said.splitlines() if line.startswith(starts)]
        failed = tuple(line.partition(" ")[2].partition(" - ")[0] for line in told)
        if process.returncode not in (0, _SOME_FAILED):
            last = next(iter(said.strip().splitlines()[-1:]), "")
            return Ran(failed, f"pytest ended with {process.returncode}: {last}")
        return Ran(failed)


def judge(mutant: Mutant, site: Site, text: str, tree: Tree, *, every: bool) -> Verdict:
    """Run the nearest tests with the defect, and, if they let it live, ``every`` fast test."""
    begun = time.monotonic()
    # whatever keeps machine code: none that was made without the defect is found with it
    caches = mutant.name if site.path.parts[0] == "accel" and _has_kernels(tree.root / site.path) else "caches"
    with tree.changed(site.path, text):
        try:
            nearest = tree.files(mutant.tests)
        except FileNotFoundError as error:
            ran = Ran(trouble=str(error))
        else:
            only = ["-k", mutant.only] if mutant.only else []
            ran = tree.run(["-x", "-m", _CI, *only, *nearest], _NEAREST_SECONDS, caches)
        if every and (ran.trouble or not ran.failed):
            ran = tree.run(["-x", "-m", _CI, "tests"], _ALL_SECONDS, caches)
    seconds = time.monotonic() - begun
    if ran.trouble or not ran.failed:
        return Verdict(mutant, site, seconds, alive=ran.trouble or "survived")
    return Verdict(mutant, site, seconds, ran.failed[0])


def _has_kernels(path: Path) -> bool:
    return any("@compiled" in other.read_text() for other in path.parent.glob("*.py"))


def main() -> int:
    """Returns 0 if tests killed every mutant, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="mutants; all if none is named")
    parser.add_argument("--all", action="store_true", help="run all fast tests where the nearest let one live")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at one time (2)")
    given = parser.parse_args()
    mutants = load()
    if unknown := set(given.names) - {mutant.name for mutant in mutants}:
        parser.error(f"no mutant is called {', '.join(sorted(unknown))}")
    chosen = [mutant for mutant in mutants if not given.names or mutant.name in given.names]
    begun, modules = time.monotonic(), sources(ROOT)
    found = {mutant.name: sites(mutant, modules) for mutant in chosen}
    lost = [
        f"{name}: its text is in the product {len(places)} times" for name, places in found.items() if len(places) != 1
    ]
    with tempfile.TemporaryDirectory(prefix="mutants-") as home:
        trees: queue.SimpleQueue[Tree] = queue.SimpleQueue()
        for number in range(given.jobs):
            trees.put(Tree(Path(home) / str(number)))

        def judged(mutant: Mutant) -> Verdict:
            [site] = found[mutant.name]
            tree = trees.get()
            try:
                verdict = judge(mutant, site, mutated(mutant, modules[site.path], site.at), tree, every=given.all)
            finally:
                trees.put(tree)
            _tell(verdict)
            return verdict

        with ThreadPoolExecutor(given.jobs) as threads:
            verdicts = list(threads.map(judged, (mutant for mutant in chosen if len(found[mutant.name]) == 1)))
        killers = sorted({verdict.killer for verdict in verdicts if verdict.killer})
        anyway = trees.get().run(killers, _ALL_SECONDS) if killers else Ran()
    wrong = [f"{verdict.mutant.name}: {verdict.alive}" for verdict in verdicts if verdict.alive]
    wrong += [f"{verdict.mutant.name}: {verdict.killer} fails without it too" for verdict in verdicts
              if verdict.killer in anyway.failed]  # fmt: skip
    wrong += [f"the tests that killed: {anyway.trouble}"] if anyway.trouble else []
    for line in (*lost, *wrong):
        sys.stdout.write(f"{line}\n")
    sys.stdout.write(f"{len(chosen)} mutants, {len(lost) + len(wrong)} troubles, {time.monotonic() - begun:.0f} s\n")
    return 1 if lost or wrong else 0


def _tell(verdict: Verdict) -> None:
    """Print a line of the table: the mutant, its package, what killed it, seconds."""
    package = ".".join(verdict.site.path.parts[:-1])
    outcome = f"killed by {verdict.killer}" if verdict.killer else verdict.alive.upper()
    sys.stdout.write(f"{verdict.mutant.name:<24} {package:<26} {verdict.seconds:5.0f} s  {outcome}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
