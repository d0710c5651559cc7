"""Two reports compared: documents, origins, cycles by layer, and where the cycles of each went."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pydantic

from accel.errors import InvalidReport
from accel.report.documents.comparison_documents import (
    CauseDifference,
    ComparedLayer,
    ComparedRun,
    Comparison,
    LayerDifference,
)
from accel.report.documents.end_to_end_documents import EndToEndTime
from accel.report.documents.report_documents import (
    CycleAccount,
    FieldDifference,
    Report,
    ReportedLayer,
    SimulationReport,
)
from accel.util.strict_json import parse_json

AnyReport = Report | SimulationReport
MOST_BYTES = 32 << 20  # of a report or a document that is read; one of ResNet-50 has 150 kB
_MOST_VALUES = 1_000_000
_ABSENT = object()


def read_report(data: bytes, field: str) -> AnyReport:
    """Returns the report that a job left, of a model or of a program, of this version or an earlier one.

    Raises:
        InvalidReport: it is none; ``field`` says which.
    """
    document = _parsed(data, field, "report")
    kind = Report if isinstance(document, dict) and "layers" in document else SimulationReport
    try:
        return kind.model_validate(document)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        at = ".".join(str(part) for part in first["loc"])
        raise InvalidReport(
            f"it is no report of this version of Cyclops: {at}: {first['msg']}; run it again", field=field
        ) from error


def read_document(data: bytes, field: str) -> Any:
    """Returns the accelerator's document that a job left.

    Raises:
        InvalidReport: it is no JSON.
    """
    return _parsed(data, field, "document")


def _parsed(data: bytes, field: str, what: str) -> Any:
    try:
        return parse_json(data, most_bytes=MOST_BYTES, most_values=_MOST_VALUES)
    except ValueError as error:
        raise InvalidReport(f"the {what} cannot be read: {error}", field=field) from error


@dataclass(frozen=True)
class Run:
    """A report, and the accelerator's document of its run; None where it was not kept."""

    report: AnyReport
    document: Any | None


def compare_runs(before: Run, after: Run) -> Comparison:
    """Returns how the run ``after`` differs from the run ``before``."""
    a, b, documents = before.report, after.report, (before.document, after.document)
    layers = [_layer_difference(*group) for group in _matched(_layers(a), _layers(b))]
    kept = before.document is not None and after.document is not None
    which = " and ".join(name for name, document in zip("ab", documents, strict=True) if document is None)
    return Comparison(
        a=_run(a),
        b=_run(b),
        difference=None if a.cycles is None or b.cycles is None else b.cycles - a.cycles,
        document=list(differences(*documents)) if kept else None,
        document_left_out=None if kept else f"there is no accelerator.json of {which}, as earlier versions kept none",
        provenance=list(differences(_origin(a), _origin(b))),
        causes=_causes(
            [a.account] if a.account else [], [b.account] if b.account else [], known=bool(a.account and b.account)
        ),
        layers=sorted(layers, key=lambda layer: -abs(layer.difference)),
        host_only_a=_on_host_alone(a, b),
        host_only_b=_on_host_alone(b, a),
    )


def _run(report: AnyReport) -> ComparedRun:
    source, layers, found = report.provenance.accelerator, _layers(report), report.end_to_end
    return ComparedRun(
        accelerator=report.accelerator,
        title=source.title,
        label=source.label,
        document=source.id,
        verified=report.verified,
        warnings=report.warnings,
        cycles=report.cycles,
        seconds=report.seconds,
        end_to_end=None if found is None else EndToEndTime(**found.model_dump(include=set(EndToEndTime.model_fields))),
        energy_pj=report.energy_pj,
        energy=report.energy,
        bytes_read=sum(layer.bytes_read for layer in layers),
        bytes_written=sum(layer.bytes_written for layer in layers),
        instructions=report.program.instructions,
        timing_model=report.timing_model,
    )


def _layers(report: AnyReport) -> list[ReportedLayer]:
    return report.layers if isinstance(report, Report) else report.launches


def _origin(report: AnyReport) -> dict[str, Any]:
    return report.provenance.model_dump(mode="json", exclude={"accelerator"})


def _on_host_alone(one: AnyReport, other: AnyReport) -> list[str]:
    if not (isinstance(one, Report) and isinstance(other, Report)):
        return []
    there = {op.node for op in other.host_ops}
    return list(dict.fromkeys(op.node for op in one.host_ops if op.node not in there))


