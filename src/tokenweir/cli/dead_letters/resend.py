"""`tokenweir dead-letters resend`: send again what can be used after all."""

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal

import click
from aiokafka import TopicPartition
from rich.console import Console
from rich.progress import Progress

from tokenweir import wire
from tokenweir.cli.dead_letters.letters import Choice, read_choice, read_letters
from tokenweir.cli.log import open_log
from tokenweir.cli.pools import Row
from tokenweir.cli.send import Sender, open_sender
from tokenweir.cli.settings import Settings
from tokenweir.cli.show import Column, note, show_json, show_table
from tokenweir.errors import BadInput, BadRecord
from tokenweir.letters.again import Again, Terms, again
from tokenweir.letters.found import Letter, note_of, read_place
from tokenweir.topics import Topics

# Each report is a gateway for a moment, with arrays over the pool's tenants until the decision.
A_SECOND = 50
SHOWN = 60  # rows of a table; --output json has all
FEW = 10  # need no progress bar
State = Literal["planned", "sent", "before", "refused"]
WORDS: dict[State, str] = {
    "planned": "to be sent ",
    "sent": "",
    "before": "was sent ",
    "refused": "refused: ",
}
NAMES: dict[State, str] = {"planned": "to be sent", "before": "sent before", "refused": "refused"}
COLUMNS = (Column("PLACE"), Column("WHAT BECAME OF IT"))


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of one letter, and how or why."""

    letter: Letter
    state: State
    why: str
    sends: Again | None = None


def run(
    settings: Settings,
    places: Sequence[str],
    everything: bool,
    since: str | None,
    pool: str | None,
    reason: str | None,
    include_settings: bool,
    dry_run: bool,
    yes: bool,
    output: str,
) -> int:
    """Send what is meant and can be sent; the exit code."""
    chosen = read_choice(since, pool, reason, int(time.time() * 1000))
    choice = asked(places, everything, chosen)
    fates = asyncio.run(_planned(settings, choice, include_settings))
    ready = [fate for fate in fates if fate.sends is not None]
    if output == "table":
        _tell(fates)
    if ready and not dry_run and _agreed(yes, len(ready), output):
        asyncio.run(_send(settings, ready, include_settings))
        fates = [replace(f, state="sent") if f.sends is not None else f for f in fates]
        if output == "table":
            print(f"sent {len(ready)} again; what can still not be used comes back as a new letter")
    if output == "json":
        show_json([_row(fate) for fate in fates])
    return 1 if any(fate.state == "refused" for fate in fates) else 0


def asked(places: Sequence[str], everything: bool, chosen: Choice) -> Choice:
    """Which letters are meant; raises `BadInput` where that is not clear."""
    if places and (everything or chosen != Choice()):
        raise BadInput("give places, or --all, or --since, --pool and --reason: not both")
    if not (places or everything or chosen != Choice()):
        raise BadInput("which ones? Give places, --since, --pool or --reason; or --all")
    return Choice(frozenset(map(read_place, places))) if places else chosen


async def _planned(settings: Settings, choice: Choice, include_settings: bool) -> list[Fate]:
    topics = Topics(settings.topic_prefix)
    async with open_log(settings.need_brokers()) as log:
        terms = Terms(topics, len(await log.partitions(topics.usage)), include_settings)
        letters = await read_letters(log, topics, choice)
    missing = choice.places - {letter.place for letter in letters}
    if missing:
        names = ", ".join(sorted(map(str, missing)))
        raise BadInput(f"{names}: no dead letter; `tokenweir dead-letters list`")
    now_ms = int(time.time() * 1000)
    return [planned(letter, terms, now_ms) for letter in letters]


def planned(letter: Letter, terms: Terms, now_ms: int) -> Fate:
    """What would become of a letter."""
    if letter.resent:
        return Fate(letter, "before", letter.resent)
    try:
        sends = again(letter.letter, terms, now_ms)
    except BadRecord as error:
        return Fate(letter, "refused", str(error))
    return Fate(letter, "planned", sends.how, sends)


def _agreed(yes: bool, count: int, output: str) -> bool:
    if yes:
        return True
    if output == "json" or not sys.stdin.isatty():
        raise BadInput("nobody can be asked here: give --yes to send, or --dry-run to look")
    if click.confirm(f"\nSend {count} again?", default=False):
        return True
    raise BadInput("not sent")


async def _send(settings: Settings, ready: Sequence[Fate], include_settings: bool) -> None:
    topics = Topics(settings.topic_prefix)
    async with open_log(settings.need_brokers()) as log:
        terms = Terms(topics, len(await log.partitions(topics.usage)), include_settings)
    async with open_sender(settings.need_brokers()) as sender:
        with _progress(len(ready)) as done:
            for start in range(0, len(ready), A_SECOND):
                began_s = time.monotonic()
                part = ready[start : start + A_SECOND]
                await asyncio.gather(*(_send_one(sender, fate.letter, terms) for fate in part))
                done(len(part))
                if start + A_SECOND < len(ready):
                    await asyncio.sleep(max(1 - (time.monotonic() - began_s), 0))


async def _send_one(sender: Sender, letter: Letter, terms: Terms) -> None:
    """The record, then the note: where a crash leaves one without, the second is a repeat."""
    # Made again: ages are of this moment, and somebody may have taken a while to agree.
    sends = again(letter.letter, terms, int(time.time() * 1000))
    sent = await sender.send(TopicPartition(sends.topic, sends.partition), sends.key, sends.value)
    how = f"{sends.how}: {sends.topic}/{sends.partition}/{sent.offset}"
    note_home = TopicPartition(terms.topics.dead_letter, letter.home)
    await sender.send(note_home, letter.letter.key, wire.encode(note_of(letter.letter, how)))


@contextmanager
def _progress(count: int) -> Iterator[Callable[[int], None]]:
    """A bar on the terminal where there are more than a few."""
    console = Console(stderr=True)
    with Progress(console=console, disable=count <= FEW or not console.is_terminal) as progress:
        task = progress.add_task("sending", total=count)
        yield lambda more: progress.advance(task, more)


def _tell(fates: Sequence[Fate]) -> None:
    if not fates:
        note("no such dead letters")
        return
    show_table(COLUMNS, [[str(f.letter.place), f"{WORDS[f.state]}{f.why}"] for f in fates[:SHOWN]])
    if len(fates) > SHOWN:
        counts = Counter(fate.state for fate in fates)
        told = ", ".join(f"{counts[state]} {name}" for state, name in NAMES.items())
        note(f"and {len(fates) - SHOWN} more (--output json has all): {told}")


def _row(fate: Fate) -> Row:
    return {
        "place": str(fate.letter.place),
        "state": fate.state,
        "why": fate.why,
        "topic": fate.sends.topic if fate.sends else None,
        "partition": fate.sends.partition if fate.sends else None,
    }
