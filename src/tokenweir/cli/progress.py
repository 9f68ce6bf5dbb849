"""How far a review is, how fast, and how long it still takes: on a terminal, on standard error."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from tokenweir.cli import figures
from tokenweir.review import replay

OFTEN_S = 0.1


class Rate(ProgressColumn):
    """Records of the log a second."""

    def render(self, task: Task) -> Text:
        """As the other commands show a count."""
        return Text("" if task.speed is None else f"{figures.count(int(task.speed))} records/s")


@contextmanager
def progress(what: str) -> Iterator[replay.Told]:
    """What a review tells its progress to; it is shown as long as the context lasts."""
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        Rate(),
        TimeRemainingColumn(),
    )
    shown = Progress(*columns, console=console, disable=not console.is_terminal, transient=True)
    with shown:
        yield _teller(shown, what)


def _teller(shown: Progress, what: str) -> replay.Told:
    task, again_s = shown.add_task(what, total=None), 0.0

    def told(now: replay.Progress) -> None:
        nonlocal again_s
        if time.monotonic() >= again_s:
            again_s = time.monotonic() + OFTEN_S
            total, done = now.ends_at - now.begins_at, now.offset + 1 - now.begins_at
            shown.update(task, total=total, completed=done)

    return told
