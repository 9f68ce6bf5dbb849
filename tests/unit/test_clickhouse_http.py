"""What is read from a request, and what is told back, without an engine."""

import contextlib
import gzip
import struct
import zlib

import lz4.block
import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from streams.clickhouse.answer import Counts, Server, error_body, error_in_stream, head
from streams.clickhouse.blocks import from_blocks, to_blocks
from streams.clickhouse.cityhash import city_hash_128
from streams.clickhouse.compression import choose_coding, decoded, encoder
from streams.clickhouse.errors import QueryError, from_engine, refusal
from streams.clickhouse.native import for_revision, kind_of
from streams.clickhouse.request import Query, check_user, read_fields, read_query
from streams.clickhouse.sql import read_statement, tokens

SERVER = Server("26.9.2.1", "UTC", "here")


def query(url: str, body: bytes = b"", *, get: bool = False, **headers: str) -> Query:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return read_query(read_fields(url), named, body, get=get)


def code_of(url: str, body: bytes = b"") -> int:
    with pytest.raises(QueryError) as raised:
        query(url, body)
    return raised.value.code


class TestStatements:
    @pytest.mark.parametrize(
        ("text", "statement", "form", "data"),
        [
            (b"INSERT INTO t FORMAT Native\n\x01\x02", b"INSERT INTO t ", "Native", b"\x01\x02"),
            (b"insert into t format TSV 1\n2", b"insert into t ", "TSV", b"1\n2"),
            (b"INSERT INTO t FORMAT CSV\r\n1", b"INSERT INTO t ", "CSV", b"1"),
            (b"INSERT INTO t VALUES (1),(2)", b"INSERT INTO t ", "Values", b"(1),(2)"),
            (b"INSERT INTO t VALUES", b"INSERT INTO t ", "Values", b""),
            (b"INSERT INTO `format` (`values`) VALUES (1)", None, "Values", b"(1)"),
            (b"INSERT INTO db.values VALUES (1)", b"INSERT INTO db.values ", "Values", b"(1)"),
            (b"INSERT INTO values VALUES (1)", b"INSERT INTO values ", "Values", b"(1)"),
            (b"INSERT /* FORMAT x */ INTO t -- FORMAT y\n FORMAT z\n7", None, "z", b"7"),
            (b"INSERT INTO FUNCTION null('a FORMAT b') FORMAT TSV\n1", None, "TSV", b"1"),
        ],
    )
    def test_the_data_of_an_insert_begins_behind_its_format(
        self, text: bytes, statement: bytes | None, form: str, data: bytes
    ) -> None:
        read = read_statement(text)
        assert read.format == form
        assert read.data_at is not None
        assert text[read.data_at :] == data
        assert statement is None or read.text == statement

    def test_the_verb_is_the_first_word_but_for_with(self) -> None:
        assert read_statement(b"/* a */ ((select 1))").verb == "SELECT"
        assert read_statement(b"WITH 1 AS x SELECT x").verb == "WITH"
        assert read_statement(b"WITH 1 AS x INSERT INTO t SELECT x").verb == "INSERT"

    def test_the_settings_of_an_insert_are_kept_apart(self) -> None:
        read = read_statement(b"INSERT INTO t (a) SETTINGS x = 1 FORMAT TSV\n1")
        assert (read.text, read.settings) == (b"INSERT INTO t (a) ", b"SETTINGS x = 1 ")

    def test_an_insert_from_a_select_carries_no_data(self) -> None:
        assert read_statement(b"INSERT INTO t SELECT 1 FORMAT Null").data_at is None

    @pytest.mark.parametrize(
        ("text", "form"),
        [
            (b"SELECT 1 FORMAT JSON", "JSON"),
            (b"SELECT 1 FORMAT JSON;", "JSON"),
            (b"SELECT 1 format CSV SETTINGS max_threads = 1", "CSV"),
            (b"SELECT 1 SETTINGS max_threads = 1 FORMAT CSV -- end", "CSV"),
            (b"SELECT ' FORMAT JSON'", None),
            (b"SELECT format FROM (SELECT 1 AS format)", None),
            (b"SELECT * FROM (SELECT 1 FORMAT JSON)", None),
            (b"SELECT 1 AS format", None),
            (b"SELECT 1", None),
        ],
    )
    def test_the_format_of_an_answer_is_the_one_at_the_end(
        self, text: bytes, form: str | None
    ) -> None:
        assert read_statement(text).format == form

    @pytest.mark.parametrize("text", [b"SELECT 1; SELECT 2", b"DROP TABLE a;DROP TABLE b"])
    def test_several_statements_are_a_syntax_error(self, text: bytes) -> None:
        with pytest.raises(QueryError, match="Multi-statements"):
            read_statement(text)

    @pytest.mark.parametrize(
        "text", [b"SELECT 1;", b"SELECT ';'", b"SELECT 1 ; -- ; SELECT 2\n ;", b"SELECT $a$;$a$"]
    )
    def test_a_semicolon_in_a_string_or_at_the_end_is_no_second_statement(
        self, text: bytes
    ) -> None:
        assert read_statement(text).verb == "SELECT"

    @pytest.mark.parametrize(
        "text",
        [
            b"SELECT 1 INTO OUTFILE '/tmp/x'",
            b"SELECT 1 INTO/**/OUTFILE '/tmp/x'",
            b"SELECT 1 // '\n INTO OUTFILE '/tmp/x'",
            b"INSERT INTO t FROM INFILE '/etc/passwd' FORMAT CSV",
            b"SELECT file('/etc/passwd')",
            b"SELECT `file` ('/etc/passwd')",
            b"SELECT * APPLY file FROM t",
            b"SELECT * APPLY(file) FROM t",
            b"SELECT * FROM Python(engine)",
            b"CREATE FUNCTION f AS x -> file(x)",
            b"CREATE TABLE t (a Int8) ENGINE = Log SETTINGS disk = disk(type = web)",
        ],
    )
    def test_what_reaches_for_files_is_denied(self, text: bytes) -> None:
        with pytest.raises(QueryError) as raised:
            read_statement(text)
        assert raised.value.code == 497

    @pytest.mark.parametrize(
        "text",
        [
            b"SELECT file FROM t",
            b"SELECT 'INTO OUTFILE', $$FROM INFILE$$",
            b"SELECT disk, python FROM t WHERE file = 'file('",
        ],
    )
    def test_words_that_only_look_so_are_not(self, text: bytes) -> None:
        assert read_statement(text).verb == "SELECT"

    def test_a_text_that_does_not_end_its_quote_costs_linear_time(self) -> None:
        assert len(list(tokens(b"SELECT '" + b"\\'''" * 100_000))) == 2

    @given(st.binary(max_size=200))
    def test_any_bytes_are_read_or_refused(self, text: bytes) -> None:
        with contextlib.suppress(QueryError):
            read_statement(text)


