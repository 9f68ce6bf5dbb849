"""Every mismatch of the topics is one line that says what to do, all at once."""

from dataclasses import replace

from streams.config import Config
from streams.topics import KEPT, Found, plans, problems

CONFIG = Config(partitions=8)
USAGE, CONTROL = "tokenweir.usage.v1", "tokenweir.control.v1"
JOURNAL = "tokenweir.journal.v1"


def well() -> dict[str, Found]:
    return {plan.name: Found(8, plan.settings()) for plan in plans(CONFIG)}


def changed(topic: str, **settings: str) -> dict[str, Found]:
    found = well()
    named = {name.replace("_", "."): value for name, value in settings.items()}
    found[topic] = replace(found[topic], settings={**found[topic].settings, **named})
    return found


def test_topics_as_we_create_them_have_no_problems() -> None:
    assert problems(CONFIG, well()) == []


def test_there_are_six_topics_and_a_changelog_for_each_table() -> None:
    assert [plan.name for plan in plans(CONFIG)][4:] == [
        "tokenweir-control-consumption-changelog",
        "tokenweir-control-ewma-changelog",
        "tokenweir-control-debt-changelog",
        "tokenweir-control-pools-changelog",
        "tokenweir.events.v1",
        "tokenweir-events-seen-changelog",
        "tokenweir-events-pools-changelog",
        "tokenweir.spend.v1",
        "tokenweir-quotas-shared-changelog",
        "tokenweir-quotas-pools-changelog",
    ]


def test_a_mismatch_names_topic_setting_value_limit_and_mend() -> None:
    assert problems(CONFIG, changed(CONTROL, cleanup_policy="delete")) == [
        f"topic {CONTROL}: cleanup.policy is delete, must be compact: kafka-configs --alter "
        f"--entity-type topics --entity-name {CONTROL} --add-config cleanup.policy=compact"
    ]


def test_68_control_must_be_compacted_only() -> None:
    [line] = problems(CONFIG, changed(CONTROL, cleanup_policy="compact,delete"))
    assert "must be compact:" in line


def test_usage_must_have_the_brokers_time() -> None:
    [line] = problems(CONFIG, changed(USAGE, message_timestamp_type="CreateTime"))
    assert "message.timestamp.type is CreateTime, must be LogAppendTime" in line


def test_s4_usage_is_kept_a_day_at_least() -> None:
    [line] = problems(CONFIG, changed(USAGE, retention_ms="3600000"))
    assert f"{KEPT} is 3600000, must be at least 86400000" in line


def test_s4_the_journal_is_kept_longer_than_usage() -> None:
    [line] = problems(CONFIG, changed(JOURNAL, retention_ms="172800000"))
    assert "retention.ms is 172800000, must be more than 172800000" in line
    assert "--add-config retention.ms=1209600000" in line


def test_s4_usage_that_is_kept_for_ever_needs_a_journal_that_is() -> None:
    found = changed(USAGE, retention_ms="-1")
    [line] = problems(CONFIG, found)
    assert f"topic {JOURNAL}" in line
    found[JOURNAL] = changed(JOURNAL, retention_ms="-1")[JOURNAL]
    assert problems(CONFIG, found) == []


def test_a_changelog_must_be_compacted_eagerly() -> None:
    [line] = problems(
        CONFIG, changed("tokenweir-control-pools-changelog", min_cleanable_dirty_ratio="0.5")
    )
    assert "min.cleanable.dirty.ratio is 0.5, must be at most 0.1" in line


def test_all_topics_need_the_same_number_of_partitions() -> None:
    found = well()
    found[JOURNAL] = replace(found[JOURNAL], partitions=3)
    [line] = problems(CONFIG, found)
    assert f"topic {JOURNAL}: partitions is 3, must be 8" in line
    assert "TOKENWEIR_PARTITIONS=3" in line


def test_everything_that_is_wrong_is_told_at_once() -> None:
    found = changed(USAGE, message_timestamp_type="CreateTime", retention_ms="1")
    del found[CONTROL]
    assert len(problems(CONFIG, found)) == 3
