"""What our own ClickHouse bears: runaway queries, hostile callers, noise, kills and restarts."""

import contextlib
import functools
import http.client
import json
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlencode

import psutil
import pytest

from streams.clickhouse import LocalClickHouse
from streams.clickhouse.errors import QueryError
from streams.clickhouse.local import ClickHouseError
from streams.clickhouse.sql import read_statement

pytestmark = pytest.mark.clickhouse

DEADLINE_S = 150
ENDLESS = "SELECT count() FROM numbers(1000000000000) WHERE sipHash64(number) = 1"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalClickHouse]:
    with LocalClickHouse(tmp_path_factory.mktemp("clickhouse")) as running:
        yield running


def ask(
    server: LocalClickHouse,
    text: str | bytes,
    method: str = "POST",
    headers: dict[str, str] | None = None,
    fields: dict[str, object] | None = None,
    **more: object,
) -> tuple[int, bytes]:
    """Send one request; return its status and body."""
    connection = http.client.HTTPConnection(server.url[7:], timeout=DEADLINE_S)
    try:
        body = text.encode() if isinstance(text, str) else text
        connection.request(
            method, f"/?{urlencode({**(fields or {}), **more})}", body, headers or {}
        )
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def running(server: LocalClickHouse, comment: str) -> int:
    text = f"SELECT count() FROM system.processes WHERE Settings['log_comment'] = '{comment}'"
    return int(ask(server, text)[1])


class TestLimits:
    def test_a_query_ends_at_its_time(self, server: LocalClickHouse) -> None:
        status, body = ask(server, ENDLESS, max_execution_time=1)
        assert (status, b"TIMEOUT_EXCEEDED" in body) == (408, True)

    def test_a_query_ends_at_its_memory(self, server: LocalClickHouse) -> None:
        text = "SELECT length(groupArray(number)) FROM numbers(100000000)"
        status, body = ask(server, text, max_memory_usage=100_000_000)
        assert (status, b"MEMORY_LIMIT_EXCEEDED" in body) == (500, True)

    def test_a_query_ends_at_its_rows(self, server: LocalClickHouse) -> None:
        assert b"Code: 396" in ask(server, "SELECT * FROM numbers(10)", max_result_rows=5)[1]

    def test_an_answer_that_is_held_whole_has_a_size(self, server: LocalClickHouse) -> None:
        text = "SELECT number, repeat(toString(number), 50) FROM numbers(2000000) FORMAT JSON"
        assert b"Code: 396" in ask(server, text)[1]

    def test_limits_can_be_lowered_and_not_raised(self, server: LocalClickHouse) -> None:
        for setting in ("max_memory_usage=100000000000", "max_execution_time=100000"):
            assert b"Code: 452" in ask(server, f"SELECT 1 SETTINGS {setting}")[1]
            name, _, value = setting.partition("=")
            assert b"Code: 452" in ask(server, "SELECT 1", fields={name: value})[1]

    def test_settings_do_not_leak_into_the_next_query(self, server: LocalClickHouse) -> None:
        ask(server, "SELECT 1", max_block_size=7, log_comment="mine", param_x=1)
        text = "SELECT getSetting('max_block_size') = 7, getSetting('log_comment')"
        assert ask(server, text)[1] == b"0\t\n"
        assert b"Code: 456" in ask(server, "SELECT {x:UInt8}")[1]

    def test_more_queries_than_there_is_room_for_are_refused(self, server: LocalClickHouse) -> None:
        with ThreadPoolExecutor(80) as pool:
            slow = "SELECT sleep(1)"
            answers = list(pool.map(lambda _: ask(server, slow), range(80)))
        refused = [body for status, body in answers if status == 503]
        assert 0 < len(refused) <= 80 - 8
        assert all(b"TOO_MANY_SIMULTANEOUS_QUERIES" in body for body in refused)
        assert all(body == b"0\n" for status, body in answers if status != 503)