class TestRequests:
    def test_the_query_is_the_url_then_a_newline_then_the_body(self) -> None:
        assert query("query=SELECT", b" 1").statement.text == b"SELECT\n 1"
        assert query("", b"SELECT 1").statement.text == b"SELECT 1"

    def test_the_data_may_come_in_the_body_alone(self) -> None:
        read = query("query=INSERT+INTO+t+FORMAT+Native", b"\x01" * 300_000)
        assert b"".join(read.data) == b"\x01" * 300_000
        assert (read.format, read.statement.text) == ("Native", b"INSERT INTO t ")

    def test_values_in_the_url_and_the_body_are_one_list(self) -> None:
        assert b"".join(query("query=INSERT+INTO+t+VALUES+(1)", b",(2)").data) == b"(1)\n,(2)"

    def test_what_the_interface_does_not_know_is_a_setting(self) -> None:
        read = query("query=SELECT+1&max_threads=2&log_comment=a%20b&param_x=1&session_id=s")
        assert read.settings == {"max_threads": "2", "log_comment": "a b"}
        assert read.parameters == {"x": b"1"}

    def test_bytes_that_are_not_utf8_stay_as_they_are(self) -> None:
        read = query("query=SELECT+%27%FF%27&param_x=%FE")
        assert read.statement.text == b"SELECT '\xff'\n"
        assert read.parameters == {"x": b"\xfe"}

    def test_get_is_read_only_and_a_stricter_wish_is_kept(self) -> None:
        assert query("query=SELECT+1", get=True).settings["readonly"] == "2"
        assert query("query=SELECT+1&readonly=1", get=True).settings["readonly"] == "1"
        assert "readonly" not in query("query=SELECT+1").settings

    def test_the_query_names_its_format_before_the_request_does(self) -> None:
        assert query("query=SELECT+1+FORMAT+CSV&default_format=JSON").format == "CSV"
        assert query("query=SELECT+1&default_format=JSON", X_ClickHouse_Format="XML").format == (
            "JSON"
        )
        assert query("query=SELECT+1", X_ClickHouse_Format="XML").format == "XML"
        assert query("query=SELECT+1").format == "TabSeparated"

    def test_an_answer_is_compressed_only_if_the_setting_says_so(self) -> None:
        assert query("query=SELECT+1", Accept_Encoding="gzip").coding is None
        wanted = query("query=SELECT+1&enable_http_compression=1", Accept_Encoding="gzip, zstd")
        assert wanted.coding == "zstd"

    def test_errors_have_clickhouses_codes(self) -> None:
        assert code_of("query=SELECT+1&a%20b=1") == 115
        assert code_of("query=SELECT+1&role=admin") == 511
        assert code_of("session_id=s", b"SET max_threads = 1") == 48
        assert code_of("session_id=s", b"create temporary table t (a Int8)") == 48
        assert code_of("default_format=DataFrame", b"SELECT 1") == 73
        assert code_of("query=INSERT+INTO+t+FORMAT+TSV;", b"1") == 62
        assert code_of("", b"INSERT INTO t SELECT * FROM input('a Int8') FORMAT TSV\n1") == 48

    def test_only_the_user_default_without_a_password_comes_in(self) -> None:
        check_user({}, {})
        check_user({}, {"Authorization": "Basic ZGVmYXVsdDo="})
        check_user(read_fields("user=default&password="), {})
        for url, headers in (
            ("user=default&password=x", {}),
            ("user=bob", {}),
            ("", {"X-ClickHouse-User": "bob"}),
            ("", {"X-ClickHouse-Key": "x"}),
            ("", {"Authorization": "Basic Ym9iOmJvYg=="}),
            ("", {"Authorization": "Basic !"}),
            ("", {"Authorization": "Bearer x"}),
        ):
            with pytest.raises(QueryError) as raised:
                check_user(read_fields(url), headers)
            assert (raised.value.code, raised.value.status) == (516, 403)

    def test_a_url_with_too_many_parameters_is_refused(self) -> None:
        with pytest.raises(QueryError, match="4096"):
            read_fields("&".join(f"a{i}=1" for i in range(5000)))


