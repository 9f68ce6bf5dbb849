"""Numbers that NumPy writes have the bytes that Avro's own writer gives them."""

from io import BytesIO
from typing import Any

import numpy as np
import pytest
from fastavro import schemaless_writer
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.corpus.samples import RECORDS
from tokenweir.records.control import Barred, ControlDecision, GatewayLeases
from tokenweir.review.encoded.flat import BITS, Flat, putters, written
from tokenweir.wire import encode, head_of, schema_of

WRITTEN = 2 ** (BITS - 1)
NUMBERS = st.one_of(st.integers(-WRITTEN, WRITTEN - 1), st.integers(-200, 20_000))


def avro(schema: Any, value: object) -> bytes:
    out = BytesIO()
    schemaless_writer(out, schema, value)
    return out.getvalue()


def bytes_of(flat: Flat) -> bytes:
    return written(np.array(flat.numbers, dtype=np.int64), flat.texts)


@given(st.lists(NUMBERS))
def test_numbers_are_those_of_avro(numbers: list[int]) -> None:
    assert bytes_of(Flat(numbers)) == b"".join(avro("long", number) for number in numbers)


@pytest.mark.parametrize("bits", range(BITS))
def test_the_edges_of_each_size(bits: int) -> None:
    numbers = [2**bits - 1, -(2**bits)]
    assert bytes_of(Flat(numbers)) == b"".join(avro("long", number) for number in numbers)


@pytest.mark.parametrize("number", [WRITTEN, -WRITTEN - 1, 2**62, -(2**62), 2**63 - 1, -(2**63)])
def test_a_number_that_is_too_long_is_not_written(number: int) -> None:
    with pytest.raises(OverflowError):
        bytes_of(Flat([5, number, 3]))


@given(st.lists(st.one_of(NUMBERS, st.text())))
def test_text_stands_where_it_was_put(values: list[int | str]) -> None:
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": f"f{place}", "type": "string" if isinstance(value, str) else "long"}
            for place, value in enumerate(values)
        ],
    }
    flat = Flat()
    for put, value in zip(putters(schema).values(), values, strict=True):
        put(value, flat)
    record = {f"f{place}": value for place, value in enumerate(values)}
    assert bytes_of(flat) == avro(schema, record)


@pytest.mark.parametrize("kind", [Barred, ControlDecision, GatewayLeases])
def test_records_of_the_wire_are_the_same(kind: type) -> None:
    (record,) = [record for record in RECORDS if type(record) is kind]
    flat = Flat()
    for name, put in putters(schema_of(kind)).items():
        put(getattr(record, name), flat)
    assert head_of(kind) + bytes_of(flat) == encode(record)


@pytest.mark.parametrize("inside", ["bytes", "boolean", "double", ["null", "long"]])
def test_other_types_are_refused(inside: object) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": inside}]}
    with pytest.raises((KeyError, TypeError)):
        putters(schema)
