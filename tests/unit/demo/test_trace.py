import gzip
from collections import Counter
from pathlib import Path

import pytest

from streams.demo.trace import read_traces, tenants_of
from tokenweir.errors import BadInput

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799600,4808,10
2023-11-16 18:17:05.9799600,3180,8
"""
MOONCAKE = """{"timestamp": 0, "input_length": 1300, "output_length": 5, "hash_ids": [0, 1, 2]}
{"timestamp": 3000, "input_length": 1500, "output_length": 7, "hash_ids": [0, 1, 9]}
{"timestamp": 6000, "input_length": 1000, "output_length": 1, "hash_ids": [7, 1]}
{"timestamp": 9000, "input_length": 1300, "output_length": 2, "hash_ids": [0, 1, 2]}
"""
TRACES = Path(__file__).parents[4] / "shared" / "traces"


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_an_azure_file_is_a_tenant_with_its_lengths_and_distances(tmp_path: Path) -> None:
    file = write(tmp_path / "AzureLLMInferenceTrace_code.csv", AZURE)

    first, second = read_traces([file], speed=2)

    assert (first.tenant, first.at_us, first.uncached, first.cached, first.out) == (
        "code", 0, 4808, 0, 10,
    )  # fmt: skip
    assert (second.at_us, second.uncached, second.out) == (1_000_000, 3180, 8)


def test_seven_fractional_digits_are_read(tmp_path: Path) -> None:
    file = write(tmp_path / "a.csv", AZURE.replace("05.9799600", "03.9799609"))

    assert [arrival.at_us for arrival in read_traces([file], speed=1)] == [0, 0]


def test_a_repeated_prefix_of_a_mooncake_file_is_cached_and_nothing_else(tmp_path: Path) -> None:
    file = write(tmp_path / "conversation_trace.jsonl", MOONCAKE)

    arrivals = read_traces([file], speed=1)

    # 0 1 2 | 0 1 9: two blocks | 7 1: the first is new | 0 1 2: all, not more than the input
    assert [arrival.cached for arrival in arrivals] == [0, 1024, 0, 1300]
    assert [arrival.uncached for arrival in arrivals] == [1300, 476, 1000, 0]
    assert {arrival.tenant for arrival in arrivals} == {"conversation"}


def test_a_packed_file_reads_like_the_plain_one(tmp_path: Path) -> None:
    plain = write(tmp_path / "code.csv", AZURE)
    packed = tmp_path / "packed" / "code.csv.gz"
    packed.parent.mkdir()
    packed.write_bytes(gzip.compress(AZURE.encode()))

    assert read_traces([packed], speed=1) == read_traces([plain], speed=1)


def test_dated_files_keep_their_distance(tmp_path: Path) -> None:
    early = write(tmp_path / "early.csv", AZURE)
    late = write(tmp_path / "late.csv", AZURE.replace("18:17:", "18:18:"))

    arrivals = read_traces([late, early], speed=1)

    assert [(arrival.tenant, arrival.at_us) for arrival in arrivals] == [
        ("early", 0),
        ("early", 2_000_000),
        ("late", 60_000_000),
        ("late", 62_000_000),
    ]


def test_files_of_one_name_are_different_tenants() -> None:
    paths = [Path("a/code.csv"), Path("b/code.csv"), Path("c/code.csv"), Path("trace.csv")]

    assert tenants_of(paths) == ["code", "code-2", "code-3", "trace"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a,b,c\n1,2,3\n", "line 1 is 'a,b,c'"),
        ("", "line 1 is ''"),
        (AZURE.replace("3180", "-1"), "line 3: '-1': a whole number of at least 0"),
        (AZURE.replace("3180", "NaN"), "line 3: 'NaN'"),
        (AZURE.replace("2023-11-16 18:17:05.9799600", "yesterday"), "line 3: Invalid isoformat"),
        (AZURE + "2023-11-16 18:17:06\n", "line 4: None"),
        (MOONCAKE.replace("1500", "true"), "line 2: ValueError('True: a whole number"),
        (MOONCAKE + "{broken\n", "line 5: JSONDecodeError"),
        (MOONCAKE.replace("[7, 1]", "7"), "line 3: ValueError('hash_ids=7"),
    ],
)
def test_a_bad_line_is_named_with_what_is_allowed(tmp_path: Path, text: str, says: str) -> None:
    file = write(tmp_path / "bad", text)

    with pytest.raises(BadInput) as error:
        read_traces([file], speed=1)

    assert str(file) in str(error.value)
    assert says in str(error.value)


def test_a_cut_off_packed_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    file = tmp_path / "cut.csv.gz"
    file.write_bytes(gzip.compress(AZURE.encode())[:-12])

    with pytest.raises(BadInput, match=r"cut\.csv\.gz: cannot be read"):
        read_traces([file], speed=1)


@pytest.mark.skipif(not TRACES.exists(), reason=f"the published traces are not in {TRACES}")
def test_the_published_traces_have_their_published_totals() -> None:
    azure = TRACES / "azure2023"
    files = [azure / f"AzureLLMInferenceTrace_{name}.csv.gz" for name in ("code", "conv")]

    totals: Counter[tuple[str, str]] = Counter()
    arrivals = read_traces(files, speed=60)
    for arrival in arrivals:
        totals[arrival.tenant, "in"] += arrival.uncached + arrival.cached
        totals[arrival.tenant, "out"] += arrival.out

    assert len(arrivals) == 28_185
    assert totals == {
        ("code", "in"): 18_059_974,
        ("code", "out"): 245_896,
        ("conv", "in"): 22_361_870,
        ("conv", "out"): 4_088_665,
    }
