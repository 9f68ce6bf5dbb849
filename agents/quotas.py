"""The quotas agent: what pools spent of shared quotas in, each pool's ceiling out (Q2)."""

from typing import Any, NoReturn

import faust

from streams.app import worker_app
from streams.config import Config
from streams.folding import Folding
from streams.health import watch
from streams.log import Log
from streams.publish import Publisher
from streams.quota_log import SpendLog
from streams.quota_metrics import QUOTAS
from streams.tables import QUOTA_TABLES, declare_tables
from streams.worker import choose_loop, end_process, ready_topics, run_worker
from streams.worker_metrics import WorkerCollector, serve_status
from tokenweir.topics import Topics

ROLE = "quotas"


def add_quotas_agent(app: faust.App, spend: str, folding: Folding[Any]) -> None:
    """Let `app` fold the spend topic.

    Acknowledgements are the folding's: an event is held until the checkpoint that covers it (S2).
    An error ends the process: a worker without its agent would look alive and do nothing.
    """
    topic = app.topic(spend, key_type=bytes, value_type=bytes)

    @app.agent(topic, name="quotas")
    async def share(stream: Any) -> None:
        try:
            async for event in stream.noack().events():
                await folding.take(event)
        except Exception as error:  # Faust would start the agent again and go on
            end_process("the quotas agent", error)


def run_quotas(config: Config, metrics_port: int | None = None) -> NoReturn:
    """Run one quotas worker until it is asked to end; exits 1 if anything is not as it must be."""
    brokers = ready_topics(config)
    choose_loop()
    app = worker_app(config, brokers, ROLE)
    topics = Topics(config.topic_prefix)
    folding = Folding(
        SpendLog(topics, config.partitions),
        app,
        declare_tables(app, config, QUOTA_TABLES),
        Publisher(brokers),
        Log(brokers),
    )
    add_quotas_agent(app, topics.spend, folding)
    if metrics_port is not None:
        serve_status(
            metrics_port,
            watch(app, folding, brokers),
            WorkerCollector(QUOTAS, folding, topics),
        )
    run_worker(app, config, ROLE)
