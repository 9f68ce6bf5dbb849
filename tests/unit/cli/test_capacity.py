"""What the options of `tokenweir capacity` may say; no broker is needed."""

import pytest

from tokenweir.capacity.engine import Engine
from tokenweir.capacity.report import Told
from tokenweir.capacity.sample import Sample
from tokenweir.cli.capacity.report import check_urls, line_of
from tokenweir.cli.capacity.set import read_report, said
from tokenweir.errors import BadInput
from tokenweir.records.usage import CapacityReport


def test_quantities_are_those_of_a_spec() -> None:
    found = read_report("chat", "1.2M/min", "40 GiB", "256")
    assert found == CapacityReport("chat", "cli", 20_000_000, 40 * 2**30, 256)
    assert said(found) == "20 000 tokens/s, 40 GiB KV cache, 256 sequences"
    assert read_report("chat", "0", None, None).tokens_per_s == 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("7 km", None, None), "--tokens-per-s: value '7 km': tokens a second, or with"),
        ((None, "0", None), "--kv-bytes: value '0': bytes, or with a unit"),
        ((None, None, "1.5"), "--sequences: value '1.5': a whole number from 1 to"),
        ((None, None, None), "nothing to set: give --tokens-per-s, --kv-bytes or --sequences"),
    ],
)
def test_what_cannot_be_is_said(given: tuple[str | None, ...], message: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_report("chat", *given)
    assert str(caught.value).startswith(message)


def test_an_address_is_one_of_a_page_and_given_once() -> None:
    check_urls(["http://a:8000/metrics", "https://b/metrics"])
    for wrong in ("a:8000", "ftp://a/metrics", "http:///metrics"):
        with pytest.raises(BadInput, match=r"--url: value .*: http://HOST:PORT/metrics"):
            check_urls([wrong])
    with pytest.raises(BadInput, match="is given twice"):
        check_urls(["http://a/metrics", "http://a/metrics"])


def test_a_report_is_a_line() -> None:
    sample = Sample(0, 1, 31, 4, True, 0, 0, 0, 0.614, 1000)
    servers = (Engine(last=sample), Engine(last=sample, misses=3))
    told = Told(CapacityReport("chat", "vllm", 10_000_000, None, 256), servers, 8, 3)
    assert line_of(told) == (
        "chat: 10 000 tokens/s, 256 sequences; 1 of 2 servers up; 31 running, 4 waiting; "
        "KV caches 61% full; 3 of 8 scrapes failed"
    )
