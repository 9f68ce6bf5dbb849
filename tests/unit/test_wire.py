"""The wire: fingerprints, old and unknown writers, bytes that are no record, and the schemas."""

import json
import tracemalloc
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
from fastavro import schemaless_writer
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.corpus.samples import RECORDS, samples
from tests.unit.corpus.write import HERE, plain, write_missing
from tokenweir import wire
from tokenweir.errors import BadRecord, UnknownSchema
from tokenweir.records.control import Barred
from tokenweir.records.usage import CapacityReport, UsageReport
from tokenweir.wire import decode, decode_as, encode, schema_fingerprint, schemas

CORPUS = sorted(HERE.glob("*.bin"))
SCHEMAS = {(name, version): schema for name, version, schema in schemas()}
BARRED = Barred("chat", 5, ["a"], ["quota"], [9])


def test_a_record_is_a_marker_a_fingerprint_and_the_avro_of_its_fields() -> None:
    record = CapacityReport("chat", "me", 1000, None, -2)
    expected = (
        b"\xc3\x01"
        + schema_fingerprint(SCHEMAS["CapacityReport", 1])
        + b"\x08chat\x04me"  # a string is its length, zigzag, and UTF-8
        + b"\x02\xd0\x0f"  # the second branch of the union, and 1000
        + b"\x00"  # the first branch: null
        + b"\x02\x03"  # -2
    )
    assert encode(record) == expected
    assert decode(expected) == record


def test_the_fingerprint_is_the_one_of_avros_specification() -> None:
    """CRC-64-AVRO of `"int"`, as Avro's own tests have it, little endian."""
    assert schema_fingerprint("int").hex() == "8f5c393f1ad57572"  # type: ignore[arg-type]


def test_the_documentation_of_a_schema_is_no_part_of_its_fingerprint() -> None:
    schema = SCHEMAS["Barred", 1]
    assert schema_fingerprint({**schema, "doc": "other"}) == schema_fingerprint(schema)


@pytest.mark.parametrize("name", samples())
def test_every_record_survives_encoding(name: str) -> None:
    record = samples()[name]
    again = decode(encode(record))
    assert plain_of(again) == plain_of(record)
    assert encode(again) == encode(record)


def plain_of(record: Any) -> Any:
    """A record without regard to tuples and lists."""
    if is_dataclass(record):
        return {field.name: plain_of(getattr(record, field.name)) for field in fields(record)}
    if isinstance(record, (list, tuple)):
        return [plain_of(part) for part in record]
    return plain(record)


class TestWhatIsNoRecord:
    @pytest.mark.parametrize("data", [b"", b"\xc3", b"\xc3\x01", b"{}", b"\x00" * 40])
    def test_bytes_without_a_marker(self, data: bytes) -> None:
        with pytest.raises(BadRecord, match="marker"):
            decode(data)

    def test_null(self) -> None:
        with pytest.raises(BadRecord, match="null"):
            decode(None)

    def test_an_unknown_fingerprint_is_named(self) -> None:
        with pytest.raises(UnknownSchema, match="0102030405060708") as caught:
            decode(b"\xc3\x01\x01\x02\x03\x04\x05\x06\x07\x08rest")
        assert caught.value.fingerprint.hex() == "0102030405060708"

    def test_one_byte_too_many(self) -> None:
        with pytest.raises(BadRecord, match="1 bytes behind the Barred"):
            decode(encode(BARRED) + b"\x00")

    @pytest.mark.parametrize("name", samples())
    def test_every_shorter_form(self, name: str) -> None:
        data = encode(samples()[name])
        for length in range(len(data)):
            with pytest.raises(BadRecord):
                decode(data[:length])

    def test_another_kind_than_the_one_expected(self) -> None:
        with pytest.raises(BadRecord, match="expected UsageReport, found Barred"):
            decode_as(UsageReport, encode(BARRED))

    @pytest.mark.parametrize("length", [2**31, 2**40, 2**62, -1, -(2**63)])
    @pytest.mark.parametrize("place", [10, 16, 20])
    def test_a_length_that_lies_takes_no_memory(self, length: int, place: int) -> None:
        data = encode(BARRED)
        lie = data[:place] + zigzag(length) + data[place + 1 :]
        tracemalloc.start()
        self.only_bad_record(lie)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 5_000_000

    @given(st.binary(max_size=200))
    def test_random_bytes(self, noise: bytes) -> None:
        with pytest.raises(BadRecord):
            decode(noise)

    @given(st.sampled_from(RECORDS), st.binary(max_size=200))
    def test_random_bytes_behind_a_known_fingerprint(self, record: object, noise: bytes) -> None:
        self.only_bad_record(encode(record)[:10] + noise)

    @given(st.sampled_from(RECORDS), st.data())
    def test_a_record_with_some_bytes_changed(self, record: object, data: st.DataObject) -> None:
        changed = bytearray(encode(record))
        for _ in range(data.draw(st.integers(1, 4))):
            changed[data.draw(st.integers(10, len(changed) - 1))] = data.draw(st.integers(0, 255))
        self.only_bad_record(bytes(changed))

    @staticmethod
    def only_bad_record(data: bytes) -> None:
        try:
            record = decode(data)
        except BadRecord:
            return
        assert type(record) in wire.RECORDS


