"""The events agent: single events of other gateways in, usage reports out."""

from typing import Any, NoReturn

import faust

from streams.app import worker_app
from streams.config import Config
from streams.events_clock import ReportPublisher, Ticks
from streams.events_log import EventsLog
from streams.events_metrics import EventsCollector
from streams.folding import Folding
from streams.health import watch
from streams.log import Log
from streams.tables import EVENT_TABLES, declare_tables
from streams.worker import choose_loop, end_process, ready_topics, run_worker
from streams.worker_metrics import serve_status
from tokenweir.topics import Topics

ROLE = "events"
TICK_S = 0.5  # half of the usual interval


def add_events_agent(app: faust.App, events: str, folding: Folding[Any]) -> None:
    """Let `app` gather the events topic.

    Acknowledgements are the folding's: an event is held until the checkpoint that covers it (S2).
    An error ends the process: a worker without its agent would look alive and do nothing.
    """
    topic = app.topic(events, key_type=bytes, value_type=bytes)

    @app.agent(topic, name="events")
    async def gather(stream: Any) -> None:
        try:
            async for event in stream.noack().events():
                await folding.take(event)
        except Exception as error:  # Faust would start the agent again and go on
            end_process("the events agent", error)


def add_ticks(app: faust.App, events: str, ticks: Ticks) -> None:
    """Let time go on in the partitions that this worker has, as long as it lives."""

    async def tick() -> None:
        places = app.consumer.assignment()
        await ticks.write(sorted(at.partition for at in places if at.topic == events))

    app.timer(interval=TICK_S)(tick)


def run_events(config: Config, metrics_port: int | None = None) -> NoReturn:
    """Run one events worker until it is asked to end; exits 1 if anything is not as it must be."""
    brokers = ready_topics(config)
    choose_loop()
    app = worker_app(config, brokers, ROLE)
    topics = Topics(config.topic_prefix)
    ticks = Ticks(brokers, topics.events)
    folding = Folding(
        EventsLog(topics, config.partitions),
        app,
        declare_tables(app, config, EVENT_TABLES),
        ReportPublisher(brokers, ticks),
        Log(brokers),
    )
    add_events_agent(app, topics.events, folding)
    add_ticks(app, topics.events, ticks)
    if metrics_port is not None:
        serve_status(metrics_port, watch(app, folding, brokers), EventsCollector(folding, ticks))
    run_worker(app, config, ROLE)