class TestReadOnly:
    @pytest.mark.parametrize(
        "text", ["CREATE TABLE r (a Int8) ORDER BY a", "DROP DATABASE default"]
    )
    def test_get_changes_nothing(self, server: LocalClickHouse, text: str) -> None:
        status, body = ask(server, "", "GET", query=text)
        assert (status, b"Code: 164" in body) == (403, True)

    def test_readonly_holds_for_inserts_with_data(self, server: LocalClickHouse) -> None:
        ask(server, "CREATE TABLE IF NOT EXISTS ro (a Int8) ORDER BY a")
        for text in ("INSERT INTO ro VALUES (1)", "INSERT INTO ro FORMAT TSV\n1\n"):
            for level in (1, 2):
                assert ask(server, text, readonly=level)[0] == 403
        assert ask(server, "SELECT count() FROM ro")[1] == b"0\n"

    def test_readonly_cannot_be_lifted_by_the_query(self, server: LocalClickHouse) -> None:
        text = "SELECT 1 SETTINGS readonly = 0"
        assert b"Code: 164" in ask(server, text, readonly=1)[1]
        assert ask(server, "SELECT 1", readonly=1, max_threads=1)[0] == 200


class TestInserts:
    def test_the_settings_of_an_insert_are_obeyed(self, server: LocalClickHouse) -> None:
        ask(server, "CREATE TABLE parted (a UInt8) PARTITION BY a ORDER BY a")
        text = "INSERT INTO parted {} FORMAT TSV\n1\n2\n"
        one = "max_partitions_per_insert_block"
        assert b"Code: 252" in ask(server, text.format(""), fields={one: 1})[1]
        assert b"Code: 252" in ask(server, text.format(f"SETTINGS {one} = 1"))[1]
        assert ask(server, text.format("-- a comment\n"))[0] == 200

    def test_one_insert_is_one_part_and_all_or_nothing(self, server: LocalClickHouse) -> None:
        ask(server, "CREATE TABLE parts (a UInt64) ORDER BY a")
        data = b"\n".join(b"%d" % n for n in range(500_000))
        assert ask(server, b"INSERT INTO parts FORMAT TSV\n" + data + b"\nx\n")[0] == 400
        assert ask(server, b"INSERT INTO parts FORMAT TSV\n" + data)[0] == 200
        text = "SELECT count(), sum(rows) FROM system.parts WHERE table = 'parts' AND active"
        assert ask(server, text)[1] == b"1\t500000\n"

    def test_an_insert_says_what_it_wrote(self, server: LocalClickHouse) -> None:
        ask(server, "CREATE TABLE IF NOT EXISTS said (a UInt64) ORDER BY a")
        connection = http.client.HTTPConnection(server.url[7:])
        connection.request("POST", "/", b"INSERT INTO said VALUES (1), (2)")
        summary = connection.getresponse().headers["X-ClickHouse-Summary"]
        assert json.loads(summary)["written_rows"] == "2"
        connection.close()

    def test_an_error_does_not_name_the_file_that_holds_the_data(
        self, server: LocalClickHouse
    ) -> None:
        ask(server, "CREATE TABLE IF NOT EXISTS said (a UInt64) ORDER BY a")
        assert b"/proc/" not in ask(server, "INSERT INTO said FORMAT TSV\nx\n")[1]


