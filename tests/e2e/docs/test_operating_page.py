"""What the page for operators says of metrics, against a service that runs."""

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "operating.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def families(service: Any) -> dict[str, Metric]:
    deadline = time.monotonic() + 10
    while "cyclops_open_jobs" not in (text := service.client.get("/metrics").text):
        assert time.monotonic() < deadline  # one looks every two seconds
        time.sleep(0.1)
    return {family.name: family for family in text_string_to_metric_families(text)}


def shown(family: Metric) -> str:
    return f"{family.name}_total" if family.type == "counter" else family.name


def test_the_table_has_every_metric_and_no_other(families: dict[str, Metric]) -> None:
    rows = re.findall(r"^\| `(cyclops_\w+)` \| (\w+) \|", PAGE, re.MULTILINE)
    ours = {(shown(family), family.type) for name, family in families.items() if name.startswith("cyclops_")}
    assert sorted(rows) == sorted(ours)


def test_the_labels(families: dict[str, Metric]) -> None:
    for name, told in re.findall(r"^\| `(cyclops_\w+)` \| \w+ \| ([^|]*)\|", PAGE, re.MULTILINE):
        samples = families[name.removesuffix("_total")].samples
        found = {label for sample in samples for label in sample.labels} - {"le"}
        if samples:
            assert found == set(re.findall(r"`(\w+)`", told)), name


def test_those_of_the_process_are_named(families: dict[str, Metric]) -> None:
    own = {shown(family) for name, family in families.items() if name.startswith("process_")}
    assert own == set(re.findall(r"`(process_\w+\w)`", PAGE))


def test_the_rules_ask_for_what_there_is(families: dict[str, Metric]) -> None:
    (text,) = re.findall(r"```yaml\n(groups:.*?)```", PAGE, re.DOTALL)
    rules = yaml.safe_load(text)["groups"][0]["rules"]
    assert len(rules) > 5
    for rule in rules:
        check_expression(rule["expr"], families)


def test_the_dashboard_asks_for_what_there_is(families: dict[str, Metric]) -> None:
    panels = json.loads((DOCS / "dashboard.json").read_text(encoding="utf-8"))["panels"]
    assert len(panels) > 10
    for panel in panels:
        for target in panel["targets"]:
            check_expression(target["expr"], families)


def check_expression(expression: str, families: dict[str, Metric]) -> None:
    names = {shown(family) for family in families.values()}
    parts = {f"{family.name}_{part}" for family in families.values() for part in ("bucket", "sum", "count")}
    asked = set(re.findall(r"\b(?:cyclops|process)_\w+", expression))
    assert asked, expression
    assert asked <= names | parts, expression
    assert expression.count("(") == expression.count(")")
