"""How long the random runs are: `TOKENWEIR_STEPS` events for `make experiments`, few otherwise."""

import os

import pytest


@pytest.fixture(scope="session")
def steps() -> int:
    """Events of a random run of pool and gateways."""
    return int(os.environ.get("TOKENWEIR_STEPS", "10000"))
