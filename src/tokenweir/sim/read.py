"""From YAML to checked scenarios, one a run, or to every problem at once."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tokenweir.sim.expression import check
from tokenweir.sim.scenario import Scenario
from tokenweir.spec.check import faults
from tokenweir.spec.document import BadSpec, Document, Problem, path_of, read_document
from tokenweir.spec.read import read_fields


@dataclass(frozen=True, slots=True)
class Plan:
    """A scenario, and what each of its runs is once its `set` holds."""

    scenario: Scenario
    runs: Mapping[str, Scenario]


def read_scenario(text: str, name: str, quick: bool = False, seed: int | None = None) -> Plan:
    """The scenario in `text`, at its scaled-down size if `quick`; `name` is the file's, for errors.

    Raises `BadSpec` with every problem.
    """
    document = read_document(text, name)
    if quick and isinstance(document.data, dict):
        document = _changed(document, document.data.get("quick") or {})
    if seed is not None:
        document = _changed(document, {"seed": seed})
    scenario = _read(document)
    runs = {
        run: _read(_changed(document, fields.set)) if fields.set else scenario
        for run, fields in scenario.runs.items()
    }
    return Plan(scenario, runs)


def _read(document: Document) -> Scenario:
    whole = replace(document, data=_expanded(document.data))
    scenario, problems = read_fields(whole, Scenario)
    if scenario is not None:
        problems += _across(document, scenario)
    if scenario is None or problems:
        raise BadSpec(document.name, tuple(sorted(problems, key=lambda problem: problem.line)))
    return scenario


def _changed(document: Document, fields: Any) -> Document:
    return replace(document, data=merged(document.data, fields))


def merged(data: Any, fields: Any) -> Any:
    """`data` with `fields` laid over it, mapping by mapping; null takes a field away."""
    if not (isinstance(data, dict) and isinstance(fields, dict)):
        return fields
    result = dict(data)
    for name, value in fields.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


def _expanded(data: Any) -> Any:
    """Write out the crowds: each member is a tenant with a workload of its own."""
    crowds = data.get("crowds") if isinstance(data, dict) else None
    if not isinstance(crowds, dict):
        return data
    tenants, workloads = {}, {}
    for name, crowd in crowds.items():
        size = crowd.get("size") if isinstance(crowd, dict) else None
        for number in range(1, size + 1) if type(size) is int else ():
            if crowd.get("tenant"):
                tenants[f"{name}-{number:05d}"] = crowd["tenant"]
            workloads[f"{name}-{number:05d}"] = crowd.get("workload")
    return merged(data, {"pool": {"tenants": tenants}, "workloads": workloads})


def _across(document: Document, scenario: Scenario) -> Iterator[Problem]:
    """What is wrong between fields."""
    for fault in faults(scenario.pool):
        place = ("pool", *fault.place)
        line = document.line(place)
        yield Problem(line, path_of(place), f"value {fault.value}", fault.allowed)
    phases = {"all", *scenario.phases}
    for tenant, workload in scenario.workloads.items():
        for phase in workload.during:
            if phase not in phases:
                place = ("workloads", tenant, "during", phase)
                yield _unknown(document, place, phase, sorted(phases))
    for run, fields in scenario.runs.items():
        for tenant in (*fields.only, *fields.weights):
            if tenant not in scenario.workloads:
                yield _unknown(document, ("runs", run), tenant, sorted(scenario.workloads))
    for name, figure in scenario.figures.items():
        place = ("figures", name, "value")
        why = check(figure.value, scenario.runs, phases, scenario.workloads)
        if why:
            yield Problem(document.line(place), path_of(place), f"value {figure.value!r}", why)


def _unknown(document: Document, place: tuple[str, ...], name: str, known: list[str]) -> Problem:
    allowed = f"one of {', '.join(known[:12])}"
    return Problem(document.line(place), path_of(place), f"value {name!r}", allowed)
