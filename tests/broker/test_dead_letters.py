"""Records that a real control worker refused: listed, explained, and sent again, once."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.broker.commands import command
from tests.broker.deployment import Deployment, deployed, until
from tests.pools import report, spec, tenant
from tokenweir.core.pool import COUNTERS
from tokenweir.letters.contents import contents
from tokenweir.records.journal import DecisionEntry
from tokenweir.records.usage import CapacityReport, UsageReport
from tokenweir.topics import partition_of
from tokenweir.wire import encode

pytestmark = pytest.mark.broker

OUT = COUNTERS.index("tokens_out")
FAR_MS = 10**15
HOME = partition_of("chat", 4)


class Clock:
    """A gateway that only moves the pool's time."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment, self.sequence = deployment, 0

    async def tick(self) -> None:
        self.sequence += 1
        await self.deployment.send(report("clock", self.sequence, {}))


async def reports(deployment: Deployment) -> list[UsageReport]:
    records = await deployment.read(deployment.topics.usage)
    found = [contents(record.value).record for record in records]
    return [record for record in found if isinstance(record, UsageReport)]


async def totals(deployment: Deployment, clock: Clock) -> int:
    await deployment.folded(("chat",), clock.tick)
    return int((await deployment.states())["chat"].pool.totals[:, OUT].sum())


async def test_letters_are_explained_and_count_once_when_they_are_sent_again(
    brokers: str, prefix: str, tmp_path: Path
) -> None:
    async with deployed(brokers, prefix, tmp_path, "0") as deployment:
        clock, topic = Clock(deployment), deployment.topics.usage
        await deployment.send(spec(tenant("acme", "elastic", 1000), interval_ms=500))

        async def decided() -> bool:
            deployment.assert_alive()
            await clock.tick()
            return any(isinstance(e.body, DecisionEntry) for e in await deployment.journal())

        await until(decided, "a decision")
        await deployment.send(report("gw-1", 1, {"acme": 1}))
        # 40 and 500 tokens that are refused, a capacity for the wrong key, and a ruin.
        ahead = await deployment.send(report("gw-1", 2, {"acme": 40}, applied=FAR_MS))
        wrong = report("gw-2", 1, {"acme": 500}, sequences={"acme": 3})
        elsewhere = (HOME + 1) % 4
        lost = await deployment.send_raw(b"acme", encode(wrong), elsewhere)
        capacity = CapacityReport("chat", "cli", 5_000_000, None, None)
        await deployment.send_raw(b"acme", encode(capacity), HOME)
        ruin = await deployment.send_raw(b"chat", encode(wrong)[:40])

        async def refused() -> bool:
            await clock.tick()
            return len(await deployment.letters()) == 4

        await until(refused, "four letters")
        assert await totals(deployment, clock) == 1

        rows = (await command(deployment, "dead-letters", "list", "-o", "json")).json
        assert {(row["what"], row["pool"], row["by"]) for row in rows} == {
            ("UsageReport", "chat", "control"),
            ("CapacityReport", "chat", "control"),
        }
        assert [row["resent"] for row in rows] == [None] * 4
        line = ("dead-letters", "list", "--since", "1h", "--reason", "APPLIED is", "--pool", "chat")
        (row,) = (await command(deployment, *line, "-o", "json")).json
        assert row["place"] == f"{topic}/{HOME}/{ahead}"

        place = f"{topic}/{elsewhere}/{lost}"
        told = (await command(deployment, "dead-letters", "explain", place)).out
        assert "Reason: the key b'acme' is not the record's pool 'chat'\n" in told
        assert f"Key: 'acme'; pool chat: its home is partition {HOME}\n" in told
        assert "UsageReport v1\n" in told
        assert "acme    acme         1         0       0  500" in told
        assert f"Now: `tokenweir dead-letters resend {place}` sends it as gateway" in told
        broken = (
            await command(deployment, "dead-letters", "explain", f"{topic}/{HOME}/{ruin}")
        ).out
        assert "It cannot be read: cannot be read as UsageReport" in broken
        assert "who wrote it has to mend it: cannot be read as UsageReport" in broken

        before = len(await reports(deployment))
        everything = ("dead-letters", "resend", "--all")
        assert (await command(deployment, *everything)).err.startswith("nobody can be asked here")
        done = await command(deployment, *everything, "--dry-run")
        assert (done.code, len(await reports(deployment))) == (1, before)
        done = await command(deployment, *everything, "--yes", "-o", "json")
        assert done.code == 1
        states = {row["place"].split("/")[-1]: row["state"] for row in done.json}
        assert states[str(ahead)] == states[str(lost)] == "sent"
        assert sorted(states.values()) == ["refused", "refused", "sent", "sent"]
        assert await totals(deployment, clock) == 541

        again = (await command(deployment, *everything, "--yes", "-o", "json")).json
        assert sorted(row["state"] for row in again) == ["before", "before", "refused", "refused"]
        # What a second one would be that no note keeps back: the same report, dropped by R1.
        resent = [one for one in await reports(deployment) if one.gateway.startswith("resend-")]
        assert sorted(one.gateway for one in resent) == ["resend-gw-1-2", "resend-gw-2-1"]
        for one in resent:
            await deployment.send(replace(one, age_ms=one.age_ms + 1000))
        assert await totals(deployment, clock) == 541
        letters = await deployment.letters()
        assert sorted(letter.reader for letter in letters) == ["control"] * 4 + ["resend"] * 2

        shown = (await command(deployment, "dead-letters", "list")).out
        assert shown.count("(sent again as gateway resend-gw-") == 2
