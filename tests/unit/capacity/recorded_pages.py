"""The pages that were recorded from running vLLM servers, and their times (recorded/README.md)."""

from pathlib import Path

from tokenweir.capacity.sample import Sample, read_sample

RECORDED = Path(__file__).parent / "recorded"
UNDER_LOAD = RECORDED / "0.32.0" / "007.370.txt"  # 4 run, 96 wait, 2 097 152 tokens of KV cache


def recorded(server: str) -> list[Sample]:
    """One server's scrapes in their order; times in seconds."""
    pages = sorted((RECORDED / server).glob("*.txt"))
    return [read_sample(page.read_text(), float(page.stem)) for page in pages]
