"""Names in a spec: which may be used, and why not others."""

import re
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema


@dataclass(frozen=True, slots=True)
class Name:
    """A kind of name, and a sentence that says what it may be.

    As metadata of an `Annotated[str, …]` it makes pydantic read that field with it.
    """

    allowed: str
    pattern: re.Pattern[str]

    def read(self, value: object) -> str:
        """`value`, if it is such a name; raises `ValueError` with `allowed`."""
        if not isinstance(value, str) or not self.pattern.fullmatch(value):
            raise ValueError(self.allowed)
        return value

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """A field of this kind is read by `read` alone."""
        return core_schema.no_info_plain_validator_function(self.read)


# The keys of the control topic are pool/gateway/part, and a decision's id is pool@ms.
POOL = Name(
    "letters, digits and . _ : - , at most 128, the first a letter or digit",
    re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}"),
)
# "*" counts the tenants that no spec knows.
TENANT = Name(
    "1 to 256 printable characters, no space at either end, and not *",
    re.compile(r"(?!\*$)[^\s\x00-\x1f\x7f](?:[^\x00-\x1f\x7f]{0,254}[^\s\x00-\x1f\x7f])?"),
)
TEXT = Name("text (a number or true needs quotes)", re.compile(r".*", re.DOTALL))
