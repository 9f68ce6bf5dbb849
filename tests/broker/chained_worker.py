"""A control worker as `python -m streams control` runs it, on the chained core."""

import os

from agents.control import run_control
from streams.config import read_config
from tests.chained import CHAINED

if __name__ == "__main__":
    run_control(read_config(os.environ), CHAINED)
