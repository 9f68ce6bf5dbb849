"""The broker's data folder, before Kafka itself holds it."""

from pathlib import Path
from threading import Event, Thread

from streams.broker.storage import starting


def test_of_two_that_start_in_one_folder_the_second_waits_for_the_first(tmp_path: Path) -> None:
    order: list[str] = []
    asking = Event()

    def second() -> None:
        asking.set()
        with starting(tmp_path / "kafka"):
            order.append("second")

    with starting(tmp_path / "kafka"):
        thread = Thread(target=second)
        thread.start()
        asking.wait(150)
        thread.join(0.2)
        order.append("first")
    thread.join(150)
    assert order == ["first", "second"]
