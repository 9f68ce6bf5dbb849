"""The live view: a frame as rich text, and as one plain line where there is no terminal."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from streams.demo.frame import Frame, TenantRow
from streams.demo.words import TIERS, sentence
from tokenweir.records.control import ControlDecision

BAR_WIDTH = 54  # characters for 0 to 120 % of the budget; the line fits 80
BAR_END = 1.2
MARKS = (0.7, 0.9, 1.0)  # soft, hard, break: where a spec leaves them at their defaults
TIER_COLOUR = {
    "normal": "green",
    "soft_degrade": "yellow",
    "hard_degrade": "dark_orange",
    "circuit_break": "red",
}


def render(frame: Frame) -> RenderableType:
    """The whole picture."""
    parts: list[RenderableType] = [_head(frame)]
    if frame.entry is not None:
        parts += [_level(frame.entry.decision), _tenants(frame.rows())]
    return Group(*parts, Text(sentence(frame), style="bold"), Text())


def line(frame: Frame) -> str:
    """The picture in one line."""
    if frame.entry is None:
        return f"{frame.phase}: {sentence(frame)}"
    decision = frame.entry.decision
    tenants = ", ".join(_brief(row) for row in frame.rows())
    return (
        f"{_left(frame)} level {decision.level / 1e6:.0%} +{decision.lent / 1e6:.0%} lent,"
        f" {decision.tier}, α {decision.alpha / 1e6:.2f} | {tenants} | {sentence(frame)}"
    )


def _brief(row: TenantRow) -> str:
    refused = f", {row.refused} refused" if row.refused else ""
    return f"{row.tenant} {row.used:,}/{row.grant:,}{refused}"


def _head(frame: Frame) -> Text:
    text = Text(f"{frame.pool}  ", style="bold")
    text.append(frame.phase, style="not bold")
    return text.append(f"  {_left(frame)}", style="dim not bold")


def _left(frame: Frame) -> str:
    return "until Ctrl-C" if frame.left_s is None else f"{max(frame.left_s, 0):3.0f} s left"


def _level(decision: ControlDecision) -> RenderableType:
    level, lent = decision.level / 1e6, decision.lent / 1e6
    text = Text("level ").append_text(_bar(level, lent, TIER_COLOUR[decision.tier]))
    text.append(f" {level:.0%}", style=f"bold {TIER_COLOUR[decision.tier]}")
    text.append(f" and {lent:.0%} lent", style="dim")
    below = Text(f"tier  {TIERS[decision.tier]}", style=TIER_COLOUR[decision.tier])
    below.append(
        f"   α {decision.alpha / 1e6:.2f}   capacity {decision.capacity // 1000:,} tokens/s"
        f"   granted {decision.granted // 1000:,}",
        style="dim",
    )
    return Group(text, below)


def _bar(level: float, lent: float, colour: str) -> Text:
    """Firm use solid, lent use light behind it, the thresholds as marks."""
    firm, top = _cell(level), _cell(level + lent)
    marks = {_cell(mark) for mark in MARKS}
    bar = Text()
    for cell in range(BAR_WIDTH):
        if cell < firm:
            bar.append("█", style=colour)
        elif cell < top:
            bar.append("▒", style="cyan")
        else:
            bar.append("│" if cell in marks else "·", style="dim")
    return bar


def _cell(level: float) -> int:
    return min(round(level / BAR_END * BAR_WIDTH), BAR_WIDTH)


def _tenants(rows: list[TenantRow]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column("tenant")
    table.add_column("class")
    columns = ("baseline", "demand", "grant", "used", "debt", "waiting", "refused")
    for name in columns:
        table.add_column(name, justify="right", min_width=7)
    for row in rows:
        table.add_row(*_cells(row))
    return table


def _cells(row: TenantRow) -> tuple[RenderableType, ...]:
    short = row.grant < row.demand
    return (
        Text(row.tenant, style="bold" if row.baseline else ""),
        Text(row.service_class, style="dim"),
        f"{row.baseline:,}" if row.baseline else "-",
        f"{row.demand:,}",
        Text(f"{row.grant:,}", style="yellow" if short else "green"),
        f"{row.used:,}",
        f"{row.debt:.2f}" if row.service_class == "elastic" else "-",
        f"{row.queued:,}" if row.queued else "-",
        Text(f"{row.refused:,}", style="red" if row.held_back else "") if row.refused else "-",
    )