class TestAnswers:
    def test_an_error_ends_with_the_version(self) -> None:
        error = refusal(497, "No.")
        assert error_body(error, SERVER) == (
            b"Code: 497. DB::Exception: No. (ACCESS_DENIED) (version 26.9.2.1 (chDB))\n"
        )

    @pytest.mark.parametrize(
        ("code", "status"),
        [
            (60, 404),
            (62, 400),
            (115, 404),
            (159, 408),
            (164, 403),
            (241, 500),
            (48, 501),
            (202, 503),
        ],
    )
    def test_codes_become_the_statuses_that_clickhouse_sends(self, code: int, status: int) -> None:
        assert QueryError(code, "").status == status

    def test_what_the_engine_wraps_is_unwrapped(self) -> None:
        error = from_engine(
            "Code: 73. DB::Exception: Code: 73. DB::Exception: Unknown format x. (UNKNOWN_FORMAT)"
            " (version 26.9.2.1). (UNKNOWN_FORMAT)"
        )
        assert (error.code, error.text) == (
            73,
            "Code: 73. DB::Exception: Unknown format x. (UNKNOWN_FORMAT)",
        )
        assert from_engine("boom").code == 1001

    def test_an_error_in_the_stream_has_its_length_and_the_tag_twice(self) -> None:
        error = QueryError(395, "Code: 395. DB::Exception: x (Y)")
        told = error_in_stream(error, SERVER, "0123456789abcdef")
        body = error_body(error, SERVER)
        assert told == (
            b"\r\n__exception__\r\n0123456789abcdef\r\n" + body + f"{len(body)} ".encode()
            + b"0123456789abcdef\r\n__exception__\r\n"
        )  # fmt: skip

    def test_the_head_says_the_format_and_no_line_can_be_smuggled_in(self) -> None:
        read = query("query=SELECT+1&query_id=a%0d%0aX:1&default_format=JSON")
        headers = head(read, SERVER, Counts(read_rows=3))
        assert headers["Content-Type"] == "application/json; charset=UTF-8"
        assert '"read_rows": "3"' in headers["X-ClickHouse-Summary"]
        assert "X-ClickHouse-Query-Id" not in headers


