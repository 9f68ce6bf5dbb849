"""Promise 2: the same log gives the same bytes, on any machine and from any restored state."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
# NumPy's vector extensions that this processor has and that can be turned off.
EXTENSIONS = [
    name
    for name in np._core._multiarray_umath.__cpu_dispatch__  # type: ignore[attr-defined]
    if np._core._multiarray_umath.__cpu_features__.get(name)  # type: ignore[attr-defined]
]


def digest(*arguments: str, **environment: str) -> str:
    command = [sys.executable, "-m", "tests.property.long_log", *arguments]
    settings = {**os.environ, "PYTHONHASHSEED": "0", **environment}
    done = subprocess.run(
        command, cwd=ROOT, env=settings, capture_output=True, text=True, check=True, timeout=600
    )
    return done.stdout.strip()


@pytest.fixture(scope="module")
def usual() -> str:
    found = digest()
    assert len(found) == 64
    return found


def test_without_vector_extensions_the_bytes_are_the_same(usual: str) -> None:
    if not EXTENSIONS:
        pytest.skip("this processor has no vector extension that NumPy can do without")
    assert digest(NPY_DISABLE_CPU_FEATURES=" ".join(EXTENSIONS)) == usual


def test_under_another_hash_seed_the_bytes_are_the_same(usual: str) -> None:
    assert digest(PYTHONHASHSEED="12345") == usual


def test_with_tenants_restored_in_another_order_the_bytes_are_the_same(usual: str) -> None:
    assert digest("mixed") == usual