def zigzag(number: int) -> bytes:
    """A long as Avro writes it."""
    number = ((number << 1) ^ (number >> 63)) & (2**64 - 1)
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*out, number))


class TestOtherVersions:
    """With one more version of a schema in the folder than this release has."""

    @pytest.fixture
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
        for (name, version), schema in SCHEMAS.items():
            (tmp_path / f"{name}.v{version}.avsc").write_text(json.dumps(schema))
        monkeypatch.setattr(wire, "_folder", lambda: tmp_path)
        self.forget()
        yield tmp_path
        self.forget()

    @staticmethod
    def forget() -> None:
        for cached in (wire._newest, wire._writers, wire._readers):
            cached.cache_clear()

    @staticmethod
    def older(folder: Path, name: str, change: Any) -> Any:
        """Put a version 0 into the folder: the first one, as `change` makes it."""
        schema = json.loads(json.dumps(SCHEMAS[name, 1]))
        change(schema)
        (folder / f"{name}.v0.avsc").write_text(json.dumps(schema))
        return schema

    @staticmethod
    def written(schema: Any, values: dict[str, Any]) -> bytes:
        out = BytesIO()
        schemaless_writer(out, schema, values)
        return b"\xc3\x01" + schema_fingerprint(schema) + out.getvalue()

    def test_a_field_that_an_old_writer_did_not_know_has_its_default(self, folder: Path) -> None:
        def without_sequences(schema: Any) -> None:
            schema["fields"] = schema["fields"][:-1]

        schema = self.older(folder, "CapacityReport", without_sequences)
        values = {"pool": "chat", "source": "x", "tokens_per_s": 5, "kv_bytes": None}
        assert decode(self.written(schema, values)) == CapacityReport("chat", "x", 5, None, None)

    def test_a_field_that_is_gone_is_passed_over(self, folder: Path) -> None:
        def with_a_note(schema: Any) -> None:
            schema["fields"].insert(1, {"name": "note", "type": "string"})

        schema = self.older(folder, "CapacityReport", with_a_note)
        values = {"pool": "chat", "note": "gone", "source": "x"}
        assert decode(self.written(schema, values)) == CapacityReport("chat", "x", None, None, None)

    def test_a_symbol_that_the_reader_does_not_know_is_the_default(self, folder: Path) -> None:
        def with_another_reason(schema: Any) -> None:
            (reason,) = [field for field in schema["fields"] if field["name"] == "reason"]
            reason["type"]["items"]["symbols"].append("unpaid")

        schema = self.older(folder, "Barred", with_another_reason)
        values = {
            "pool": "chat",
            "at_ms": 5,
            "tenant": ["a", "b"],
            "reason": ["unpaid", "quota"],
            "until_ms": [0, 0],
        }
        record = decode_as(Barred, self.written(schema, values))
        assert record.reason == ["suspended", "quota"]

    def test_a_symbol_more_does_not_keep_old_records_from_being_read(self, folder: Path) -> None:
        def with_fewer_classes(schema: Any) -> None:
            (column,) = [field for field in schema["fields"] if field["name"] == "service_class"]
            column["type"]["items"]["symbols"].remove("preemptible")

        schema = self.older(folder, "Roster", with_fewer_classes)
        values = {
            "pool": "chat",
            "spec_version": 1,
            "tenant": ["a"],
            "service_class": ["dedicated"],
            "on_silence": [None],
        }
        assert decode(self.written(schema, values)).service_class == ["dedicated"]

    def test_records_are_written_with_the_newest_version(self, folder: Path) -> None:
        self.older(folder, "Barred", lambda schema: schema["fields"].pop())
        assert encode(BARRED)[2:10] == schema_fingerprint(SCHEMAS["Barred", 1])

    def test_a_writer_that_is_newer_than_the_reader_is_unknown(self, folder: Path) -> None:
        newer = {**SCHEMAS["Barred", 1], "fields": SCHEMAS["Barred", 1]["fields"][:-1]}
        values = {"pool": "chat", "at_ms": 5, "tenant": ["a"], "reason": ["quota"]}
        data = self.written(newer, values)
        with pytest.raises(UnknownSchema, match=data[2:10].hex()):
            decode(data)


