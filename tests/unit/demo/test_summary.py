from io import StringIO

from rich.console import Console

from streams.demo.summary import TenantTotals, agree, as_tallies, summary_json, summary_table
from streams.demo.tally import Tally, together


def tally(admitted: int, refused: int = 0) -> Tally:
    found = Tally()
    for _ in range(admitted):
        found.spend(100, 20, 7)
    for _ in range(refused):
        found.refuse("tokens")
    return found


def test_tallies_of_gateways_add_up() -> None:
    sums = together([{"a": tally(1), "b": tally(2, 1)}, {"b": tally(3, 4)}])

    assert sums["a"].counts() == (1, 0, 120, 20, 7)
    assert sums["b"].counts() == (5, 5, 600, 100, 35)
    assert sums["b"].reasons == {"tokens": 5}


def test_a_tally_survives_the_way_between_processes() -> None:
    assert Tally.from_json(tally(2, 3).to_json()) == tally(2, 3)


def test_history_and_load_agree_only_when_every_count_is_the_same() -> None:
    load = {"a": tally(2, 1)}

    assert agree(as_tallies([TenantTotals("a", 2, 1, 240, 40, 14)]), load)
    assert not agree(as_tallies([TenantTotals("a", 2, 1, 240, 40, 15)]), load)
    assert not agree({}, load)
    assert not agree({**load, "stranger": tally(1)}, load)


def test_the_table_says_where_history_and_load_differ() -> None:
    console = Console(width=120, record=True, file=StringIO())

    console.print(summary_table({"a": tally(1)}, {"a": tally(2, 1)}))

    text = console.export_text()
    assert "1 (load: 2)" in text
    assert "0 (load: 1)" in text
    assert "tokens 1" in text


def test_the_json_summary_has_both_sides() -> None:
    plain = summary_json("chat-1", {"a": tally(1)}, {"a": tally(1)})

    assert plain["equal"] is True
    assert plain["clickhouse"]["a"] == {
        "admitted": 1,
        "refused": 0,
        "input": 120,
        "cached": 20,
        "output": 7,
    }
    assert plain["load"]["a"]["admitted"] == 1
