"""The control agent: usage in; decisions, leases and what happened out."""

from typing import Any, NoReturn

import faust

from streams.app import worker_app
from streams.config import Config
from streams.control_metrics import CONTROL
from streams.core import Core
from streams.folding import Folding
from streams.health import watch
from streams.log import Log
from streams.publish import Publisher
from streams.tables import declare_tables
from streams.usage_log import UsageLog
from streams.worker import choose_loop, end_process, ready_topics, run_worker
from streams.worker_metrics import WorkerCollector, serve_status
from tokenweir.core import ARITHMETIC
from tokenweir.core.pool import Pool, new_pool
from tokenweir.core.step import advance, fold
from tokenweir.rows import from_rows, to_rows
from tokenweir.topics import Topics

CORE: Core[Pool] = Core(ARITHMETIC, new_pool, advance, fold, to_rows, from_rows)


def add_control_agent(app: faust.App, usage: str, folding: Folding[Any]) -> None:
    """Let `app` fold the usage topic.

    Acknowledgements are the folding's: an event is held until the checkpoint that covers it (S2).
    An error ends the process: a worker without its agent would look alive and do nothing.
    """
    topic = app.topic(usage, key_type=bytes, value_type=bytes)

    @app.agent(topic, name="control")
    async def control(stream: Any) -> None:
        try:
            async for event in stream.noack().events():
                await folding.take(event)
        except Exception as error:  # Faust would start the agent again and go on
            end_process("the control agent", error)


def run_control(
    config: Config, core: Core[Any] = CORE, metrics_port: int | None = None
) -> NoReturn:
    """Run one control worker until it is asked to end; exits 1 if anything is not as it must be."""
    brokers = ready_topics(config)
    choose_loop()
    app = worker_app(config, brokers)
    topics = Topics(config.topic_prefix)
    publisher, reader = Publisher(brokers), Log(brokers)
    source = UsageLog(core, topics, config.partitions)
    folding = Folding(source, app, declare_tables(app, config), publisher, reader)
    add_control_agent(app, topics.usage, folding)
    if metrics_port is not None:
        serve_status(
            metrics_port,
            watch(app, folding, brokers),
            WorkerCollector(CONTROL, folding, topics),
        )
    run_worker(app, config)
