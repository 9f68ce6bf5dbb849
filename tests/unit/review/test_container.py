"""An incident in a file: replayable as it is, and without anybody's name."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastavro import reader

from tests.recordings import Recording, block, messages, recorded, run
from tokenweir.errors import BadInput
from tokenweir.records.journal import JournalEntry
from tokenweir.records.usage import UsageReport
from tokenweir.review.container import SCHEMAS, FileLog
from tokenweir.review.export import export
from tokenweir.review.replay import replay
from tokenweir.review.span import Span
from tokenweir.review.users import numbers, renamed
from tokenweir.wire import decode, decode_as, encode, schema_fingerprint

SECRET = bytes(32)


@pytest.fixture(scope="module")
def made() -> Recording:
    return recorded(messages(run(3, 70)))


def middle(made: Recording) -> Span:
    at_ms = decode_as(JournalEntry, made.entries[len(made.entries) // 2].value).at_ms
    return Span(from_ms=at_ms, to_ms=at_ms + 15_000)


def reports(values: Iterator[bytes | None]) -> Iterator[UsageReport]:
    for value in values:
        if value is not None and isinstance(decoded := decode(value), UsageReport):
            yield decoded


async def in_file(path: Path) -> list[UsageReport]:
    return list(reports(iter([m.value async for m in FileLog(path).messages(0)])))


@pytest.mark.parametrize("secret", [SECRET, None])
@pytest.mark.parametrize("whole", [True, False])
async def test_an_exported_range_replays_the_same(
    made: Recording, tmp_path: Path, secret: bytes | None, whole: bool
) -> None:
    path = tmp_path / "incident.avro"
    span = Span() if whole else middle(made)
    incident = await export(made, span, path, secret)
    outcome = await replay(FileLog(path), Span())
    assert outcome.is_identical
    assert outcome.start.is_blank == whole
    assert outcome.messages == incident.messages
    if whole:
        assert outcome.same == (await replay(made, Span())).same
    inside = await replay(FileLog(path), span)
    assert inside.same == (await replay(made, span)).same
    assert inside.same.decisions > 0


async def test_no_users_name_and_no_requests_id_is_left(made: Recording, tmp_path: Path) -> None:
    path = tmp_path / "incident.avro"
    await export(made, Span(), path, SECRET)
    with path.open("rb") as file:
        rows: Any = list(reader(file))
    values = [row["value"] or b"" for row in rows]
    for name in (b"ann", b"eve", b"max", b"req-"):
        assert not any(name in value for value in values)
    assert any(b"gold" in value for value in values)
    assert any(b"iron/u000" in value for value in values)  # an audit of a user's quota


async def test_users_become_numbers_in_their_order_and_rows_stay_theirs(
    made: Recording, tmp_path: Path
) -> None:
    path = tmp_path / "incident.avro"
    await export(made, Span(), path, SECRET)
    assert numbers(["max", "ann", "", "*"]) == {"ann": "u0001", "max": "u0002"}
    assert numbers(["b", "#a"]) == {"#a": "!u0001", "b": "u0002"}
    readable = (m.value for m in made.log if m.value and m.value[2:10] != bytes(8))
    before, after = list(reports(readable)), await in_file(path)
    assert len(before) == len(after)
    number = numbers({old.totals.names[user] for old in before for user in old.totals.user})
    for old, new in zip(before, after, strict=True):
        for tenant, user, new_tenant, new_user in zip(
            old.totals.tenant, old.totals.user, new.totals.tenant, new.totals.user, strict=True
        ):
            assert new.totals.names[new_tenant] == old.totals.names[tenant]
            assert new.totals.names[new_user] == number[old.totals.names[user]]


async def test_kept_users_keep_every_byte(made: Recording, tmp_path: Path) -> None:
    path = tmp_path / "incident.avro"
    await export(made, Span(), path, None)
    assert [m async for m in FileLog(path).messages(0)] == made.log
    assert [e async for e in FileLog(path).journal(0)] == made.entries
    assert await FileLog(path).letters() == made.dead


async def test_the_schemas_are_inside(made: Recording, tmp_path: Path) -> None:
    path = tmp_path / "incident.avro"
    await export(made, Span(), path, None)
    with path.open("rb") as file:
        inside = json.loads(reader(file).metadata[SCHEMAS])
    known = {schema_fingerprint(schema) for schema in inside}
    used = {m.value[2:10] for m in made.log if m.value} - {bytes(8)}
    assert used <= known


def test_rows_of_one_request_still_share_its_id() -> None:
    one, two = block(["gold"], ["ann"], 1), block(["gold"], ["eve"], 1)
    new = [renamed(each, str.upper, lambda id_: id_[::-1]) for each in (one, two)]
    assert [each.id for each in new] == [["0-1-qer"], ["0-1-qer"]]
    assert [each.names for each in new] == [["", "gold", "m1", "ANN"], ["", "gold", "m1", "EVE"]]


def test_a_user_that_is_called_like_a_tenant_is_renamed_alone() -> None:
    one = block(["gold"], ["gold"], 1)
    shared = replace(one, names=["", "gold", "m1"], user=[1])
    new = renamed(shared, lambda name: "u0001" if name else "", str)
    assert new.names[new.tenant[0]] == "gold"
    assert new.names[new.user[0]] == "u0001"
    assert new.names[0] == ""


def test_a_file_of_another_kind_is_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    with pytest.raises(BadInput, match="name a file of `tokenweir export`"):
        FileLog(path)
    path.write_text("hello")
    with pytest.raises(BadInput, match="not a file of `tokenweir export`"):
        FileLog(path)
    path.write_bytes(encode(block([], [], 1)))
    with pytest.raises(BadInput, match="not a file of `tokenweir export`"):
        FileLog(path)
