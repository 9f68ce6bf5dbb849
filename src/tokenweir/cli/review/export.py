"""`tokenweir export`: a part of a pool's log as one file."""

import asyncio
import secrets
from dataclasses import asdict
from pathlib import Path

from tokenweir.cli import figures
from tokenweir.cli.progress import progress
from tokenweir.cli.review.log import read_span, review_log
from tokenweir.cli.settings import Settings
from tokenweir.cli.show import show_json
from tokenweir.errors import BadInput
from tokenweir.review.container import Incident
from tokenweir.review.export import export
from tokenweir.review.span import Span


def run(
    settings: Settings,
    path: Path,
    pool: str,
    since: str | None,
    until: str | None,
    from_offset: int | None,
    to_offset: int | None,
    keep_users: bool,
    force: bool,
    output: str,
) -> None:
    """Write the file, and say what is in it; raises `BadInput` when there is one already."""
    if path.exists() and not force:
        raise BadInput(f"{path} is there already: name another file, or say --force")
    span = read_span(since, until, from_offset, to_offset)
    incident = asyncio.run(_export(settings, pool, span, path, keep_users))
    if output == "json":
        show_json({"file": str(path), "bytes": path.stat().st_size, **asdict(incident)})
    else:
        print(words_of(incident, path))


async def _export(
    settings: Settings, pool: str, span: Span, path: Path, keep_users: bool
) -> Incident:
    secret = None if keep_users else secrets.token_bytes(32)
    part = path.with_name(f"{path.name}.part")
    try:
        async with review_log(settings, pool, None) as log:
            with progress(f"export of {pool}") as told:
                incident = await export(log, span, part, secret, told)
        part.replace(path)
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)
    return incident


def words_of(incident: Incident, path: Path) -> str:
    """What was written, in a line."""
    users = "users as they are" if incident.users == "kept" else "users as numbers"
    return (
        f"{path}: pool {incident.pool}, {incident.messages} messages from offset {incident.first} "
        f"to before {incident.end}, {users}, {figures.size(path.stat().st_size)}"
    )