class TestCompression:
    @pytest.mark.parametrize("coding", ["gzip", "zstd", "lz4", "deflate", None])
    @pytest.mark.parametrize("pieces", [[], [b""], [b"abc" * 1000, b"", b"d"]])
    def test_what_is_encoded_is_decoded(self, coding: str | None, pieces: list[bytes]) -> None:
        codec = encoder(coding)
        packed = b"".join([*map(codec.add, pieces), codec.end()])
        assert decoded(packed, coding or "", 10_000) == b"".join(pieces)

    @pytest.mark.parametrize("coding", ["gzip", "zstd", "lz4", "deflate"])
    def test_a_small_body_that_grows_large_is_refused(self, coding: str) -> None:
        codec = encoder(coding)
        bomb = codec.add(bytes(10_000_000)) + codec.end()
        assert len(bomb) < 100_000
        with pytest.raises(QueryError) as raised:
            decoded(bomb, coding, 1_000_000)
        assert raised.value.code == 241

    @pytest.mark.parametrize("coding", ["gzip", "zstd", "lz4", "deflate"])
    @given(noise=st.binary(min_size=1, max_size=100))
    def test_noise_is_read_or_refused(self, coding: str, noise: bytes) -> None:
        with contextlib.suppress(QueryError):
            decoded(noise, coding, 1000)

    def test_a_coding_that_is_not_known_is_named(self) -> None:
        with pytest.raises(QueryError, match="br"):
            decoded(b"x", "br", 10)
        assert choose_coding("br") is None
        assert choose_coding("br, GZIP;q=0.5") == "gzip"

    def test_the_standard_libraries_read_what_is_sent(self) -> None:
        codec = encoder("gzip")
        assert gzip.decompress(codec.add(b"x") + codec.end()) == b"x"
        codec = encoder("deflate")
        assert zlib.decompress(codec.add(b"x") + codec.end()) == b"x"
        codec = encoder("lz4")
        assert lz4.frame.decompress(codec.add(b"x") + codec.end()) == b"x"


