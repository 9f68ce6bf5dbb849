"""The incident report: one page, everything escaped, every link leads somewhere."""

import asyncio
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from tests.enforced import enforced
from tests.pools import START, report, spec, tenant
from tests.recordings import Recording, block, messages, recorded
from tokenweir.cli.report import numbers
from tokenweir.cli.report.audit_words import named, sentence
from tokenweir.cli.report.incident import incident_page
from tokenweir.cli.report.words import Links, events
from tokenweir.core.step import UsageRecord
from tokenweir.history.answers import Change
from tokenweir.history.instants import instant_of
from tokenweir.records.journal import AuditEntry
from tokenweir.records.usage import CapacityReport, RequestsBlock, Status
from tokenweir.review.chronicle import chronicle
from tokenweir.review.span import Span
from tokenweir.review.world import Noted
from tokenweir.wire import encode

EVIL = '<script>alert(1)</script>"&$x$\u202e'
RULES = spec(
    tenant("gold", "guaranteed", 4_000), tenant("tin", "spot"), tenant(EVIL, "elastic", 900)
)
OFFERS = {"gold": 3_000, "tin": 9_000, EVIL: 1_200}


class Page(HTMLParser):
    """What a browser would make of it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: set[str] = set()
        self.sources: list[str] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.add(tag)
        self.ids += [found["id"] or ""] if "id" in found else []
        self.links += [found["href"] or ""] if "href" in found else []
        self.sources += [found["src"] or ""] if "src" in found else []

    def handle_data(self, data: str) -> None:
        self.words += data


@pytest.fixture(scope="module")
def made() -> Recording:
    extra: dict[int, UsageRecord] = {9: CapacityReport("chat", "vllm", 3_000_000, None, None)}
    return recorded(messages(enforced(RULES, lambda _: OFFERS, seconds=20, extra=extra)))


@pytest.fixture(scope="module")
def text(made: Recording) -> str:
    return asyncio.run(written(made, Span()))


async def written(made: Recording, span: Span, at_ms: int | None = None) -> str:
    return incident_page(await chronicle(made, span), at_ms)


def shown(page: Page) -> list[str]:
    """The decisions whose numbers are there."""
    return [id_ for id_ in page.ids if re.fullmatch(r"d\d+", id_)]


def test_every_link_leads_to_a_place_in_the_page(text: str) -> None:
    found = Page(text)
    assert {link[1:] for link in found.links} <= set(found.ids)
    assert all(link.startswith("#") for link in found.links)
    assert len(found.ids) == len(set(found.ids))
    assert len(shown(found)) == 20


def test_the_page_asks_nobody_for_anything(text: str) -> None:
    found = Page(text)
    assert found.tags.isdisjoint({"script", "link", "iframe", "object", "form"})
    assert found.sources
    assert all(source.startswith("data:image/svg+xml;base64,") for source in found.sources)
    assert "Content-Security-Policy" in text
    assert not re.search(r"https?://", text)


def test_names_are_text_and_nothing_else(text: str) -> None:
    assert "<script" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;&#34;&amp;$x$\\u202e" in text
    assert "\u202e" not in text


def test_what_happened_is_told_with_its_reason(text: str) -> None:
    words = Page(text).words
    assert "The capacity went from 10000 tokens/s to 3000 tokens/s" in words
    assert "Floors that need" in words


async def test_a_range_has_its_decisions_only(made: Recording) -> None:
    span = Span(from_ms=START + 5_000, to_ms=START + 8_000)
    found = Page(await written(made, span))
    assert shown(found) == [f"d{START + second * 1000}" for second in (5, 6, 7, 8)]
    assert "The capacity was 10k/s all the time" in found.words


async def test_the_decision_that_is_asked_for_stands_open(made: Recording) -> None:
    text = await written(made, Span(from_ms=START + 5_000), START + 7_400)
    opened = text.split("<details open>")[1].split("</details>")[0]
    assert text.count("<details open>") == 1
    assert f'id="d{START + 7_000}"' in opened
    assert f"chat@{START + 7_000}" in opened


async def test_of_many_decisions_some_have_numbers_and_links_lead_to_those_before(
    made: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numbers, "MOST_ROWS", 4 * 8)
    found = Page(await written(made, Span()))
    assert 5 <= len(shown(found)) < 20
    assert {link[1:] for link in found.links} <= set(found.ids)
    assert "others evenly over the range" in found.words


def test_a_link_leads_to_the_last_decision_up_to_a_time() -> None:
    links = Links([3_000, 1_000])
    assert [links.to(at_ms) for at_ms in (500, 1_000, 2_999, 9_000)] == [
        "d1000",
        "d1000",
        "d1000",
        "d3000",
    ]


def attempts(*status: Status) -> RequestsBlock:
    """One call of acme, tried so often."""
    rows = len(status)
    one = replace(block(["acme"], ["ann"], 1), id=["call-1"] * rows)
    same: dict[str, Any] = {
        name: [*getattr(one, name)] * rows
        for name in ("tenant", "user", "model", "flow", "priority", "estimated")
    }
    return replace(
        one,
        names=[*one.names, "busy"],
        attempt=[*range(1, rows + 1)],
        status=status,
        error=[each == "done" for each in status[:-1]] + [False],
        reason=[len(one.names) if each == "refused" else 0 for each in status],
        tokens_out=[0] * (rows - 1) + [5],
        **same,
    )


def calls() -> Iterator[tuple[int, UsageRecord]]:
    yield START - 400, spec(tenant("acme", "elastic", 1_000))
    one = report("a", 1, {"acme": 5})
    one = replace(one, requests=encode(attempts("part", "refused", "done", "done")))
    yield START + 300, one
    yield START + 500, one  # a repeat
    yield START + 1_100, report("a", 2)


async def test_a_call_with_two_failed_attempts_is_one_request_and_three_attempts() -> None:
    found = await chronicle(recorded(messages(calls())), Span())
    acme = found.requests.tenants["acme"]
    assert (acme.requests, acme.attempts) == (1, 3)
    assert (acme.admitted, acme.errors, acme.refused) == (2, 1, 1)
    assert acme.reasons == {"busy": 1}
    assert "1 request in 3 attempts" in Page(incident_page(found, None)).words
    assert found.reports == 2


def change(kind: str, **fields: Any) -> Change:
    given = {"lost": [], "gained": [], "amount": 0, "unit": "", "before": "", "after": ""}
    return Change(instant_of(START), kind, "chat", **{**given, "why": "so it is", **fields})


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (
            change("tier", before="normal", after="soft_degrade", lost=["*", "tin"]),
            "The tier went from normal to soft_degrade: so it is. "
            "Held back: unknown tenants and tin.",
        ),
        (
            change("reclaim", lost=["tin"], gained=["gold"], amount=800_000, after="50000"),
            "800/s of what was lent were taken back from tin, for gold: so it is. 50/s stay lent.",
        ),
        (
            change("spec", before="2", after="3"),
            "Version 3 of the spec took the place of version 2.",
        ),
        (change("new kind", before="a", after="b"), "new kind of chat: a → b: so it is."),
    ],
)
def test_audit_entries_are_sentences(told: Change, words: str) -> None:
    assert sentence(told) == words


def test_many_names_are_cut_off() -> None:
    assert named(["a"]) == "a"
    assert named(["a", "b", "c"]) == "a, b and c"
    assert named(list("abcdefgh")) == "a, b, c, d, e and 3 more"


def test_entries_of_a_kind_that_repeat_are_put_together() -> None:
    entry = AuditEntry("reclaim", "chat", ["tin"], ["gold"], 1, "", "2", "1", "why")
    notes = [Noted(f"n{at}", START + at * 1000, entry) for at in range(6)]
    (one,) = events(notes, Links([START]))
    assert len(one.more) == 5
