"""Money: decimal, exact, never a float."""

from decimal import Decimal, InvalidOperation
from fractions import Fraction

from tokenweir.errors import BadInput

PLACES = 18  # behind the point: a price of 1.3e-10 a token is stored exactly
MONEY = f"Decimal(38, {PLACES})"  # the column type of every amount and price


def money(amount: str | int | Decimal) -> Decimal:
    """The exact amount; raises `BadInput` for a float, and for what the column would round."""
    if isinstance(amount, (bool, float)):
        raise BadInput(f"money {amount!r} is a float: give text, a whole number or a Decimal")
    try:
        exact = Decimal(amount)
    except InvalidOperation as error:
        raise BadInput(f"money {amount!r}: a decimal number such as 0.625 is allowed") from error
    if not exact.is_finite():
        raise BadInput(f"money {amount!r}: a finite number is allowed")
    stored = Fraction(exact) * 10**PLACES
    if stored.denominator != 1 or abs(stored) >= 10**38:
        raise BadInput(
            f"money {amount!r}: {PLACES} places and {38 - PLACES} digits before them are allowed"
        )
    return exact