class TestBlocks:
    @pytest.mark.parametrize(
        ("size", "low", "high"),
        # From another port of CityHash 1.0.2 (github.com/go-faster/city 1.0.1), one for each path.
        [
            (0, 0x3DF09DFC64C09A2B, 0x3CB540C392E51E29),
            (3, 0xDA2C2EA684DD4ECB, 0x3BCFF4B50D580115),
            (4, 0x1D9EE134A8AE1C8D, 0xC5F687B40E13E837),
            (17, 0x688C3AD536C8B947, 0xBC8E3377F9B3CC2A),
            (100, 0x0E1D6A8F13CAAC30, 0x5E61BDDBCADD2DD2),
            (143, 0x68CB24FF6D24624D, 0x600D24487816B79A),
            (144, 0x9636113F9D943E2B, 0x466CBFF72C693CFD),
            (925, 0x39EC7501BD430BAE, 0x28798BB1B7B6ABB4),
            (999, 0x69D3F334C90E786C, 0xA24AEB3C66A223A6),
        ],
    )
    def test_the_checksum_is_clickhouses(self, size: int, low: int, high: int) -> None:
        data = bytes((n * n * 7 + n * 13 + 5) & 255 for n in range(size))
        assert struct.unpack("<QQ", city_hash_128(data)) == (low, high)

    @given(st.lists(st.binary(max_size=3000), max_size=3))
    def test_blocks_give_back_what_was_put_in(self, pieces: list[bytes]) -> None:
        packed = b"".join(map(to_blocks, pieces))
        assert b"".join(from_blocks(packed, 10_000)) == b"".join(pieces)

    def test_data_above_a_mebibyte_becomes_several_blocks(self) -> None:
        data = bytes(3 << 20)
        assert b"".join(from_blocks(to_blocks(data), 3 << 20)) == data

    def test_zstd_blocks_are_read_too(self) -> None:
        packed = zstandard.ZstdCompressor().compress(b"hello")
        body = struct.pack("<BII", 0x90, 9 + len(packed), 5) + packed
        assert list(from_blocks(city_hash_128(body) + body, 10)) == [b"hello"]

    @pytest.mark.parametrize("at", [0, 16, 20, 30])
    def test_one_wrong_bit_is_found(self, at: int) -> None:
        packed = bytearray(to_blocks(b"some data that is long enough to be compressed" * 3))
        packed[at] ^= 1
        with pytest.raises(QueryError) as raised:
            list(from_blocks(bytes(packed), 1000))
        assert raised.value.code in (40, 271)

    def test_a_block_that_says_too_much_is_refused_before_it_is_unpacked(self) -> None:
        body = struct.pack("<BII", 0x82, 10, 1 << 31) + b"x"
        with pytest.raises(QueryError) as raised:
            list(from_blocks(city_hash_128(body) + body, 1 << 20))
        assert raised.value.code == 241

    @given(st.binary(min_size=1, max_size=60))
    def test_noise_is_an_error(self, noise: bytes) -> None:
        with pytest.raises(QueryError):
            list(from_blocks(noise, 1000))

    def test_a_lying_size_is_an_error(self) -> None:
        packed = lz4.block.compress(b"hello", store_size=False)
        body = struct.pack("<BII", 0x82, 9 + len(packed), 7) + packed
        with pytest.raises(QueryError):
            list(from_blocks(city_hash_128(body) + body, 1000))


class TestNative:
    def test_a_block_gets_its_info_and_each_column_a_byte(self) -> None:
        plain = b"\x02\x01\x01a\x05UInt8\x07\x01b\x06String\x02hi"
        assert for_revision(plain * 2) == 2 * (
            b"\x01\x00\x02\xff\xff\xff\xff\x00" b"\x02\x01\x01a\x05UInt8\x00\x07"
            b"\x01b\x06String\x00\x02hi"
        )  # fmt: skip

    def test_types_are_read_with_names_quotes_and_brackets(self) -> None:
        kind = kind_of("Tuple(a Int8, `b, c` Enum8('x,)(' = 1), Map(String, Array(Int8)))")
        assert [part.name for part in kind.parts()] == ["Int8", "Enum8", "Map"]

    def test_a_type_whose_layout_is_not_known_is_an_error(self) -> None:
        with pytest.raises(QueryError, match="Variant"):
            for_revision(b"\x01\x01\x01a\x0dVariant(Int8)\x00")
