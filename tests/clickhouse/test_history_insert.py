"""An insert whose answer never comes: the engine may have taken it or not (H1, H2)."""

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import urlsplit

import pytest
from clickhouse_connect.driver.client import Client

from tests.unit.history.made import Increment, record, report
from tokenweir.errors import Unavailable
from tokenweir.history.client import connect
from tokenweir.history.insert import insert
from tokenweir.history.lane import Batch
from tokenweir.history.rows import Place
from tokenweir.history.store import open_usage, prepare

pytestmark = pytest.mark.clickhouse

PLACE = Place("usage", 0)


class Line:
    """A TCP line to ClickHouse that can be cut between a request and its answer."""

    def __init__(self, host: str, port: int) -> None:
        self.target = host, port
        self.cut = False
        self.requests = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = socket.create_connection(self.target)
            for pump in ((near, far, True), (far, near, False)):
                threading.Thread(target=self._pump, args=pump, daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, asking: bool) -> None:
        with suppress(OSError):  # the other direction has ended both
            while data := source.recv(1 << 16):
                if asking and data.startswith(b"POST"):
                    self.requests += 1
                if not asking and self.cut:
                    break  # the engine has answered, so it has taken what it was asked to take
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):  # the other direction has closed it
                end.shutdown(socket.SHUT_RDWR)
        source.close()


@pytest.fixture
def line(database: str) -> Iterator[Line]:
    parts = urlsplit(database)
    assert parts.hostname is not None
    assert parts.port is not None
    between = Line(parts.hostname, parts.port)
    yield between
    between.listener.close()


def through(line: Line, database: str) -> Client:
    return connect(f"http://127.0.0.1:{line.port}{urlsplit(database).path}")


def next_batch(client: Client) -> Batch:
    lane = open_usage(client, PLACE, 1)
    at = lane.begins
    lane.receive([record(at + n, report(at + n + 1, Increment(out=1))) for n in range(3)], 0.0)
    return lane.next_batch(lambda _: {})


def test_a_block_whose_answer_is_lost_is_there_once_and_known_to_be(
    database: str, line: Line
) -> None:
    """Field note 78: the driver's own insert would send it again, and it would be there twice."""
    client, cut = connect(database), through(line, database)
    prepare(client)
    for block in next_batch(client).blocks:
        insert(cut, PLACE, block)
    line.cut, before = True, line.requests
    with pytest.raises(Unavailable):
        insert(cut, PLACE, next_batch(client).blocks[0])
    assert line.requests == before + 1
    lane = open_usage(client, PLACE, 1)
    assert (lane.held["usage"], lane.held["records"], lane.begins) == (5, 2, 3)
    for block in next_batch(client).blocks:
        insert(client, PLACE, block)
    counted = client.query("SELECT count(), uniqExact(offset) FROM usage").result_rows
    assert counted == [(6, 6)]
    client.close()
    cut.close()