class TestKilling:
    @pytest.mark.parametrize(
        "text", [ENDLESS, "INSERT INTO killed SELECT number FROM numbers(1000000000000)"]
    )
    def test_kill_query_by_log_comment_ends_it(self, server: LocalClickHouse, text: str) -> None:
        """PROTOCOL H2: a sink ends its predecessor's insert before it asks for its offsets."""
        ask(server, "CREATE TABLE IF NOT EXISTS killed (a UInt64) ORDER BY a")
        comment = "tokenweir-history usage 0"
        with ThreadPoolExecutor(1) as pool:
            victim = pool.submit(ask, server, text, log_comment=comment)
            wait_until(lambda: running(server, comment) > 0)
            kill = f"KILL QUERY WHERE Settings['log_comment'] = '{comment}' SYNC"
            assert b"finished" in ask(server, kill)[1]
            assert running(server, comment) == 0
            assert b"QUERY_WAS_CANCELLED" in victim.result(DEADLINE_S)[1]
        ask(server, "TRUNCATE TABLE killed")

    def test_kill_is_not_kept_waiting_by_a_full_house(self, server: LocalClickHouse) -> None:
        with ThreadPoolExecutor(20) as pool:
            victims = [pool.submit(ask, server, ENDLESS, log_comment="full") for _ in range(20)]
            kill = "KILL QUERY WHERE Settings['log_comment'] = 'full' SYNC"
            wait_until(lambda: bool(ask(server, kill)) and all(v.done() for v in victims))

    @pytest.mark.parametrize("text", [ENDLESS, "SELECT number FROM numbers(1000000000000)"])
    def test_a_client_that_leaves_ends_its_query(self, server: LocalClickHouse, text: str) -> None:
        comment = f"left-{len(text)}"
        connection = http.client.HTTPConnection(server.url[7:])
        connection.request("POST", f"/?log_comment={comment}", text)
        wait_until(lambda: running(server, comment) == 1)
        connection.close()
        wait_until(lambda: running(server, comment) == 0)

    def test_a_query_id_runs_once_at_a_time(self, server: LocalClickHouse) -> None:
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(ask, server, ENDLESS, query_id="a", log_comment="twice")
            wait_until(lambda: running(server, "twice") == 1)
            assert b"Code: 216" in ask(server, "SELECT 1", query_id="a")[1]
            ask(server, "KILL QUERY WHERE Settings['log_comment'] = 'twice' SYNC")
            assert b"QUERY_WAS_CANCELLED" in first.result(DEADLINE_S)[1]
        assert ask(server, "SELECT 1", query_id="a")[0] == 200


class TestCallers:
    @pytest.mark.parametrize(
        ("headers", "status"),
        [
            ({"Host": "evil.example"}, 403),
            ({"Host": "127.0.0.1.evil.example"}, 403),
            ({"Host": "localhost:9"}, 200),
            ({"Host": "[::1]:8123"}, 200),
            ({"Origin": "https://evil.example"}, 403),
            ({"Origin": "null"}, 403),
            ({"Origin": "http://localhost:3000"}, 200),
            ({"Sec-Fetch-Site": "cross-site"}, 403),
            ({"X-ClickHouse-User": "default"}, 200),
            ({"X-ClickHouse-Key": "guess"}, 403),
            ({"Authorization": "Basic ZGVmYXVsdDpndWVzcw=="}, 403),
        ],
    )
    def test_web_pages_and_strangers_stay_outside(
        self, server: LocalClickHouse, headers: dict[str, str], status: int
    ) -> None:
        assert ask(server, "SELECT 1", headers=headers)[0] == status

    @pytest.mark.parametrize(
        "text",
        [
            "SELECT * FROM file('/etc/hostname', 'LineAsString')",
            "SELECT * FROM `/etc/hostname`",
            "SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString')",
            "SELECT * FROM remote('127.0.0.1', 'system.one')",
            "SELECT * FROM s3('http://127.0.0.1:1/a/b.csv', 'CSV', 'a Int8')",
            "SELECT * FROM mysql('127.0.0.1:1', 'a', 'b', 'c', 'd')",
            "SELECT * FROM executable('sh', 'CSV', 'a Int8')",
            "INSERT INTO FUNCTION file('/tmp/tokenweir-test', 'CSV', 'a Int8') VALUES (1)",
            "CREATE TABLE u (a Int8) ENGINE = URL('http://127.0.0.1:1/', 'CSV')",
            "CREATE TABLE k (a Int8) ENGINE = Kafka('127.0.0.1:1', 't', 'g', 'CSV')",
            "CREATE TABLE f (a Int8) ENGINE = File(CSV, '/etc/passwd')",
            "CREATE DATABASE d ENGINE = Filesystem('/')",
            "CREATE DATABASE d ENGINE = MySQL('127.0.0.1:1', 'a', 'b', 'c')",
            "CREATE DICTIONARY d (a UInt64) PRIMARY KEY a SOURCE(HTTP(URL 'http://127.0.0.1:1/'"
            " FORMAT 'CSV')) LAYOUT(FLAT()) LIFETIME(0)",
            "BACKUP DATABASE default TO File('/tmp/tokenweir-test')",
            "SYSTEM SHUTDOWN",
            "CREATE USER x",
            "GRANT ALL ON *.* TO default",
        ],
    )
    def test_a_query_reaches_nothing_but_the_tables(
        self, server: LocalClickHouse, text: str
    ) -> None:
        status, body = ask(server, text)
        assert status >= 400, body
        assert b"hostname" not in body or b"DB::Exception" in body
        assert ask(server, "SELECT 1") == (200, b"1\n")

    def test_other_paths_and_methods_are_told_so(self, server: LocalClickHouse) -> None:
        connection = http.client.HTTPConnection(server.url[7:])
        for method, path, status in (
            ("GET", "/", 200),
            ("HEAD", "/", 200),
            ("GET", "/ping", 200),
            ("GET", "/play", 404),
            ("PUT", "/", 501),
            ("DELETE", "/", 501),
        ):
            connection.request(method, path)
            answer = connection.getresponse()
            answer.read()
            assert (method, path, answer.status) == (method, path, status)
        connection.close()

    def test_external_data_is_refused_with_a_reason(self, server: LocalClickHouse) -> None:
        kind = {"Content-Type": "multipart/form-data; boundary=x"}
        status, body = ask(server, "--x--", headers=kind, query="SELECT 1")
        assert (status, b"NOT_IMPLEMENTED" in body) == (501, True)

    def test_a_session_is_accepted_and_keeps_nothing(self, server: LocalClickHouse) -> None:
        assert ask(server, "SELECT 1", session_id="s", session_timeout=DEADLINE_S) == (200, b"1\n")
        assert ask(server, "SET max_threads = 1", session_id="s")[0] == 501


