"""`tokenweir dead-letters explain`: all about one letter."""

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tokenweir.cli import figures
from tokenweir.cli.dead_letters.letters import Choice, pool_of, read_letters, row_of, utc
from tokenweir.cli.log import open_log
from tokenweir.cli.pools import Row
from tokenweir.cli.settings import Settings
from tokenweir.cli.show import Column, show_json, show_table
from tokenweir.errors import BadInput, BadRecord, UnknownSchema
from tokenweir.letters.again import Settled, Terms, again
from tokenweir.letters.contents import Contents, contents, plain
from tokenweir.letters.found import Letter, read_place
from tokenweir.records.usage import RequestsBlock, UsageReport
from tokenweir.topics import Topics, partition_of
from tokenweir.wire import decode_as

SHOWN_LINES = 60
COLUMNS = (
    Column("TENANT"),
    Column("USER", drop=1),
    Column("REQUESTS", right=True),
    Column("UNCACHED", right=True),
    Column("CACHED", right=True),
    Column("OUT", right=True),
    Column("REFUSED", right=True),
)


@dataclass(frozen=True, slots=True)
class Explained:
    """One letter, what is in it, and what to do."""

    letter: Letter
    held: Contents
    home: int  # the partition of its pool
    advice: str


def run(settings: Settings, place: str, output: str) -> None:
    """Print what is known of every letter of this record: mostly one."""
    found = asyncio.run(_explained(settings, place))
    if output == "json":
        show_json([_row(one) for one in found])
        return
    for one in found:
        print("\n".join(lines_of(one)))
        if isinstance(one.held.record, UsageReport):
            _show_totals(one.held.record)
        print(f"Now: {one.advice}")


async def _explained(settings: Settings, text: str) -> list[Explained]:
    place, topics = read_place(text), Topics(settings.topic_prefix)
    async with open_log(settings.need_brokers()) as log:
        found = await read_letters(log, topics, Choice(frozenset([place])))
        partitions = len(await log.partitions(topics.usage))
    if not found:
        raise BadInput(f"{text}: no dead letter has this place; `tokenweir dead-letters list`")
    terms, now_ms = Terms(topics, partitions), int(time.time() * 1000)
    return [explained(letter, terms, now_ms) for letter in found]


def explained(letter: Letter, terms: Terms, now_ms: int) -> Explained:
    """What there is to say of a letter at this moment."""
    held = contents(letter.letter.value)
    home = partition_of(pool_of(letter, held), terms.partitions)
    return Explained(letter, held, home, advice(letter, terms, now_ms))


def advice(letter: Letter, terms: Terms, now_ms: int) -> str:
    """What to do about a letter, in a sentence."""
    if letter.resent:
        return f"nothing: it was sent again {letter.resent}"
    try:
        sent = again(letter.letter, terms, now_ms)
    except UnknownSchema:
        return "a newer version wrote it: upgrade here, then send it again"
    except Settled as error:
        return f"nothing: {error}"
    except BadRecord as error:
        return f"it cannot be sent again; who wrote it has to mend it: {error}"
    return f"`tokenweir dead-letters resend {letter.place}` sends it {sent.how}"


def lines_of(one: Explained) -> list[str]:
    """A letter in words; a report's rows come after them."""
    letter, held = one.letter.letter, one.held
    lines = [
        f"{one.letter.place}: {letter.reader} could not use it",
        f"Reason: {letter.reason}",
        f"Appended {utc(letter.timestamp_ms)} UTC, found {utc(one.letter.found_ms)} UTC.",
        f"Key: {_key(letter.key)}; pool {held.pool or 'not known'}: {_where(one)}",
        f"Value: {held.form}",
    ]
    if held.problem:
        lines.append(f"It cannot be read: {held.problem}.")
    if isinstance(held.record, UsageReport):
        return [*lines, _heading(held.record)]
    return [*lines, *_json(held)]


def _key(key: bytes | None) -> str:
    return "none" if key is None else repr(key.decode(errors="backslashreplace"))


def _where(one: Explained) -> str:
    if not one.held.pool:
        return f"it lies in partition {one.letter.letter.partition}"
    if one.home == one.letter.letter.partition:
        return f"partition {one.home} is its home"
    return f"its home is partition {one.home}"


def _heading(report: UsageReport) -> str:
    block = _requests(report)
    flags = [name for name in ("closing", "more") if getattr(report, name)]
    parts = [
        f"gateway {report.gateway}",
        f"sequence {report.sequence}",
        f"obeyed decision {report.applied}" if report.applied else "obeyed no decision",
        f"sent {figures.age(report.age_ms)} after it was cut",
        block,
        *flags,
    ]
    return f"Report: {', '.join(parts)}."


def _requests(report: UsageReport) -> str:
    if not report.requests:
        return "no requests"
    try:
        return f"{len(decode_as(RequestsBlock, report.requests).id)} rows of requests"
    except BadRecord as error:
        return f"requests that cannot be read ({error})"


def _json(held: Contents) -> list[str]:
    if held.record is None:
        return []
    lines = json.dumps(plain(held.record), indent=2, ensure_ascii=False, default=str).splitlines()
    more = len(lines) - SHOWN_LINES
    return [*lines[:SHOWN_LINES], *([f"… {more} lines more (--output json)"] if more > 0 else [])]


def _show_totals(report: UsageReport) -> None:
    """A row a tenant and user; a report that is not sound shows what fits together."""
    totals, rows = report.totals, len(report.totals.tenant)
    if rows:
        columns = (
            [_name(totals.names, at) for at in totals.tenant],
            [_name(totals.names, at) for at in totals.user],
            totals.requests,
            totals.tokens_uncached,
            totals.tokens_cached,
            totals.tokens_out,
            totals.refused,
        )
        show_table(COLUMNS, [[_cell(column, at) for column in columns] for at in range(rows)])


def _name(names: Sequence[str], at: int) -> str:
    return names[at] if 0 <= at < len(names) else f"(name {at} of {len(names)})"


def _cell(column: Sequence[object], at: int) -> str:
    """Empty columns are all zeros."""
    return str(column[at]) if at < len(column) else "0" if not column else "?"


def _row(one: Explained) -> Row:
    held = one.held
    return {
        **row_of(one.letter, held),
        "form": held.form,
        "schema": held.schema or None,
        "problem": held.problem or None,
        "home_partition": one.home,
        "record": plain(held.record),
        "advice": one.advice,
    }
