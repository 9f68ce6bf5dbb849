"""What became of quotas, for the audit: spent, begun anew, rolled over, lent."""

from collections.abc import Iterator

import numpy as np

from tokenweir.core.quota.loans import Loan
from tokenweir.core.quota.quotas import EXHAUSTED, Quotas
from tokenweir.core.quota.rations import Rations
from tokenweir.core.quota.turn import Turn, name_of
from tokenweir.core.terms import Ints
from tokenweir.records.journal import AuditEntry

UNIT = "charged tokens"


def turn_audit(turns: tuple[Turn, ...]) -> Iterator[AuditEntry]:
    """Windows that began: whose quota was spent before, and who may spend more than its tokens."""
    for turn in turns:
        window = turn.group.now.id
        if turn.reset:
            left, now = _total(turn.reset, 1), _total(turn.reset, 2)
            why = f"{window} begins: quotas that were spent begin anew"
            yield _entry(window, (), _names(turn.reset), now, left, now, why)
        if turn.rolled:
            tokens, more = _total(turn.rolled, 1), _total(turn.rolled, 2)
            why = f"{turn.group.before.id} left so much unspent, and {window} may spend it too"
            yield _entry(window, (), _names(turn.rolled), more, tokens, tokens + more, why)


def loan_audit(loans: tuple[Loan, ...]) -> Iterator[AuditEntry]:
    """What was lent from quotas that will not be spent."""
    for loan in loans:
        window, after = loan.group.now.id, loan.before + loan.tokens
        why = f"{window} will leave it unspent with its owners, and others have spent theirs"
        yield _entry(window, loan.lenders, loan.borrowers, loan.tokens, loan.before, after, why)


def spent_audit(quotas: Quotas, rations: Rations, given: Ints) -> Iterator[AuditEntry]:
    """Quotas that are spent, or all but a hundredth that is spread over the gateways."""
    accounts, columns = quotas.accounts, quotas.columns
    if not accounts.keys:
        return
    rest = rations.left <= rations.limit // 100
    done = (rations.left <= 0) | (rest & (given >= rations.limit))
    # What everybody may spend is nobody's; and to a quota across pools more may come.
    done[[*(place for places in accounts.everybody.values() for place in places)]] = False
    new = np.flatnonzero(done & ~accounts.across & (columns[EXHAUSTED] == 0))
    columns[EXHAUSTED, new] = 1
    for place, group in enumerate(quotas.groups):
        mine = [account for account in new.tolist() if accounts.group[account] == place]
        if mine:
            names = tuple(sorted(name_of(quotas, account) for account in mine))
            limit, left = int(rations.limit[mine].sum()), int(rations.left[mine].sum())
            why = f"{group.now.id} is spent; the next window begins when it ends"
            yield _entry(group.now.id, names, (), limit, limit, left, why)


def _entry(
    window: str,
    lost: tuple[str, ...],
    gained: tuple[str, ...],
    amount: int,
    before: int,
    after: int,
    why: str,
) -> AuditEntry:
    who = (*lost, *gained)
    subject = who[0] if len(who) == 1 else window
    return AuditEntry("quota", subject, lost, gained, amount, UNIT, str(before), str(after), why)


def _names(rows: tuple[tuple[str, int, int], ...]) -> tuple[str, ...]:
    return tuple(name for name, _, _ in rows)


def _total(rows: tuple[tuple[str, int, int], ...], column: int) -> int:
    return sum(int(row[column]) for row in rows)