class TestNoise:
    @pytest.mark.parametrize(
        "noise",
        [
            b"",
            b"\x00" * 1000,
            bytes(range(256)) * 20,
            b"GET / HTTP/9.9\r\n\r\n",
            b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\nx",
            b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
            b"GET /?query=" + b"%FF%00" * 1000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"GET /" + b"a" * 2_000_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 2_000_000 + b"\r\n\r\n",
        ],
        ids=range(9),
    )
    def test_what_is_no_http_does_no_harm(self, server: LocalClickHouse, noise: bytes) -> None:
        host, port = server.url[7:].split(":")
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            try:
                connection.sendall(noise)
                connection.shutdown(socket.SHUT_WR)
                connection.recv(1000)
            except OSError:
                pass  # it hung up on us, as it may
        assert ask(server, "SELECT 1") == (200, b"1\n")

    @pytest.mark.parametrize(
        "text",
        [
            "SELECT " + "(" * 10_000 + "1" + ")" * 10_000,
            "SELECT " + "[" * 100_000,
            "SELECT 1" + " + 1" * 50_000,
            "SELECT " + "NOT " * 20_000 + "1",
            "SELECT * FROM " + "(SELECT * FROM " * 2000 + "system.one" + ")" * 2000,
            "SELECT '" + "x" * 1_000_000 + "'",
            "SELECT repeat('x', 100000000000)",
            "SELECT range(1000000000000)",
            "SELECT 1 FORMAT DataFrame",
            "SELECT 1 FORMAT NoSuchFormat",
            "SELECT 1\x00",
            "/* no end",
            "",
        ],
        ids=range(13),
    )
    def test_a_monstrous_query_gets_an_error(self, server: LocalClickHouse, text: str) -> None:
        status, body = ask(server, text)
        assert status >= 400
        assert body.startswith(b"Code: ")
        assert ask(server, "SELECT 1") == (200, b"1\n")

    def test_random_changes_to_requests_never_end_the_process(
        self, server: LocalClickHouse
    ) -> None:
        pid = server.pid
        source = random.Random(20260102)
        texts = [
            b"SELECT sum(number) FROM numbers(100) FORMAT Native",
            b"INSERT INTO noise FORMAT Native\n\x01\x01\x01a\x06UInt64\x01\0\0\0\0\0\0\0",
            b"INSERT INTO noise FORMAT Parquet\nPAR1xxxxPAR1",
            b"SELECT {a:Array(UInt8)}, map('a', 1) FORMAT JSON",
        ]
        ask(server, "CREATE TABLE noise (a UInt64) ORDER BY a")
        for _ in range(300):
            text = bytearray(source.choice(texts))
            for _ in range(source.randint(1, 5)):
                text[source.randrange(len(text))] = source.randrange(256)
            fields: dict[str, object] = {
                "param_a": source.randbytes(3),
                "compress": source.randint(0, 1),
            }
            headers = {"Content-Encoding": source.choice(["", "", "gzip", "lz4"])}
            assert ask(server, bytes(text), headers=headers, fields=fields)[0] >= 200
        assert (server.pid, ask(server, "SELECT 1")) == (pid, (200, b"1\n"))

    def test_no_second_statement_hides_in_what_only_looks_like_a_string(
        self, server: LocalClickHouse
    ) -> None:
        """The text is cut into tokens here and, again, by the engine: they must agree."""
        source = random.Random(7)
        bits = [
            "'",
            '"',
            "`",
            "--",
            "//",
            "# ",
            "#!",
            "/*",
            "*/",
            "$a$",
            "$$",
            "\\",
            "‘",
            "’",
            "\n",
        ]
        taken = 0
        for _ in range(1500):
            bit = "".join(source.choices(bits, k=source.randint(1, 6)))
            text = f"SELECT 1 {bit} ; SELECT 4000 + 4 -- {bit}\n"
            try:
                read_statement(text.encode())
            except QueryError:
                continue
            taken += 1
            assert b"4004" not in ask(server, text)[1], text
        assert taken > 100


