"""One worker process: Faust on uvloop, with logs that a person can read."""

import asyncio
import logging.config
import os
import sys
from typing import NoReturn

import faust
import mode.loop

from streams.app import state_folder
from streams.config import Config
from streams.topics import create_topics, find_topics, problems
from tokenweir.errors import BadInput

log = logging.getLogger(__name__)
FAILED = 1

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"level": "WARNING", "handlers": ["stderr"]},
    # Classes of Faust's that we extend tell there what they start: only these are ours to hear.
    "loggers": {f"streams.{name}": {"level": "INFO"} for name in ("folding", "worker")},
}


def choose_loop() -> None:
    """Use uvloop where there is one, for Faust's threads too; before the application is made."""
    if sys.platform != "win32":
        mode.loop.use("uvloop")


def ready_topics(config: Config) -> str:
    """Create what is missing, check everything, and return the brokers' addresses.

    Raises `BadInput` with every mismatch, a line each, or `Unavailable` when no broker answers.
    """
    logging.config.dictConfig(LOGGING)
    if config.brokers is None:
        raise BadInput("TOKENWEIR_BROKERS is not set: host:port of a Kafka broker is needed")
    brokers = config.brokers
    for name in asyncio.run(create_topics(config, brokers)):
        log.info("created topic %s", name)
    found = problems(config, asyncio.run(find_topics(config, brokers)))
    if found:
        raise BadInput("\n".join(found))
    return brokers


def run_worker(app: faust.App, config: Config, role: str = "control") -> NoReturn:
    """Run `app` until it is asked to end (exit 0) or something breaks (exit 1)."""
    state_folder(config, role).mkdir(parents=True, exist_ok=True)
    worker = faust.Worker(app, loglevel="WARNING", logging_config=LOGGING, quiet=True, daemon=True)
    worker.spinner = None  # it would draw into the log
    worker.execute_from_commandline()


def end_process(where: str, error: BaseException) -> NoReturn:
    """End this process at once, with exit code 1.

    What is safe is in the log and the tables; an orderly end would wait for what is broken.
    """
    log.critical("%s failed: %r", where, error, exc_info=error)
    logging.shutdown()
    os._exit(FAILED)
