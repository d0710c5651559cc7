"""The defects of ``mutants.toml`` can be seeded: their lines are there, once, and tests of those names too."""

import ast

import pytest

from tests.mutants import ROOT, Mutant, load, mutated, sites, sources

MUTANTS = load()


@pytest.fixture(scope="module")
def modules() -> dict:
    return sources(ROOT)


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_it_is_in_one_place_and_has_tests(mutant: Mutant, modules: dict) -> None:
    (site,) = sites(mutant, modules)
    made = mutated(mutant, modules[site.path], site.at)
    assert ast.dump(ast.parse(made)) != ast.dump(ast.parse("".join(modules[site.path])))
    assert all(list(ROOT.glob(f"tests/**/{name}")) for name in mutant.tests)


@pytest.mark.slow
def test_each_is_in_a_module_of_its_own(modules: dict) -> None:
    paths = [site.path for mutant in MUTANTS for site in sites(mutant, modules)]
    assert len(set(paths)) == len(paths) >= 30
