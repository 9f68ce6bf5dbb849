from io import StringIO

from rich.console import Console

from streams.demo.frame import Frame
from streams.demo.view import line, render
from streams.demo.words import sentence
from streams.demo.workload import PHASES
from tests.unit.demo.entries import Tenant, entry

ASSISTANT = Tenant("assistant", "guaranteed", baseline=48_000, demand=30_000, grant=40_000)
EVALS = Tenant("evals", "spot", demand=70_000, grant=18_000, refused=9)
COPILOT = Tenant("copilot", "elastic", baseline=12_000, demand=11_000, grant=12_000)


def picture(frame: Frame, width: int = 100) -> str:
    console = Console(width=width, record=True, file=StringIO())
    console.print(render(frame))
    return console.export_text()


def test_the_sentence_says_who_is_held_back_and_who_is_kept_whole() -> None:
    frame = Frame(entry(EVALS, ASSISTANT, COPILOT))

    assert sentence(frame) == (
        "evals is held back: spot takes what others leave, now 18,000 of 70,000;"
        " assistant keeps its baseline of 48,000"
    )


def test_a_tenant_above_its_baseline_hears_so() -> None:
    greedy = Tenant("copilot", "elastic", baseline=12_000, demand=50_000, grant=20_000, refused=1)

    words = "it is granted 20,000 of 50,000, above its baseline of 12,000"
    assert words in sentence(Frame(entry(greedy)))


def test_a_limited_class_hears_in_which_tier() -> None:
    limited = entry(EVALS, tier="soft_degrade", action="limit")

    assert "spot is limited in soft degrade, now 18,000 of 70,000" in sentence(Frame(limited))


def test_a_burst_within_the_grant_is_called_one() -> None:
    bursty = Tenant("copilot", "elastic", baseline=12_000, demand=9_000, grant=20_000, refused=1)

    assert "its burst was faster than its lease" in sentence(Frame(entry(bursty)))


def test_who_has_all_that_it_asks_for_hears_nothing_of_a_share() -> None:
    """What was refused came too fast for the leases of before, at a spot tenant too."""
    spot = Tenant("evals", "spot", demand=1_344, grant=1_449, refused=1)
    above = Tenant("copilot", "elastic", baseline=12_000, demand=20_000, grant=20_000, refused=1)

    burst = "its burst was faster than its lease could grow"
    assert sentence(Frame(entry(spot, above))) == (
        f"copilot is held back: {burst}; evals is held back: {burst}"
    )


def test_nothing_is_said_about_a_quiet_pool() -> None:
    assert sentence(Frame(entry(COPILOT))) == "nobody is held back"
    assert sentence(Frame(None)) == "waiting for the first decision"


def test_the_picture_shows_level_tier_alpha_and_every_tenants_figures() -> None:
    frame = Frame(
        entry(EVALS, ASSISTANT, COPILOT, tier="soft_degrade", level=0.73),
        refused={"evals": 123},
        phase="rush hour",
        left_s=31.4,
        pool="chat",
    )

    text = picture(frame)

    for shown in ("chat", "rush hour", "31 s left", "73%", "25% lent", "soft degrade", "α 0.80"):
        assert shown in text
    row = next(line for line in text.splitlines() if line.startswith("evals"))
    assert row.split() == ["evals", "spot", "-", "70,000", "18,000", "18,000", "-", "-", "123"]


def test_level_and_tenants_have_a_line_each_on_a_narrow_terminal() -> None:
    frame = Frame(
        entry(EVALS, ASSISTANT, COPILOT, tier="circuit_break", level=1.0),
        phase=max((phase.title for phase in PHASES), key=len),
        left_s=100,
        pool="chat-261130-035036",
    )

    lines = picture(frame, width=80).splitlines()

    assert lines[0].endswith("100 s left")
    assert lines[1].endswith(" 100% and 25% lent")
    assert lines[3].split()[-1] == "refused"
    assert [line.split()[0] for line in lines[4:7]] == ["assistant", "copilot", "evals"]


def test_the_highest_class_stands_first() -> None:
    rows = Frame(entry(EVALS, COPILOT, ASSISTANT)).rows()

    assert [row.tenant for row in rows] == ["assistant", "copilot", "evals"]


def test_without_a_terminal_a_frame_is_one_line() -> None:
    text = line(Frame(entry(EVALS, ASSISTANT), refused={"evals": 9}, left_s=None))

    assert "\n" not in text
    assert "until Ctrl-C level 50% +25% lent, normal, α 0.80" in text
    assert "evals 18,000/18,000, 9 refused" in text


def test_a_level_beyond_the_bar_fills_it_and_no_more() -> None:
    assert "250%" in picture(Frame(entry(ASSISTANT, level=2.5)))
