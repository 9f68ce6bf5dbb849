"""`tokenweir apply`: read specs, show what changes, publish them, and say what became of them."""

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from tokenweir.cli.log import open_log
from tokenweir.cli.pools import Row
from tokenweir.cli.settings import Settings
from tokenweir.cli.show import note, show_json
from tokenweir.cli.specs.plan import Plan, Source, plan
from tokenweir.cli.specs.publish import Outcome, Outcomes, publish
from tokenweir.errors import BadInput
from tokenweir.spec.difference import Change
from tokenweir.spec.read import read_spec
from tokenweir.topics import Topics

SHOWN = 60  # changes of one pool; --output json has all
UNCONFIRMED = 3  # exit code: published, and nothing heard of it in time


def run(
    settings: Settings,
    files: Sequence[str],
    yes: bool,
    dry_run: bool,
    wait_s: float,
    output: str,
) -> int:
    """Apply every file, or none when one of them has a problem; the exit code."""
    sources = read_sources(files)
    if dry_run and settings.brokers is None:
        note("no brokers known: checked, and compared with nothing")
        return 0
    plans = asyncio.run(_plans(settings, sources))
    changed = [plan for plan in plans if plan.changes is None or plan.changes]
    if output == "table":
        print("\n\n".join(_told(plan) for plan in plans), flush=True)
    outcomes: Outcomes = {}
    if changed and not dry_run and _agreed(files, yes, output):
        outcomes = asyncio.run(_publish(settings, changed, wait_s))
    if output == "json":
        show_json([_row(plan, outcomes.get(plan.spec.pool)) for plan in plans])
    else:
        _say(changed, outcomes)
    return _exit_code(outcomes)


def read_sources(files: Sequence[str]) -> list[Source]:
    """Every file, checked; raises `BadInput` with the problems of all of them."""
    sources: list[Source] = []
    problems: list[str] = []
    for file in files:
        try:
            text, name = _text(file)
            sources.append(Source(name, text, read_spec(text, name)))
        except BadInput as error:
            problems.append(str(error))
    problems += _twice(sources)
    if problems:
        raise BadInput("\n".join(problems))
    return sources


def _text(file: str) -> tuple[str, str]:
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return data.decode("utf-8-sig"), "<stdin>" if file == "-" else file
    except OSError as error:
        raise BadInput(f"{file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{file}: not UTF-8 at byte {error.start}: save it as UTF-8") from error


def _twice(sources: Sequence[Source]) -> list[str]:
    first: dict[str, str] = {}
    lines = []
    for source in sources:
        pool = source.pool.pool
        if pool in first:
            lines.append(f"{source.name}: pool {pool} is in {first[pool]} already: one file a pool")
        first.setdefault(pool, source.name)
    return lines


async def _plans(settings: Settings, sources: Sequence[Source]) -> list[Plan]:
    topics = Topics(settings.topic_prefix)
    async with open_log(settings.need_brokers()) as log:
        return [await plan(log, topics, source) for source in sources]


async def _publish(settings: Settings, plans: Sequence[Plan], wait_s: float) -> Outcomes:
    brokers = settings.need_brokers()
    async with open_log(brokers) as log:
        return await publish(brokers, log, Topics(settings.topic_prefix), plans, wait_s)


def _agreed(files: Sequence[str], yes: bool, output: str) -> bool:
    if yes:
        return True
    if output == "json" or "-" in files or not sys.stdin.isatty():
        raise BadInput("nobody can be asked here: give --yes to apply, or --dry-run to look")
    if click.confirm("\nApply?", default=False):
        return True
    raise BadInput("not applied")


def _told(plan: Plan) -> str:
    """The difference as people read it."""
    name, now, version = f"pool {plan.spec.pool}", plan.current.version, plan.spec.version
    if plan.changes is None:
        return f"{name}: version {now} -> {version}; the log has version {now} no more to compare"
    if not plan.changes:
        return f"{name}: version {now}, no change"
    head = f"{name}: new" if plan.is_new else f"{name}: version {now} -> {version}"
    shown = plan.changes[:SHOWN]
    width = max(len(change.path) for change in shown)
    lines = [_line(change, width, plan.is_new) for change in shown]
    more = len(plan.changes) - len(shown)
    lines += [f"  and {more} more (--output json has all)"] if more else []
    return "\n".join([head, *lines])


def _line(change: Change, width: int, is_new: bool) -> str:
    path = f"{change.path:{width}}"
    if change.before is None or is_new:
        return f"  + {path}  {change.after}"
    if change.after is None:
        return f"  - {path}  {change.before}"
    return f"  ~ {path}  {change.before} -> {change.after}"


def _say(plans: Sequence[Plan], outcomes: Outcomes) -> None:
    for one in plans:
        outcome = outcomes.get(one.spec.pool)
        if outcome is None:
            continue
        what = f"pool {one.spec.pool}: version {one.spec.version}"
        if outcome.state == "accepted":
            print(f"{what} {outcome.why}")
        elif outcome.state == "rejected":
            note(f"{what} was rejected: {outcome.why}")
        else:
            note(
                f"{what} is in the log, and no decision has it yet: it takes effect when a "
                "gateway reports and a control worker runs (`tokenweir status`)"
            )


def _row(plan: Plan, outcome: Outcome | None) -> Row:
    return {
        "pool": plan.spec.pool,
        "file": plan.source.name,
        "version": plan.current.version if plan.changes == () else plan.spec.version,
        "replaces": plan.spec.replaces,
        "changes": None if plan.changes is None else [asdict(change) for change in plan.changes],
        "state": ("unchanged" if plan.changes == () else "planned")
        if outcome is None
        else outcome.state,
        "why": None if outcome is None else outcome.why,
    }


def _exit_code(outcomes: Outcomes) -> int:
    states = {outcome.state for outcome in outcomes.values()}
    if "rejected" in states:
        return 1
    return UNCONFIRMED if "waiting" in states else 0
