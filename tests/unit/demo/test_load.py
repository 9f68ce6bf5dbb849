"""The gateways of the demo, as processes."""

from pathlib import Path

import pytest

from streams.demo.load import Load
from tokenweir.errors import Unavailable


async def test_a_gateway_that_ends_at_once_is_told_with_its_last_words(tmp_path: Path) -> None:
    async with Load({"edge-1": ["--name=edge-1"]}, tmp_path) as load:
        with pytest.raises(Unavailable) as error:
            await load.begin()

    first, *words = str(error.value).splitlines()
    assert first == f"gateway edge-1 has ended too early; the end of {tmp_path}/edge-1.log:"
    assert "arguments are required: --brokers" in words[-1]
