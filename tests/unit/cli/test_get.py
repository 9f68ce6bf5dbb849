"""What `tokenweir get` makes of records."""

from tests.unit.gateway.made import leases
from tokenweir.cli.get.leases import rows_of


def test_a_starter_pot_shows_its_own_limits() -> None:
    part = leases("gw-1", ("acme", 400, 400, 0), pot_sequences=2, pot_kv_bytes=2**28)
    *_, pot = rows_of(part, 0)
    assert pot["tenant"] is None
    assert (pot["sequences"], pot["kv_bytes"]) == (2, 2**28)
    assert pot["floor_milli_tokens_per_s"] is None
