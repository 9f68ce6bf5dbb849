"""The topics and their settings: created as they must be, and checked at each start.

Every mismatch is one line that names the topic, the setting, what it is, what it must be, and how
to mend it; all are told at once.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from streams.config import Config
from streams.tables import EVENT_TABLES, QUOTA_TABLES, TABLES, changelog_name
from tokenweir.errors import Unavailable
from tokenweir.topics import Topics

HOUR_MS = 3_600_000
USAGE_KEPT_MS = 24 * HOUR_MS  # at least (S4)
LARGE_BYTES = 4 << 20  # a dead letter holds a whole record, a decision a row for each tenant

# Kafka's own names.
POLICY, KEPT, LARGEST = "cleanup.policy", "retention.ms", "max.message.bytes"
TIMES, DIRTY, LAG = "message.timestamp.type", "min.cleanable.dirty.ratio", "max.compaction.lag.ms"


@dataclass(frozen=True, slots=True)
class Want:
    """What a setting is when we create the topic, and what else would do."""

    value: str
    wanted: str
    fits: Callable[[str], bool]


def exactly(value: str) -> Want:
    """The setting must be this."""
    return Want(value, value, lambda found: found == value)


def at_least(least: int, value: int | None = None) -> Want:
    """The setting must be this number or more; -1 is without limit."""
    chosen = str(least if value is None else value)
    return Want(chosen, f"at least {least}", lambda found: int(found) == -1 or int(found) >= least)


def at_most(most: float, value: float | None = None) -> Want:
    """The setting must be this number or less."""
    chosen = str(most if value is None else value)
    return Want(chosen, f"at most {most}", lambda found: float(found) <= most)


@dataclass(frozen=True, slots=True)
class Plan:
    """How one topic must be; `given` is set when we create it and not checked afterwards."""

    name: str
    wants: Mapping[str, Want]
    given: Mapping[str, str] = field(default_factory=dict)

    def settings(self) -> dict[str, str]:
        """What the topic is created with."""
        return {**self.given, **{name: want.value for name, want in self.wants.items()}}


@dataclass(frozen=True, slots=True)
class Found:
    """How one topic is."""

    partitions: int
    settings: Mapping[str, str]


def plans(config: Config) -> list[Plan]:
    """Every topic of a deployment; `usage` is the first."""
    topics = Topics(config.topic_prefix)
    changelog = {
        POLICY: exactly("compact"),
        LARGEST: at_least(LARGE_BYTES),
        # Compacted eagerly: a worker that takes a partition over reads the whole changelog.
        DIRTY: at_most(0.1, 0.05),
        LAG: at_most(HOUR_MS, 300_000),
        "segment.ms": at_most(HOUR_MS, 60_000),
        "segment.bytes": at_most(128 << 20, 16 << 20),
    }
    read_again = {
        POLICY: exactly("delete"),
        TIMES: exactly("LogAppendTime"),
        KEPT: at_least(USAGE_KEPT_MS, 48 * HOUR_MS),
        "retention.bytes": exactly("-1"),
    }
    return [
        Plan(topics.usage, read_again),
        Plan(
            topics.control,
            {POLICY: exactly("compact"), LARGEST: at_least(LARGE_BYTES)},
            {DIRTY: "0.1", "segment.ms": "600000"},
        ),
        Plan(
            topics.journal,
            {
                POLICY: exactly("delete"),
                LARGEST: at_least(LARGE_BYTES),
                KEPT: at_least(USAGE_KEPT_MS, 14 * 24 * HOUR_MS),
                "retention.bytes": exactly("-1"),
            },
            {TIMES: "LogAppendTime"},
        ),
        Plan(
            topics.dead_letter,
            {POLICY: exactly("delete"), LARGEST: at_least(LARGE_BYTES)},
            {KEPT: str(14 * 24 * HOUR_MS), TIMES: "LogAppendTime"},
        ),
        *(Plan(changelog_name(config, table), changelog) for table in TABLES),
        Plan(topics.events, read_again),
        *(Plan(changelog_name(config, table, "events"), changelog) for table in EVENT_TABLES),
        Plan(topics.spend, read_again),
        *(Plan(changelog_name(config, table, "quotas"), changelog) for table in QUOTA_TABLES),
    ]


def problems(config: Config, found: Mapping[str, Found]) -> list[str]:
    """One line for each thing that is not as it must be; none when all is well."""
    lines = []
    for plan in plans(config):
        topic = found.get(plan.name)
        if topic is None:
            lines.append(f"topic {plan.name}: missing; create it: python -m streams topics")
        else:
            lines += _partition_problems(config, plan, topic) + _setting_problems(plan, topic)
    return lines + _kept_problems(config, found)


async def create_topics(config: Config, brokers: str) -> list[str]:
    """Create the topics that are missing; their names."""
    async with _admin(brokers) as admin:
        there = set(await admin.list_topics())
        missing = [plan for plan in plans(config) if plan.name not in there]
        if missing:
            await _create(admin, config, missing)
        return [plan.name for plan in missing]


async def find_topics(config: Config, brokers: str) -> dict[str, Found]:
    """How the topics are now; those that are missing are left out."""
    names = [plan.name for plan in plans(config)]
    async with _admin(brokers) as admin:
        there = set(await admin.list_topics())
        names = [name for name in names if name in there]
        described = await admin.describe_topics(names) if names else []
        counts = {topic["topic"]: len(topic["partitions"]) for topic in described}
        settings = await _settings(admin, names)
    return {name: Found(counts[name], settings[name]) for name in names}


def _partition_problems(config: Config, plan: Plan, topic: Found) -> list[str]:
    if topic.partitions == config.partitions:
        return []
    return [
        f"topic {plan.name}: partitions is {topic.partitions}, must be {config.partitions} as "
        f"TOKENWEIR_PARTITIONS says; all topics need the same number: "
        f"set TOKENWEIR_PARTITIONS={topic.partitions}, or delete the topic and start again"
    ]


def _setting_problems(plan: Plan, topic: Found) -> list[str]:
    return [
        _line(plan.name, name, topic.settings[name], want.wanted, want.value)
        for name, want in plan.wants.items()
        if not want.fits(topic.settings[name])
    ]


def _kept_problems(config: Config, found: Mapping[str, Found]) -> list[str]:
    """Whether the journal outlives the usage topic: a pool is restored from it (S4)."""
    topics = Topics(config.topic_prefix)
    usage, journal = found.get(topics.usage), found.get(topics.journal)
    if usage is None or journal is None or journal.settings[KEPT] == "-1":
        return []
    usage_ms, journal_ms = int(usage.settings[KEPT]), int(journal.settings[KEPT])
    if 0 <= usage_ms < journal_ms:
        return []
    limit = "-1" if usage_ms < 0 else f"more than {usage_ms}, what the usage topic has"
    mend = "-1" if usage_ms < 0 else str(7 * usage_ms)
    return [_line(topics.journal, KEPT, str(journal_ms), limit, mend)]


def _line(topic: str, setting: str, found: str, wanted: str, mend: str) -> str:
    return (
        f"topic {topic}: {setting} is {found}, must be {wanted}: kafka-configs --alter "
        f"--entity-type topics --entity-name {topic} --add-config {setting}={mend}"
    )


class _admin:  # noqa: N801 - a context manager, used like a function
    """An admin client, or `Unavailable` when no broker answers."""

    def __init__(self, brokers: str) -> None:
        self.brokers = brokers
        self.client = AIOKafkaAdminClient(bootstrap_servers=brokers)

    async def __aenter__(self) -> AIOKafkaAdminClient:
        try:
            await self.client.start()
        except Exception as error:
            await self.client.close()
            raise Unavailable(
                f"no Kafka broker answers at {self.brokers} ({error}): "
                "start one (python -m streams broker) or set TOKENWEIR_BROKERS"
            ) from error
        return self.client

    async def __aexit__(self, *_: object) -> None:
        await self.client.close()


async def _create(admin: AIOKafkaAdminClient, config: Config, missing: Sequence[Plan]) -> None:
    wanted = [
        NewTopic(plan.name, config.partitions, config.replication, topic_configs=plan.settings())
        for plan in missing
    ]
    response = await admin.create_topics(wanted)
    for name, code, *message in response.topic_errors:
        if code not in (0, TOPIC_EXISTS):
            raise Unavailable(f"topic {name} cannot be created: {message} (Kafka error {code})")


TOPIC_EXISTS = 36  # another worker was faster


async def _settings(admin: AIOKafkaAdminClient, names: Sequence[str]) -> dict[str, dict[str, str]]:
    wanted = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
    found: dict[str, dict[str, str]] = {}
    for response in await admin.describe_configs(wanted) if wanted else []:
        for _code, _message, _kind, name, entries in response.resources:
            found[name] = {entry[0]: entry[1] for entry in entries}
    return found
