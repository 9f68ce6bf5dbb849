"""Faust's Kafka transport with three corrections that it has no settings for."""

from typing import Any

from faust.transport.drivers import aiokafka as driver
from mode.services import WaitResults

# Faust asks for 1.5 s. While a broker holds back the answer for a partition that has nothing new,
# aiokafka asks it for no other partition, so one that is read slowly stalls for that long.
FETCH_WAIT_MS = 50
# Faust waits 1 s for new messages of the partitions whose buffers were not full when it asked; one
# whose buffer empties in the meantime stands still.
POLL_S = 0.05


class ConsumerThread(driver.AIOKafkaConsumerThread):
    """Fetches without long waits."""

    def _create_worker_consumer(self, transport: Any) -> Any:
        consumer = super()._create_worker_consumer(transport)
        consumer._fetch_max_wait_ms = FETCH_WAIT_MS
        return consumer


class Consumer(driver.Consumer):
    """Polls without long waits, and hands a message on without making four tasks for it."""

    def _new_consumer_thread(self) -> ConsumerThread:
        return ConsumerThread(self, loop=self.loop, beacon=self.beacon)

    async def _getmany(self, active_partitions: Any, timeout: float) -> Any:
        return await super()._getmany(active_partitions, min(timeout, POLL_S))

    async def wait_first(self, *waits: Any, timeout: Any = None) -> WaitResults:
        """As Faust has it: the first of `waits` to end, or this service's stop.

        Faust calls it for each message with the message's delivery and the end of the flow. The
        delivery is simply awaited when it will not wait.
        """
        if len(waits) == 2 and timeout is None and self._delivers_at_once():
            delivery, suspension = waits
            suspension.close()
            await delivery
            return WaitResults([delivery], [None], False)
        return await super().wait_first(*waits, timeout=timeout)

    def _delivers_at_once(self) -> bool:
        app = self.app
        return (
            self.flow_active
            and app.flow_control.is_active()
            and app.producer.buffer.size <= app.producer.buffer.max_messages
            and not any(channel.queue.full() for channel in app.topics)
        )


class Transport(driver.Transport):
    """The transport of `streams.app`."""

    Consumer = Consumer
