from tests.unit.gateway.made import POOL, ask, obeying, settle
from tokenweir.gateway import Gateway
from tokenweir.gateway.spool import Spool

LEASE = ("gua", 1000, 1000, 100)


def test_what_does_not_fit_is_counted_and_leaves_a_hole() -> None:
    gate = obeying(LEASE)
    settle(gate, ask(gate, 1000, "gua", 5), 1200, 5)
    kept, lost = gate.cut(1500), gate.cut(2000)
    spool = Spool(kept[0].size + 10)
    spool.add(kept)
    spool.add(lost)
    assert (len(spool), spool.bytes, spool.oldest_ms) == (1, kept[0].size, 1500)
    assert (spool.losses.reports, spool.losses.rows, spool.losses.at_ms) == (1, 0, 2000)
    spool.acknowledged()
    spool.add(gate.cut(2500))
    head = spool.head()
    assert head is not None
    assert head.report.sequence == 3


def test_a_closing_report_always_fits() -> None:
    gate = obeying(LEASE)
    spool = Spool(0)
    spool.add(gate.cut(1500, closing=True))
    assert (len(spool), spool.losses.reports) == (1, 0)


def test_nothing_is_cut_after_a_closing_report() -> None:
    gateway = Gateway(brokers="nowhere:1", name="edge", pools=[POOL], clock=lambda: 0)
    outlet = gateway._outlets[POOL]
    for closing in (False, True, False, True):
        outlet.cut(closing)
    assert len(outlet.spool) == 2