class TestLife:
    def test_a_killed_server_has_all_that_it_acknowledged(self, tmp_path: Path) -> None:
        server = LocalClickHouse(tmp_path)
        server.start()
        ask(server, "CREATE DATABASE kept")
        ask(server, "CREATE TABLE kept.t (n UInt64) ORDER BY n")
        ask(server, "CREATE TABLE t (n UInt64) ORDER BY n")
        acknowledged: list[int] = []

        def write() -> None:
            with contextlib.suppress(OSError, http.client.HTTPException):
                while ask(server, f"INSERT INTO kept.t VALUES ({len(acknowledged)})")[0] == 200:
                    acknowledged.append(len(acknowledged))

        for wanted in (20, 40, 60):
            writer = threading.Thread(target=write)
            writer.start()
            wait_until(functools.partial(lambda n: len(acknowledged) >= n, wanted))
            server.kill()
            writer.join()
            url = server.url
            assert server.start() == url
            rows = ask(server, "SELECT DISTINCT n FROM kept.t ORDER BY n")[1].split()
            # The last one may be there and have lost its answer.
            assert {int(n) for n in rows} - {len(acknowledged)} == set(acknowledged)
        assert ask(server, "SELECT count() FROM t") == (200, b"0\n")
        server.stop()

    def test_a_folder_has_one_server(self, server: LocalClickHouse) -> None:
        with pytest.raises(ClickHouseError, match=f"in use by process {server.pid}"):
            LocalClickHouse(server.data).start()

    def test_a_taken_port_is_one_clear_line(self, server: LocalClickHouse, tmp_path: Path) -> None:
        port = int(server.url.rpartition(":")[2])
        with pytest.raises(ClickHouseError, match=f"Port {port} cannot be used"):
            LocalClickHouse(tmp_path, port).start()

    def test_sigterm_ends_it_cleanly_in_the_middle_of_a_query(self, tmp_path: Path) -> None:
        command = [
            sys.executable,
            "-m",
            "streams.clickhouse",
            "--port",
            "0",
            "--data",
            str(tmp_path),
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("ClickHouse 26.9 (chDB) is ready on http://127.0.0.1:")
            with contextlib.closing(http.client.HTTPConnection(line.split("//")[1].strip())) as c:
                c.request("POST", "/", ENDLESS)
                process.terminate()
                assert process.wait(DEADLINE_S) == 0

    def test_it_listens_on_loopback_only(self, server: LocalClickHouse) -> None:
        assert server.pid is not None
        sockets = psutil.Process(server.pid).net_connections("inet")
        assert {s.laddr.ip for s in sockets if s.status == psutil.CONN_LISTEN} == {"127.0.0.1"}
