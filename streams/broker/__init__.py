"""A broker of our own: one real Apache Kafka on loopback, without Docker or installed Java."""

from streams.broker.errors import BrokerError, JarsMissingError, LockError
from streams.broker.server import Broker
from streams.broker.settings import Door

__all__ = ["Broker", "BrokerError", "Door", "JarsMissingError", "LockError"]
