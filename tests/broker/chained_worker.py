"""A control worker as `python -m streams control` runs it, on the chained core.

It takes the port of its metrics. While its data folder has a file `hold` with a pool's name, that
pool's next record is not finished, and the event loop is stuck.
"""

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agents.control import run_control
from streams.config import read_config
from tests.chained import CHAINED, Chained
from tokenweir.records.journal import JournalEntry

CONFIG = read_config(os.environ)
HOLD = CONFIG.data / "hold"


def fold(state: Chained, record: Any, append_ms: int) -> Sequence[JournalEntry]:
    while HOLD.exists() and HOLD.read_text() == state.name:
        time.sleep(0.1)
    return CHAINED.fold(state, record, append_ms)


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else None
    run_control(CONFIG, replace(CHAINED, fold=fold), port)
