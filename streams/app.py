"""The Faust applications of the workers, and their settings."""

from pathlib import Path

import faust
import faust.tables

from streams.config import Config
from streams.tables import application_id
from streams.topics import LARGE_BYTES
from streams.transport import Transport


class WorkerApp(faust.App):
    """Faust with our transport."""

    def _new_transport(self) -> Transport:
        return Transport(self.conf.broker_consumer, self)


class TableManager(faust.tables.TableManager):
    """Faust waits a second for tables to be declared; ours are, before the application starts."""

    async def on_start(self) -> None:
        """As Faust has it, without the wait."""
        await self._update_channels()
        await self.recovery.start()


def worker_app(config: Config, brokers: str, role: str = "control") -> faust.App:
    """An application without agents or tables yet; `agents` add them.

    Call it when the event loop's policy is set: Faust's threads make loops of their own.
    """
    return WorkerApp(
        application_id(config, role),
        broker=[f"kafka://{address}" for address in brokers.split(",")],
        store="rocksdb://",
        datadir=str(state_folder(config, role)),
        origin="agents",
        autodiscover=False,
        key_serializer="raw",
        value_serializer="raw",
        topic_partitions=config.partitions,
        topic_replication_factor=config.replication,
        topic_disable_leader=True,  # a hidden topic for timers on one worker; there are none
        table_standby_replicas=0,
        # A worker that is killed and comes back is the same member: nobody waits for its time-out.
        consumer_group_instance_id=f"{application_id(config, role)}-{config.worker}",
        broker_session_timeout=6.0,  # the least that a broker allows by default
        broker_heartbeat_interval=1.5,
        broker_request_timeout=30.0,
        broker_commit_interval=0.5,
        consumer_max_fetch_size=4 << 20,
        stream_buffer_maxsize=512,  # messages of up to a megabyte each
        stream_wait_empty=False,  # events are held until a checkpoint: a rebalance must not wait
        stream_recovery_delay=0.0,
        recovery_consistency_check=False,  # our checksums are one, and a lost changelog is no end
        producer_linger=0.0,
        producer_max_request_size=LARGE_BYTES,
        TableManager=TableManager,
        web_enabled=False,
        worker_redirect_stdouts=False,
    )


def state_folder(config: Config, role: str = "control") -> Path:
    """Where a worker keeps its RocksDB; two workers never share one."""
    return config.data / f"{role}-{config.worker}"
