"""A tenant's standing as HTTP header fields.

`RateLimit` and `RateLimit-Policy` are those of draft-ietf-httpapi-ratelimit-headers-10 (structured
fields, RFC 9651); the `x-ratelimit-…` fields are those that OpenAI's clients read. All numbers
round so that a client never asks too early: what is left down, times up.
"""

from tokenweir.gateway.standing import Budget, Standing

Header = tuple[str, str]


def rate_limit(standing: Standing) -> tuple[Header, ...]:
    """The fields that every answer carries, admitted or not; names in lower case."""
    policies, limits = zip(*(_items(budget) for budget in standing.budgets), strict=True)
    if standing.sequences is not None:
        limit, free = standing.sequences
        policies += (f'"sequences";q={limit};qu="concurrent-requests"',)
        limits += (f'"sequences";r={free}',)
    return (
        ("ratelimit-policy", ", ".join(policies)),
        ("ratelimit", ", ".join(limits)),
        *_openai(standing),
        *((("tokenweir-decision", standing.decision_id),) if standing.decision_id else ()),
    )


def tightest(standing: Standing) -> Budget:
    """The budget with the least left: what a client can count on."""
    return min(standing.budgets, key=lambda budget: budget.remaining)


def duration(ms: int) -> str:
    """As OpenAI writes it: 120ms, 2s, 6m0s, 1h0m0s; whole seconds are rounded up."""
    if 0 < ms < 1000:
        return f"{ms}ms"
    minutes, seconds = divmod(seconds_of(ms), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{seconds}s"
    return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"


def seconds_of(ms: int) -> int:
    """Whole seconds, rounded up."""
    return -(-ms // 1000)


def _items(budget: Budget) -> tuple[str, str]:
    policy = f'"{budget.name}";q={budget.limit};w={budget.window_s};qu="tokens"'
    limit = f'"{budget.name}";r={budget.remaining}'
    more_ms = budget.full_ms if budget.remaining else budget.ready_ms
    if more_ms is not None:
        limit += f";t={seconds_of(more_ms)}"
    if budget.owed:
        limit += f";tokenweir-owed={budget.owed}"
    return policy, limit


def _openai(standing: Standing) -> tuple[Header, ...]:
    budget = tightest(standing)
    found = [
        ("x-ratelimit-limit-tokens", str(budget.limit)),
        ("x-ratelimit-remaining-tokens", str(budget.remaining)),
    ]
    if budget.full_ms is not None:
        found.append(("x-ratelimit-reset-tokens", duration(budget.full_ms)))
    if standing.sequences is not None:
        limit, free = standing.sequences
        found += [
            ("x-ratelimit-limit-requests", str(limit)),
            ("x-ratelimit-remaining-requests", str(free)),
            # When a place becomes free is not known; after an interval it is worth asking.
            ("x-ratelimit-reset-requests", duration(0 if free else standing.interval_ms)),
        ]
    return tuple(found)
