"""A report as one HTML file that asks nobody for anything: no script, no font, no link outward.

All that is not in the templates is text, and is escaped; what no reader could see is spelled out.
"""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from tokenweir.review.frames import Frame
from tokenweir.review.plots import Curve, draw


@dataclass(frozen=True, slots=True)
class Plot:
    """One picture with its legend; `words` are for who cannot see it."""

    id: str
    title: str
    caption: str
    words: str
    image: str  # a data: address
    lines: Sequence[Curve]
    wide: bool


def plot(
    id_: str,
    title: str,
    caption: str,
    unit: str,
    panels: Sequence[tuple[Sequence[Frame], Sequence[Curve]]],
    words: str = "",
) -> Plot:
    """Draw panels side by side; their curves have the same names."""
    encoded = b64encode(draw(panels, unit).encode()).decode()
    names = ", ".join(line.label for line in panels[0][1])
    return Plot(
        id=id_,
        title=title,
        caption=caption,
        words=words or f"{title} over time, in {unit}: {names}.",
        image=f"data:image/svg+xml;base64,{encoded}",
        lines=panels[0][1],
        wide=len(panels) > 1,
    )


def printable(value: Any) -> Any:
    """Text with what does not show spelled out: a line break is \\n, a direction mark \\u202e."""
    if type(value) is not str:
        return value
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in value)


def page(template: str, **values: Any) -> str:
    """The page; every value that the template names must be there."""
    return _PAGES.get_template(template).render(values)


_PAGES = Environment(
    loader=PackageLoader("tokenweir.review"),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=printable,
    trim_blocks=True,
    lstrip_blocks=True,
)
