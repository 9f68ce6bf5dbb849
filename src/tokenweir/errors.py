"""Every error that a caller may want to catch, grouped by what to do about it."""


class TokenweirError(Exception):
    """The base of all errors of this package."""


class BadRecord(TokenweirError):
    """A record that cannot be used: it belongs in the dead-letter topic, with this reason."""


class UnknownSchema(BadRecord):
    """The record's schema is not one that this version knows: upgrade the reader."""

    def __init__(self, fingerprint: bytes) -> None:
        self.fingerprint = fingerprint
        super().__init__(f"unknown schema {fingerprint.hex()}")


class BadInput(TokenweirError):
    """Somebody's input is wrong: the message names the field, the value and what is allowed."""


class Unavailable(TokenweirError):
    """A part that is needed does not answer: the message says which and what to start."""
