"""Families by entry point: those that are there, and packages that bring a broken one."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from accel.catalog.load_accelerator import load_accelerator, parse_accelerator
from accel.errors import InvalidAccelerator
from accel.isa import family_registry
from accel.isa.family_registry import family, family_names, family_of
from tests.helpers.programs.golden import board

VTA = board()


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str, str], None]]:
    """Put a package with one entry point and one module on the path, as an installer would."""

    def add(name: str, value: str, source: str) -> None:
        package = tmp_path / f"of_{name}"
        info = package / f"of_{name}-1.5.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: of-{name}\nVersion: 1.5\n")
        (info / "entry_points.txt").write_text(f"[{family_registry.GROUP}]\n{name} = {value}\n")
        (package / f"plugin_{name}.py").write_text(source)
        monkeypatch.syspath_prepend(package)
        forget()

    yield add
    monkeypatch.undo()
    forget()


def forget() -> None:
    family_registry._installed.cache_clear()
    family.cache_clear()


def refusal(name: str) -> str:
    with pytest.raises(InvalidAccelerator) as caught:
        family_of(VTA.model_copy(update={"family": name}))
    assert caught.value.field == "accelerator.family"
    return caught.value.detail


def test_a_document_finds_its_family() -> None:
    assert "vta" in family_names()
    assert family_of(VTA) is family("vta")
    assert (family("vta").name, family("vta").token_queues(VTA)[0]) == ("vta", "load_to_compute")


def test_an_unknown_family_is_told_the_installed_ones() -> None:
    assert f"called vtb; installed are {', '.join(family_names())}" in refusal("vtb")
    with pytest.raises(InvalidAccelerator) as caught:
        parse_accelerator(VTA.model_dump(mode="json") | {"family": "vtb"})
    assert caught.value.field == "accelerator.family"


WORKS = """
class Mine:
    name = "mine"
    def __getattr__(self, name):
        return lambda *arguments: name

FAMILY = Mine()
"""


def test_a_package_brings_one(install: Callable[[str, str, str], None]) -> None:
    install("mine", "plugin_mine:FAMILY", WORKS)
    assert "mine" in family_names()
    assert family("mine").time(None, None) == "time"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("raise RuntimeError('no licence')", "which of-broken 1.5 brings, does not load: RuntimeError: no licence"),
        ("import nothing_of_the_sort", "does not load: ModuleNotFoundError"),
        ("", "does not load: AttributeError"),
        ("class FAMILY:\n    name = 'broken'", r"is no family called broken: it has no .*, time, "),
        (WORKS, "it is a class or has another name"),
    ],
)
def test_one_that_is_broken_leaves_the_others(
    install: Callable[[str, str, str], None], source: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "plugin_broken", raising=False)
    install("broken", "plugin_broken:FAMILY", source)
    with pytest.raises(InvalidAccelerator, match=reason):
        family("broken")
    assert family_of(VTA).name == "vta"
    assert load_accelerator("vta").family == "vta"
    assert "broken" in refusal("unheard_of")


def test_two_of_one_name_are_refused(install: Callable[[str, str, str], None]) -> None:
    install("vta", "plugin_vta:FAMILY", WORKS)
    assert "both bring a family called vta" in refusal("vta")


def test_a_family_has_all_that_the_protocol_asks_for() -> None:
    wanted = family_registry.required_attributes()
    assert {"name", "parameters", "check", "tiling_cost", "machine", "takes_windows", "time", "prepare"} <= set(wanted)
    assert all(hasattr(family("vta"), name) for name in wanted)


@pytest.mark.parametrize("part", ["parameters", "tiling_cost", "takes_windows", "machine", "time", "prepare"])
def test_one_that_lacks_a_part_is_told_which(install: Callable[[str, str, str], None], part: str) -> None:
    """Whichever of the protocols asks for it."""
    others = {name: None for name in family_registry.required_attributes() if name not in (part, "name")}
    install(part, f"plugin_{part}:FAMILY", f"class Some:\n    name = {part!r}\nvars(FAMILY := Some()).update({others})")
    assert refusal(part).endswith(f"is no family called {part}: it has no {part}")
