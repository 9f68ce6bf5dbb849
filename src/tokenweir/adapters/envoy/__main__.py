"""`python -m tokenweir.adapters.envoy --brokers localhost:9092 --pool chat`: beside an Envoy."""

import argparse
import asyncio
import json
import logging
import signal
import socket
from collections.abc import Sequence
from pathlib import Path

from tokenweir.adapters.envoy.degrade import Degrade
from tokenweir.adapters.envoy.descriptors import Defaults
from tokenweir.adapters.envoy.service import DRAIN_S, EnvoyService
from tokenweir.gateway import Gateway
from tokenweir.gateway.ladder_file import read_ladder


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    asyncio.run(serve(options))


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m tokenweir.adapters.envoy",
        description="Envoy's rate limit service and external processor, for the Envoy beside it.",
    )
    made.add_argument("--brokers", required=True, help="Kafka, as host:port,host:port")
    made.add_argument("--pool", required=True, action="append", help="a pool; may be repeated")
    made.add_argument("--name", default=_host(), help="this gateway's name (default: the host's)")
    made.add_argument("--prefix", default="", help="put before the topics' names")
    made.add_argument("--host", default="127.0.0.1", help="where to listen (default: %(default)s)")
    made.add_argument("--port", type=int, default=8081, help="default: %(default)s; 0: any")
    made.add_argument(
        "--estimate",
        type=int,
        default=Defaults().estimate,
        help="charged tokens of a request that does not say (default: %(default)s)",
    )
    made.add_argument(
        "--tenant",
        default=Defaults().tenant,
        help="whose the requests are that do not say (default: %(default)s)",
    )
    made.add_argument("--spool", type=Path, help="a folder that keeps what is not reported yet")
    made.add_argument(
        "--ladder", type=Path, help="a degrade ladder as JSON: model, max_tokens and batch"
    )
    made.add_argument("--tenant-header", default="x-tenant", help="for the ladder (%(default)s)")
    made.add_argument("--user-header", default="x-user", help="for the ladder (%(default)s)")
    made.add_argument(
        "--drain-s",
        type=float,
        default=DRAIN_S,
        help="how long running answers are metered at the end (default: %(default)s)",
    )
    return made


async def serve(options: argparse.Namespace) -> None:
    """Serve until SIGTERM or SIGINT, then let what runs end."""
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    gateway = Gateway(
        brokers=options.brokers,
        name=options.name,
        pools=options.pool,
        prefix=options.prefix,
        spool_path=options.spool,
    )
    service = EnvoyService(
        gateway,
        defaults=Defaults(options.estimate, options.tenant),
        degrade=_degrade(gateway, options),
    )
    async with gateway:
        port = await service.start(f"{options.host}:{options.port}")
        logging.info("gateway %s serves Envoy on %s:%d", gateway.id, options.host, port)
        await stopped.wait()
        logging.info("stopping; answers that run have %g s", options.drain_s)
        await service.stop(options.drain_s)


def _degrade(gateway: Gateway, options: argparse.Namespace) -> Degrade | None:
    if options.ladder is None:
        return None
    ladder = read_ladder(json.loads(options.ladder.read_text()))
    headers = (options.tenant_header.lower(), options.user_header.lower())
    return Degrade(gateway, options.pool[0], ladder, *headers)


def _host() -> str:
    return socket.gethostname()[:100]


if __name__ == "__main__":
    main()
