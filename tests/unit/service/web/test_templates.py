"""Templates as a whole: what fails only where a branch is taken that few pages take."""

from pathlib import Path

import pytest
from jinja2 import meta, nodes

from service.web.templating.environment import make_environment

FOLDER = Path(__file__).parents[4] / "service" / "web" / "templates"
ENVIRONMENT = make_environment()
TEMPLATES = {path.name: ENVIRONMENT.parse(path.read_text(encoding="utf-8")) for path in FOLDER.glob("*.html")}


def imported() -> set[str]:
    """The templates of which others take macros, which see nothing of the page that calls them."""
    return {
        each.template.value
        for template in TEMPLATES.values()
        for each in template.find_all(nodes.FromImport)
        if isinstance(each.template, nodes.Const)
    }


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_no_parameter_of_a_macro_has_a_default_with_its_own_name(name: str) -> None:
    """Catches a default that is read as the parameter, which is undefined: a page fails where it is left out."""
    for macro in TEMPLATES[name].find_all(nodes.Macro):
        parameters = {argument.name for argument in macro.args}
        for default in macro.defaults:
            used = {default.name} if isinstance(default, nodes.Name) else set()
            used |= {each.name for each in default.find_all(nodes.Name)}
            assert not used & parameters, (macro.name, used & parameters)


def test_macros_of_other_templates_use_their_parameters_alone() -> None:
    """Catches a macro that asks for a value of the page, which it gets in no page."""
    assert "parts.html" in imported()
    for name in imported():
        assert meta.find_undeclared_variables(TEMPLATES[name]) <= set(ENVIRONMENT.globals), name
