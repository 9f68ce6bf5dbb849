"""The names that outlive a deploy: topics, and the keys of the control topic's records."""

from dataclasses import dataclass

from aiokafka.partitioner import murmur2


@dataclass(frozen=True, slots=True)
class Topics:
    """The topics' names, behind a prefix that tests set so that runs do not meet."""

    prefix: str = ""

    @property
    def usage(self) -> str:
        """Everything that a pool's decisions depend on; key = pool."""
        return f"{self.prefix}tokenweir.usage.v1"

    @property
    def control(self) -> str:
        """What gateways obey; compacted."""
        return f"{self.prefix}tokenweir.control.v1"

    @property
    def journal(self) -> str:
        """What happened: decisions, audit, snapshots, breaks; key = pool."""
        return f"{self.prefix}tokenweir.journal.v1"

    @property
    def events(self) -> str:
        """An event a request, of gateways in other languages; any key."""
        return f"{self.prefix}tokenweir.events.v1"

    @property
    def spend(self) -> str:
        """What pools spent of quotas across pools; key = tenant."""
        return f"{self.prefix}tokenweir.spend.v1"

    @property
    def dead_letter(self) -> str:
        """Records that could not be used, with the reason."""
        return f"{self.prefix}tokenweir.dead-letter.v1"


def partition_of(pool: str, partitions: int) -> int:
    """The partition of a pool's records in every topic: Kafka's default for the key `pool`."""
    return partition_of_key(pool.encode(), partitions)


def partition_of_key(key: bytes, partitions: int) -> int:
    """Where Kafka's default partitioner puts a key: murmur2 of its bytes."""
    return int((murmur2(key) & 0x7FFFFFFF) % partitions)


def pool_key(pool: str) -> bytes:
    """The key of a pool's decision."""
    return pool.encode()


def leases_key(pool: str, gateway: str, part: int) -> bytes:
    """The key of one part of a gateway's leases (L9)."""
    return f"{pool}/{gateway}/{part}".encode()


def barred_key(pool: str) -> bytes:
    """The key of the record of who may not use starter pots (L8)."""
    return f"{pool}/barred".encode()


def roster_key(pool: str) -> bytes:
    """The key of the record of who is entitled."""
    return f"{pool}/roster".encode()
