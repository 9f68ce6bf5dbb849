"""Lets the callback send its last report when a LiteLLM worker ends."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

LOG = logging.getLogger(__name__)


def before_shutdown(close: Callable[[], Awaitable[None]]) -> None:
    """Have `close` awaited when the proxy shuts down, while its event loop still runs.

    LiteLLM 1.108 has no hook for it, so its own shutdown function is wrapped. Without that, the
    usage of the last half interval is lost unless there is a spool on disk.
    """
    from litellm.proxy import proxy_server  # here: it imports the callback itself

    theirs = getattr(proxy_server, "proxy_shutdown_event", None)
    if theirs is None:
        LOG.warning("this LiteLLM has no proxy_shutdown_event: set spool_path to lose no usage")
        return

    async def ours(*args: Any, **kwargs: Any) -> None:
        await close()
        await theirs(*args, **kwargs)

    proxy_server.proxy_shutdown_event = ours
