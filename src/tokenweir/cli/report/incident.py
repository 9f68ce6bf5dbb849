"""`tokenweir report`: an incident as one page."""

import asyncio
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tokenweir.cli import figures
from tokenweir.cli.moment import read_moment
from tokenweir.cli.progress import progress
from tokenweir.cli.report.numbers import chosen, focus, numbers
from tokenweir.cli.report.plots import plots
from tokenweir.cli.report.words import Links, clock, minutes, moment, stays, summary
from tokenweir.cli.review.log import read_span, review_log
from tokenweir.cli.review.page_file import write_page
from tokenweir.cli.settings import Settings
from tokenweir.cli.show import show_json
from tokenweir.history.instants import instant_of
from tokenweir.review.chronicle import Chronicle, chronicle
from tokenweir.review.page import page
from tokenweir.review.requests import Counts
from tokenweir.review.span import Span
from tokenweir.review.sums import Sums, TenantSums, summed


def run(
    settings: Settings,
    pool: str | None,
    file: Path | None,
    since: str | None,
    until: str | None,
    path: Path,
    at: str | None,
    output: str,
) -> None:
    """Write the page, and say what is in it."""
    span = read_span(since, until, None, None)
    at_ms = read_moment("--at", at, int(time.time() * 1000))
    found = asyncio.run(_chronicle(settings, pool, file, span))
    write_page(path, incident_page(found, at_ms))
    if output == "json":
        show_json(row_of(found, path))
    else:
        print(f"{path}: {_counted(found)}; open it in a browser")


async def _chronicle(
    settings: Settings, pool: str | None, file: Path | None, span: Span
) -> Chronicle:
    async with review_log(settings, pool, file) as log:
        with progress(f"report of {log.pool}") as told:
            return await chronicle(log, span, told)


def incident_page(found: Chronicle, at_ms: int | None) -> str:
    """The page; the decision at `at_ms` stands open, else the one that refused most."""
    sums = summed(found.frames)
    links, open_ms = Links(chosen(found, at_ms)), focus(found, at_ms)
    first, last = found.frames[0].at_ms, found.frames[-1].at_ms
    return page(
        "incident.html",
        title=f"Incident report: pool {found.pool}",
        lead=f"{moment(instant_of(first))} to {moment(instant_of(last))}, pool time",
        summary=[
            {"text": text, "link": link, "href": href}
            for text, link, href in summary(found, sums, links)
        ],
        tiers=[*stays(found.frames, links)],
        since=clock(first),
        until=clock(last),
        minutes=[*minutes(found, links)],
        plots=[*plots(found.frames, sums)],
        tenants=_tenants(sums),
        requests_words=[*_requests_words(found)],
        requests=_requests(found),
        reasons=_reasons(found),
        decisions_words=_decisions_words(len(links.picked), len(found.frames)),
        decisions=[*numbers(found, links, open_ms)],
        footer=f"Made by tokenweir {version('tokenweir')} from the journal and the usage log.",
    )


def row_of(found: Chronicle, path: Path) -> dict[str, Any]:
    """What the page is made from, in exact figures."""
    total = found.requests.total
    return {
        "file": str(path),
        "bytes": path.stat().st_size,
        "pool": found.pool,
        "decisions": len(found.frames),
        "audit_entries": len(found.notes),
        "from_ms": found.frames[0].at_ms,
        "to_ms": found.frames[-1].at_ms,
        "requests": total.requests,
        "attempts": total.attempts,
        "admitted_attempts": total.admitted,
        "refused_attempts": total.refused,
        "errors": total.errors,
        "reports": found.reports,
        "missing_reports": found.missing,
        "unreadable_reports": found.unreadable,
        "unusable_messages": len(found.letters),
    }


def _counted(found: Chronicle) -> str:
    total = found.requests.total
    return (
        f"pool {found.pool}, {len(found.frames)} decisions, {len(found.notes)} audit entries, "
        f"{_in_attempts(total)}"
    )


def _in_attempts(counts: Counts) -> str:
    pairs = (counts.requests, "request"), (counts.attempts, "attempt")
    return " in ".join(f"{count} {noun}{'' if count == 1 else 's'}" for count, noun in pairs)


def _requests_words(found: Chronicle) -> Iterator[str]:
    total = found.requests.total
    yield (
        "A request is one call of a user; each time that it was tried, by a client or a router, is "
        "an attempt. Counted are those that ended in the range."
    )
    yield (
        f"{_in_attempts(total)}. Of the attempts {total.admitted} were let in, of which "
        f"{total.errors} failed, and {total.refused} were refused."
    )
    if found.unreadable:
        yield f"The requests of {found.unreadable} reports could not be read and are not counted."


def _requests(found: Chronicle) -> dict[str, Any]:
    return {
        "columns": ["Tenant", "Requests", "Attempts", "Let in", "Failed", "Refused", "Estimated"],
        "rows": [
            [
                name,
                str(one.requests),
                str(one.attempts),
                str(one.admitted),
                str(one.errors),
                str(one.refused),
                str(one.estimated),
            ]
            for name, one in sorted(found.requests.tenants.items())
        ],
        "caption": "Requests by tenant; the last column counts attempts whose usage is an estimate",
    }


def _reasons(found: Chronicle) -> dict[str, Any]:
    rows = [
        [name, reason or "(none given)", str(count)]
        for name, one in sorted(found.requests.tenants.items())
        for reason, count in one.reasons.most_common()
    ]
    return {
        "columns": ["Tenant", "Reason", "Attempts refused"],
        "rows": rows,
        "caption": "Why attempts were refused",
    }


def _tenants(sums: Sums) -> dict[str, Any]:
    columns = ["Tenant", "Class", "Spent", "Granted", "Borrowed", "Refused requests"]
    return {
        "columns": [*columns, "Refused tokens", "Highest debt", "Debt at the end"],
        "rows": [_tenant(one) for one in sums.tenants.values()],
        "caption": "Charged tokens over the range; debt as a part of the baseline",
    }


def _tenant(one: TenantSums) -> list[str]:
    counts = (one.spent, one.granted, one.borrowed, one.refused, one.refused_tokens)
    debts = (one.most_debt, one.debt)
    return [
        one.tenant,
        one.service_class,
        *map(figures.count, counts),
        *map(figures.ratio, debts),
    ]


def _decisions_words(shown: int, all_: int) -> str:
    if shown == all_:
        return f"All {all_} decisions; open one for its numbers."
    return (
        f"The numbers of {shown} of {all_} decisions are here: those that the audit speaks of, "
        "those at which a tier begins, and others evenly over the range. A link to another one "
        "leads to the last before it; `tokenweir explain` has all."
    )
