"""All gateways' figures in one array."""

import numpy as np

from tests.pools import START, pool_with, report, spec, step, tenant
from tokenweir.core.pool import FIGURES, Gateway, Pool, gathered
from tokenweir.core.reindex import reindex
from tokenweir.core.terms import terms_of


def together(pool: Pool) -> bool:
    """Whether each gateway's figures are its own part of all of them, by name."""
    whole, gateways = gathered(pool), pool.gateways
    parts = [gateway.figures for gateway in gateways.values()]
    return (
        whole.shape == (len(gateways), FIGURES, len(pool.terms.names))
        and [*gateways] == sorted(gateways)
        and all(np.shares_memory(row, part) for row, part in zip(whole, parts, strict=True))
        and [row.tolist() for row in whole] == [part.tolist() for part in parts]
    )


def test_gateways_that_come_and_go_keep_their_figures() -> None:
    pool = pool_with(spec(tenant("a", "elastic", 1_000)))
    assert together(pool)
    for number, name in enumerate(("m", "z", "b"), 1):
        step(pool, report(name, 1, {"a": 100 * number}, sequences={"a": number}), START + number)
        assert together(pool)
    place = pool.terms.index["a"]
    assert [gateway.spent[place] for gateway in pool.gateways.values()] == [300, 100, 200]
    del pool.gateways["m"]
    assert together(pool)
    assert [gateway.spent[place] for gateway in pool.gateways.values()] == [300, 200]


def test_what_is_gathered_is_not_copied_again() -> None:
    pool = pool_with(spec(tenant("a", "elastic", 1_000)))
    step(pool, report("g", 1, {"a": 1}), START + 1)
    assert gathered(pool) is gathered(pool)


def test_one_gateway_of_one_tenant_is_told_apart_from_an_array_of_another_shape() -> None:
    pool = pool_with(spec(tenant("a", "elastic", 1_000)))
    pool.gateways["g"] = Gateway("g", len(pool.terms.names))
    gathered(pool)
    reindex(pool, terms_of(None, pool.capacity), 60, 10)
    assert len(pool.terms.names) == 1
    assert together(pool)
