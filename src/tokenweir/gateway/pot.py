"""The starter pot's shares: how much of it one tenant may take (PROTOCOL L8)."""

from tokenweir.gateway.bucket import Bucket
from tokenweir.gateway.stance import Stance
from tokenweir.gateway.subject import Subject

MILLION = 1_000_000


def allowance(pot: Bucket, subject: Subject, stance: Stance, now_ms: int) -> Bucket:
    """The tenant's allowance of the pot, up to this moment.

    It only limits a share of what the pot itself holds, so it starts full.
    """
    rate = max(pot.rate * stance.starter // MILLION, min(stance.starter, 1))
    burst = pot.burst * stance.starter // MILLION
    share = subject.allowance
    if share is None:
        share = subject.allowance = Bucket()
        share.renew(now_ms, rate, burst)
        share.level = share.burst
    share.renew(now_ms, rate, burst)
    return share
