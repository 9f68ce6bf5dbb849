"""Options whose values are quantities with units, read as in a spec."""

from tokenweir.errors import BadInput
from tokenweir.spec.quantity import Quantity


def read_option(name: str, quantity: Quantity, text: str | None) -> int | None:
    """The stored integer, None where the option was not given; raises `BadInput` that names it."""
    if text is None:
        return None
    try:
        return quantity.read(text)
    except ValueError as error:
        raise BadInput(f"{name}: value {text!r}: {error}") from error
