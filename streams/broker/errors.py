"""What can go wrong with a broker of our own; every message says what to do."""


class BrokerError(RuntimeError):
    """The broker cannot be started, or did not become ready."""


class LockError(BrokerError):
    """A lock file is missing or cannot be read."""


class JarsMissingError(BrokerError):
    """Not every jar is in the cache, and the missing ones cannot be downloaded."""
