"""The command line beside a test that goes on: in a thread, or as a process that may be ended."""

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from click.testing import CliRunner

from tests.broker.deployment import DEADLINE_S, Deployment
from tokenweir.cli.commands import tokenweir
from tokenweir.errors import TokenweirError

COMMAND = (sys.executable, "-c", "from tokenweir.cli import main; main()")


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What `--output json` printed."""
        return json.loads(self.out)


async def command(deployment: Deployment, *arguments: str) -> Done:
    """Run `tokenweir` on a deployment's topics to its end, which it must have; one at a time."""
    return await asyncio.to_thread(_invoked, arguments, _environ(deployment))


async def process(deployment: Deployment, *arguments: str, deadline_s: float = DEADLINE_S) -> Done:
    """The same as a process, which is killed at the deadline."""
    environ = {"PATH": os.environ["PATH"], **_environ(deployment)}
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(
        *COMMAND, *arguments, env=environ, stdout=pipe, stderr=pipe
    )
    try:
        out, err = await asyncio.wait_for(child.communicate(), deadline_s)
    except TimeoutError:
        child.kill()
        raise
    return Done(child.returncode or 0, out.decode(), err.decode())


def _environ(deployment: Deployment) -> dict[str, str]:
    return {
        "TOKENWEIR_BROKERS": deployment.brokers,
        "TOKENWEIR_TOPIC_PREFIX": deployment.config.topic_prefix,
    }


def _invoked(arguments: tuple[str, ...], environ: Mapping[str, str]) -> Done:
    """As `tokenweir.cli.main` does it."""
    found = CliRunner().invoke(tokenweir, arguments, env=environ, standalone_mode=False)
    if isinstance(found.exception, TokenweirError):
        return Done(1, found.stdout, f"{found.stderr}{found.exception}\n")
    if found.exception is not None:
        raise found.exception
    return Done(found.return_value or 0, found.stdout, found.stderr)
