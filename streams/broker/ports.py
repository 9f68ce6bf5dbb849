"""Ports on loopback that our broker may take."""

import random
import socket

from streams.broker.errors import BrokerError
from streams.broker.settings import Door, Ports

# Below what systems give to outgoing connections (from 32 768 on Linux, 49 152 on macOS). Above it,
# a client that tries to reach a broker which is down may be given the broker's own port, connect
# to itself, and keep the broker from coming back.
FREE_PORTS = range(20_000, 32_000)
TRIES = 200


def is_free(port: int) -> bool:
    """Tell whether nothing listens on the port; a connection's remains do not count."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port(taken: int | None = None) -> int:
    """Return a free port at random, not `taken`; raises `BrokerError` if none is found."""
    for port in random.sample(FREE_PORTS, TRIES):
        if port != taken and is_free(port):
            return port
    raise BrokerError(f"No free port on 127.0.0.1 among {TRIES} of {FREE_PORTS}: name one")


def choose(asked: int | None, doors: tuple[Door, ...] = ()) -> Ports:
    """Return the broker's ports: the one asked for, or a free one, and a free one beside it.

    Raises `BrokerError` if the port asked for is taken.
    """
    if asked is not None and not is_free(asked):
        raise BrokerError(
            f"Port {asked} on 127.0.0.1 is taken by another process: end it, name another port, "
            "or name none and get a free one"
        )
    client = asked or free_port()
    return Ports(client, free_port(taken=client), doors)