@pytest.mark.parametrize("file", CORPUS, ids=lambda file: file.stem)
def test_what_was_once_written_is_read_today(file: Path) -> None:
    """Fields that came later are in the record and not in the expectation."""
    expected = json.loads(file.with_suffix(".json").read_text(encoding="utf-8"))
    assert_within(expected, plain_of(decode(file.read_bytes())))


def assert_within(expected: Any, found: Any) -> None:
    if isinstance(expected, dict):
        for name, value in expected.items():
            assert_within(value, found[name])
    elif isinstance(expected, list):
        assert len(expected) == len(found)
        for value, other in zip(expected, found, strict=True):
            assert_within(value, other)
    else:
        assert expected == found


def test_every_version_of_every_schema_has_its_record_in_the_corpus() -> None:
    found = {file.stem.replace(".v", "-").split("-")[0] for file in CORPUS}
    lacking = {name for name, _ in SCHEMAS} - found
    assert not lacking, "add a sample of it to tests/unit/corpus/samples.py"
    assert write_missing() == []  # else: the command has written it just now; look and commit it


class TestSchemas:
    def test_there_is_one_for_each_kind_of_record(self) -> None:
        assert {name for name, _ in SCHEMAS} == {kind.__name__ for kind in wire.RECORDS}

    def test_no_two_have_the_same_fingerprint(self) -> None:
        found = [schema_fingerprint(schema) for schema in SCHEMAS.values()]
        assert len(set(found)) == len(found)

    @pytest.mark.parametrize("kind", wire.RECORDS, ids=lambda kind: kind.__name__)
    def test_its_fields_are_those_of_the_record(self, kind: type) -> None:
        newest = max(version for name, version in SCHEMAS if name == kind.__name__)
        known: dict[str, Any] = {}
        compare(SCHEMAS[kind.__name__, newest], kind, known)

    @pytest.mark.parametrize("key", SCHEMAS, ids=lambda key: f"{key[0]}.v{key[1]}")
    def test_it_obeys_the_rules_that_keep_it_readable(self, key: tuple[str, int]) -> None:
        """A null default needs null first, an enum needs a default, nothing is a float (A1)."""
        for part in walk(SCHEMAS[key]):
            if part.get("type") == "enum":
                assert part["default"] in part["symbols"]
            if isinstance(part.get("type"), list) and "default" in part:
                assert part["type"][0] == "null"
                assert part["default"] is None
            assert part.get("type") not in ("float", "double", "fixed")
            assert "logicalType" not in part

    def test_a_field_that_comes_later_has_a_default(self) -> None:
        for (name, version), schema in SCHEMAS.items():
            before = SCHEMAS.get((name, version - 1))
            if before is None:
                continue
            old = {field["name"] for field in before["fields"]}
            added = [field for field in schema["fields"] if field["name"] not in old]
            assert all("default" in field for field in added), f"{name}.v{version}"


def walk(schema: Any) -> Iterator[dict[str, Any]]:
    """Every part of a schema that is a mapping."""
    parts = schema if isinstance(schema, list) else schema.values() if schema else ()
    if isinstance(schema, dict):
        yield schema
    for part in parts:
        if isinstance(part, (dict, list)):
            yield from walk(part)


def compare(schema: Any, kind: type, known: dict[str, Any]) -> None:
    """Names, order and symbols of a schema's fields are those of the dataclass."""
    hints = get_type_hints(kind)
    assert [field["name"] for field in schema["fields"]] == list(hints)
    for field in schema["fields"]:
        _compare_type(field["type"], hints[field["name"]], known)


def _compare_type(schema: Any, hint: Any, known: dict[str, Any]) -> None:
    if isinstance(schema, str) and schema in known:
        schema = known[schema]
    if isinstance(schema, list):
        branches = [branch for branch in schema if branch != "null"]
        inside = [part for part in get_args(hint) if part is not type(None)]
        if get_origin(hint) is Literal or not inside:
            inside = [hint]
        for branch, part in zip(branches, inside, strict=True):
            _compare_type(branch, part, known)
    elif isinstance(schema, dict) and schema["type"] == "enum":
        known[schema["name"]] = schema
        assert list(get_args(hint)) == schema["symbols"]
    elif isinstance(schema, dict) and schema["type"] == "record":
        known[schema["name"]] = schema
        compare(schema, hint, known)
    elif isinstance(schema, dict) and schema["type"] == "array":
        _compare_type(schema["items"], get_args(hint)[0], known)