def differences(before: Any, after: Any, field: str = "") -> Iterator[FieldDifference]:
    """Yields where two JSON values differ; items of a list that have names are matched by name."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in dict.fromkeys([*before, *after]):
            place = f"{field}/{key.replace('~', '~0').replace('/', '~1')}"
            yield from differences(before.get(key, _ABSENT), after.get(key, _ABSENT), place)
    elif isinstance(before, list) and isinstance(after, list):
        for index, one, other in _aligned(before, after):
            yield from differences(one, other, f"{field}/{index}")
    elif before is _ABSENT or after is _ABSENT or type(before) is not type(after) or before != after:
        yield FieldDifference(field=field, before=_value(before), after=_value(after))


def _value(value: Any) -> Any:
    return None if value is _ABSENT else value


def _aligned(before: Sequence[Any], after: Sequence[Any]) -> Iterator[tuple[int, Any, Any]]:
    """The items of both lists with their place in the first, or of one that is only in the second, there."""
    names, others = _item_names(before), _item_names(after)
    if names is None or others is None:
        for place in range(max(len(before), len(after))):
            one = before[place] if place < len(before) else _ABSENT
            yield place, one, after[place] if place < len(after) else _ABSENT
        return
    for name, place in names.items():
        yield place, before[place], after[others[name]] if name in others else _ABSENT
    for name, place in others.items():
        if name not in names:
            yield place, _ABSENT, after[place]


def _item_names(items: Sequence[Any]) -> dict[Any, int] | None:
    """The places of items by name; None if they have none, or not each its own."""
    if not items or not all(isinstance(item, Mapping) and isinstance(item.get("name"), str) for item in items):
        return None
    names = {item["name"]: place for place, item in enumerate(items)}
    return names if len(names) == len(items) else None


def _matched(
    a: Sequence[ReportedLayer], b: Sequence[ReportedLayer]
) -> Iterator[tuple[list[ReportedLayer], list[ReportedLayer]]]:
    """Groups of launches that share nodes, directly or through others; those without nodes go by their name."""
    group_of: dict[str, int] = {}
    members: dict[int, list[tuple[int, ReportedLayer]]] = {}
    for number, (side, layer) in enumerate([*((0, layer) for layer in a), *((1, layer) for layer in b)]):
        keys = [f"node:{node}" for node in layer.nodes] or [f"name:{layer.name}"]
        joined = list(dict.fromkeys(group_of[key] for key in keys if key in group_of))
        home = joined[0] if joined else number
        members.setdefault(home, []).append((side, layer))
        for other in joined[1:]:
            members[home] += members.pop(other)
            group_of = {key: home if group == other else group for key, group in group_of.items()}
        group_of.update(dict.fromkeys(keys, home))
    for found in members.values():
        yield [layer for side, layer in found if side == 0], [layer for side, layer in found if side == 1]


def _layer_difference(a: list[ReportedLayer], b: list[ReportedLayer]) -> LayerDifference:
    known = all(layer.account is not None for layer in (*a, *b))
    accounts = [[layer.account for layer in side if layer.account is not None] for side in (a, b)]
    causes = _causes(*accounts, known=known)
    difference = sum(layer.cycles for layer in b) - sum(layer.cycles for layer in a)
    main = next((cause for cause in causes or () if cause.difference * difference > 0), None)
    return LayerDifference(
        name=(a or b)[0].name,
        nodes=list(dict.fromkeys(node for layer in (*a, *b) for node in layer.nodes)),
        a=_side(a),
        b=_side(b),
        difference=difference,
        causes=causes,
        main_cause=main,
    )


def _side(layers: list[ReportedLayer]) -> ComparedLayer | None:
    if not layers:
        return None
    return ComparedLayer(
        names=[layer.name for layer in layers],
        cycles=sum(layer.cycles for layer in layers),
        macs=sum(layer.macs for layer in layers),
        lower_bound=sum(layer.lower_bound for layer in layers),
        bytes_read=sum(layer.bytes_read for layer in layers),
        bytes_written=sum(layer.bytes_written for layer in layers),
        instructions=sum(layer.instructions for layer in layers),
    )


def _causes(a: Sequence[CycleAccount], b: Sequence[CycleAccount], *, known: bool) -> list[CauseDifference] | None:
    """The cycles by category and cause, those that differ most first; None where they are not ``known``."""
    if not known:
        return None
    found: dict[tuple[Any, str], list[int]] = {}
    for side, accounts in enumerate((a, b)):
        for account in accounts:
            for category, causes in account.total.items():
                for cause, cycles in causes.items():
                    found.setdefault((category, cause), [0, 0])[side] += cycles
    rows = [
        CauseDifference(category=category, cause=cause, a=one, b=other, difference=other - one)
        for (category, cause), (one, other) in found.items()
    ]
    return sorted(rows, key=lambda row: -abs(row.difference))
