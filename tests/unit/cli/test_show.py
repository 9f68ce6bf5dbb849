"""Tables fit, JSON is exact."""

import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from tokenweir.cli.show import Column, show_json, show_table


def test_in_a_pipe_no_column_is_left_out_and_no_value_cut(
    capsys: pytest.CaptureFixture[str],
) -> None:
    columns = [Column("NAME"), *(Column(f"FIELD {at}", right=True, drop=at) for at in range(1, 20))]
    row = ["a" * 150, *("1234567" for _ in range(1, 20))]
    show_table(columns, [row])
    head, line = capsys.readouterr().out.splitlines()
    assert head.split()[-1] == "19"
    assert line.split() == row


def test_brackets_in_a_name_are_shown_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    show_table([Column("NAME")], [["[red]a[/red]"]])
    assert "[red]a[/red]" in capsys.readouterr().out


def test_a_terminal_obeys_nothing_that_a_name_says(capsys: pytest.CaptureFixture[str]) -> None:
    show_table([Column("NAME")], [["a\nb\x1b[2J"]])
    assert capsys.readouterr().out.split() == ["NAME", r"a\nb\x1b[2J"]


def test_json_keeps_numbers_exact(capsys: pytest.CaptureFixture[str]) -> None:
    price, time = Decimal("0.184918125000"), datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    show_json([{"n": 2**63 - 1, "price": price, "at": time, "name": "α"}])
    text = capsys.readouterr().out
    assert json.loads(text) == [
        {
            "n": 2**63 - 1,
            "price": "0.184918125000",
            "at": "2026-01-02T03:04:05+00:00",
            "name": "α",
        }
    ]
