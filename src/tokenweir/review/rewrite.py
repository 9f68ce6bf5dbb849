"""A report as it would have been: other amounts spent, refused and waiting, in the same rows.

A row is a (tenant, user). What a tenant would have spent less is taken from its rows in proportion
to what they spent; what it would have spent more goes to the rows that were refused, or waited,
and counts as uncached input. Requests follow their tokens. What runs stays as it was recorded.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any

from tokenweir.core import ONE
from tokenweir.records.spec import TokenWeights
from tokenweir.records.usage import Totals, UsageReport
from tokenweir.review.counterfactual import Asked

NAMES = ("names", "tenant", "user")
COLUMNS = tuple(field.name for field in fields(Totals) if field.name not in NAMES)
TOKENS = ("tokens_uncached", "tokens_cached", "tokens_out")


@dataclass(slots=True)
class Row:
    """One row of a report; `number` is its place."""

    number: int
    tenant: str
    spent: int  # charged tokens; corrections below 0 are left alone
    refused: int  # charged tokens
    queued: int


def rows_of(report: UsageReport, weights: TokenWeights) -> list[Row]:
    """The rows with what the model needs of each."""
    totals = report.totals
    empty = [0] * len(totals.tenant)
    refused, queued = totals.refused_tokens or empty, totals.queued_tokens or empty
    kinds = [getattr(totals, kind) or empty for kind in TOKENS]
    return [
        Row(place, totals.names[name], max(charged(weights, *tokens), 0), lost, waits)
        for place, (name, tokens, lost, waits) in enumerate(
            zip(totals.tenant, zip(*kinds, strict=True), refused, queued, strict=True)
        )
    ]


def charged(weights: TokenWeights, uncached: int, cached: int, out: int) -> int:
    """Charged tokens, as the core counts them."""
    each = uncached * weights.uncached + cached * weights.cached + out * weights.out
    return each // ONE


def asked_by(rows: Iterable[Row]) -> dict[str, Asked]:
    """What each tenant offered."""
    found: dict[str, Asked] = {}
    for row in rows:
        sum_ = found.get(row.tenant, Asked(0, 0, 0))
        found[row.tenant] = Asked(
            sum_.spent + row.spent, sum_.refused + row.refused, sum_.queued + row.queued
        )
    return found


def with_rows(report: UsageReport, tenants: Sequence[str]) -> UsageReport:
    """The report with an empty row for each of these tenants, which it does not speak of."""
    totals, first = report.totals, len(report.totals.names)
    count = len(tenants)
    columns: dict[str, Any] = {
        name: [*getattr(totals, name), *[0] * count] for name in COLUMNS if getattr(totals, name)
    }
    more = replace(
        totals,
        names=[*totals.names, *tenants, ""],
        tenant=[*totals.tenant, *range(first, first + count)],
        user=[*totals.user, *[first + count] * count],
        **columns,
    )
    return replace(report, totals=more)


def rewritten(
    report: UsageReport,
    rows: Sequence[Row],
    answers: Mapping[str, Asked],
    weights: TokenWeights,
) -> UsageReport:
    """The report with these answers; `answers` has the tenants that changed, and only those."""
    totals = report.totals
    empty = [0] * len(totals.tenant)
    columns = {name: [*(getattr(totals, name) or empty)] for name in COLUMNS}
    for tenant, answer in answers.items():
        own = [row for row in rows if row.tenant == tenant]
        _Change(columns, own, weights).make(answer)
    filled: dict[str, Any] = {name: column for name, column in columns.items() if any(column)}
    none: dict[str, Any] = dict.fromkeys(COLUMNS, ())
    return replace(report, totals=replace(totals, **{**none, **filled}))


class _Change:
    """Changes one tenant's rows in place."""

    def __init__(
        self, columns: dict[str, list[int]], rows: Sequence[Row], weights: TokenWeights
    ) -> None:
        self.columns, self.rows, self.weights = columns, rows, weights
        self.ended = [*columns["requests"]]

    def make(self, answer: Asked) -> None:
        spent = sum(row.spent for row in self.rows)
        if answer.spent < spent:
            left = [self._cut(row, answer.spent, spent) for row in self.rows]
        else:
            left = self._give(answer.spent - spent)
        # What rounding took from the spent is refused: all that is offered is somewhere.
        refused = answer.refused + answer.spent - sum(left)
        self._refuse(max(refused, 0), left)
        self._queue(answer.queued, left)

    def _cut(self, row: Row, part: int, whole: int) -> int:
        """What the row still spends of its tokens."""
        place = row.number
        for kind in TOKENS:
            column = self.columns[kind]
            column[place] = column[place] * part // whole if column[place] > 0 else column[place]
        return self._charged(place)

    def _give(self, more: int) -> list[int]:
        gifts = parts(more, [row.refused + row.queued for row in self.rows])
        kind = "tokens_uncached" if self.weights.uncached else "tokens_out"
        weight = self.weights.uncached or self.weights.out or ONE
        for row, gift in zip(self.rows, gifts, strict=True):
            self.columns[kind][row.number] += gift * ONE // weight
        return [self._charged(row.number) for row in self.rows]

    def _refuse(self, refused: int, left: Sequence[int]) -> None:
        lost = [max(row.spent - now, 0) for row, now in zip(self.rows, left, strict=True)]
        keys = [row.refused + cut for row, cut in zip(self.rows, lost, strict=True)]
        for row, tokens, cut in zip(self.rows, parts(refused, keys), lost, strict=True):
            place, ended = row.number, self.columns["requests"][row.number]
            gone = ended * cut // row.spent if row.spent else 0
            before = self.columns["refused"][place]
            if tokens < row.refused:
                after = -(-before * tokens // row.refused)
                gone -= before - after
            else:
                after = before + gone
            self.columns["refused"][place] = after
            self.columns["requests"][place] = max(ended - gone, 0)
            self.columns["refused_tokens"][place] = tokens

    def _queue(self, queued: int, left: Sequence[int]) -> None:
        keys = [
            row.queued + max(row.spent - now, 0) for row, now in zip(self.rows, left, strict=True)
        ]
        for row, tokens in zip(self.rows, parts(queued, keys), strict=True):
            counts = self.columns["queued"]
            # As many requests as hold so many tokens where it waited, or else where it spent.
            whole, known = (row.queued, counts) if row.queued else (row.spent, self.ended)
            each = -(-known[row.number] * tokens // whole) if whole else 0
            counts[row.number] = max(each, 1) if tokens else 0
            self.columns["queued_tokens"][row.number] = tokens

    def _charged(self, place: int) -> int:
        tokens = (self.columns[kind][place] for kind in TOKENS)
        return max(charged(self.weights, *tokens), 0)


def parts(amount: int, keys: Sequence[int]) -> list[int]:
    """An amount in whole parts, in proportion to the keys; alike where all are 0."""
    keys = keys if any(keys) else [1] * len(keys)
    edges, upto, whole = [0], 0, sum(keys)
    for key in keys:
        upto += key
        edges.append(amount * upto // whole)
    return [after - before for before, after in pairwise(edges)]
