"""The command line as a process beside a test that goes on."""

import asyncio
import json
import os
import sys
from dataclasses import dataclass
from typing import Any

from tests.broker.deployment import Deployment

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


async def command(deployment: Deployment, *arguments: str, deadline_s: float = 60) -> Done:
    """Run `tokenweir` on a deployment's topics to its end."""
    environ = {
        "PATH": os.environ["PATH"],
        "TOKENWEIR_BROKERS": deployment.brokers,
        "TOKENWEIR_TOPIC_PREFIX": deployment.config.topic_prefix,
    }
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(
        *COMMAND, *arguments, env=environ, stdout=pipe, stderr=pipe
    )
    try:
        out, err = await asyncio.wait_for(child.communicate(), deadline_s)
    except TimeoutError:
        child.kill()
        raise
    assert b"Traceback" not in err, err.decode()
    return Done(child.returncode or 0, out.decode(), err.decode())
