"""What our broker is told: its properties, its log settings and the Java command that runs it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

LOG4J2 = Path(__file__).with_name("log4j2.properties")  # Kafka 4
LOG4J1 = Path(__file__).with_name("log4j1.properties")  # Kafka 3

MAX_MESSAGE_BYTES = 4 << 20

# One node: replicas are one everywhere, and the internal topics have few partitions, which are
# made when the first group or transaction comes and would make it wait.
ONE_NODE = {
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 4,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "share.coordinator.state.topic.num.partitions": 4,
}

# A laptop: few threads, and a cleaner's map that fits a small heap (16 MiB: 600 000 keys; the
# default of 128 MiB is taken at the start).
SMALL_MACHINE = {
    "num.network.threads": 2,
    "num.io.threads": 4,
    "background.threads": 2,
    "log.cleaner.dedupe.buffer.size": 16 << 20,
    "log.cleaner.backoff.ms": 2_000,
}

# After a SIGKILL the controller takes the broker's new life for a twin until the old one's session
# is over: 9 s by default. Nobody else could take over here, so a short session costs nothing.
FAST_RETURN = {
    "broker.session.timeout.ms": 3_000,
    "broker.heartbeat.interval.ms": 500,
}

BEHAVIOUR = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1_000,
    "message.max.bytes": MAX_MESSAGE_BYTES,
    "replica.fetch.max.bytes": MAX_MESSAGE_BYTES,
}


@dataclass(frozen=True, slots=True)
class Door:
    """A further listener: whoever comes in there is told to come back to `advertised`."""

    listens: int
    advertised: int


@dataclass(frozen=True, slots=True)
class Ports:
    """Where the broker listens on loopback."""

    client: int
    controller: int
    doors: tuple[Door, ...] = ()


def server_properties(logs: Path, ports: Ports) -> str:
    """Return `server.properties` for a node that is broker and controller in one.

    The voters are named here and not in the data, so the ports may change from start to start.
    """
    doors = {f"DOOR{place}": door for place, door in enumerate(ports.doors)}
    advertised = {"CLIENT": ports.client} | {name: door.advertised for name, door in doors.items()}
    listening = {"CLIENT": ports.client} | {name: door.listens for name, door in doors.items()}
    listening["CONTROLLER"] = ports.controller
    node = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{ports.controller}",
        "listeners": _addresses(listening),
        "advertised.listeners": _addresses(advertised),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in listening),
        "inter.broker.listener.name": "CLIENT",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": logs,
    }
    settings = node | ONE_NODE | SMALL_MACHINE | FAST_RETURN | BEHAVIOUR
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def _addresses(ports: Mapping[str, int]) -> str:
    return ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())


def java_command(
    java: Path, jars: Sequence[Path], heap_mb: int, scratch: Path, *main: str | Path
) -> list[str]:
    """Return the command that runs a class of Kafka with its arguments."""
    return [
        str(java),
        f"-Xmx{heap_mb}m",
        # Measured on two slow cores with records of 1 kB: half the processor time of the defaults,
        # 45 MB less, up in 3.9 s instead of 5, and the same throughput.
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-XX:+ExitOnOutOfMemoryError",
        "-XX:-UsePerfData",  # no file in the system's temporary folder
        f"-Djava.io.tmpdir={scratch}",  # the compression libraries unpack themselves here
        "-Djava.awt.headless=true",
        "--enable-native-access=ALL-UNNAMED",
        f"-Dlog4j2.configurationFile={LOG4J2}",
        f"-Dlog4j.configuration={LOG4J1.as_uri()}",
        "-cp",
        ":".join(map(str, jars)),
        *map(str, main),
    ]
