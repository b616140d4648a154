"""Which shards rows and punctuations go to: by a hash of key columns, to one of them, or to all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.kernel.sharding import shard_of
from penstock.model.batch import Batch, Int64s
from penstock.model.punctuation import Punctuation
from penstock.model.schema import Schema
from penstock.model.value_sets import constant, one_of, one_of_sorted

#: Instead of key columns: every shard gets a copy of every row.
EVERYWHERE = ("*",)

#: Up to this many shards looking for the rows of each is faster than sorting.
_FEW_SHARDS = 8

#: Punctuations on several key columns are taken apart value by value up to this many combinations.
_MOST_COMBINATIONS = 1000


def by_shard(batch: Batch, keys: tuple[str, ...] | None, shards: int, home: int) -> dict[int, Batch]:
    """Rows of each shard that gets any; their order is kept."""
    if not batch.num_rows:
        return {}
    if keys == EVERYWHERE:
        return dict.fromkeys(range(shards), batch)
    if shards == 1 or not keys:
        return {0 if keys is not None else home: batch}
    places = _places_by_shard(shard_of([batch.column(key) for key in keys], batch.num_rows, shards), shards)
    ordered = batch.take(np.concatenate(places))
    ends = np.cumsum([len(each) for each in places]).tolist()
    return {
        shard: ordered.slice(end - len(each), len(each))
        for shard, (each, end) in enumerate(zip(places, ends, strict=True))
        if len(each)
    }


def _places_by_shard(numbers: Int64s, shards: int) -> list[Int64s]:
    """Where the rows of each shard are."""
    if shards <= _FEW_SHARDS:
        return [np.flatnonzero(numbers == shard) for shard in range(shards)]
    order = np.argsort(numbers, kind="stable")
    return np.split(order, np.searchsorted(numbers[order], np.arange(1, shards)))


def split_mark(mark: Punctuation, keys: tuple[str, ...] | None, shards: int, schema: Schema) -> Iterator[tuple[int, Punctuation]]:
    """The shards a punctuation is for, each with its share."""
    if keys == () or shards == 1:
        yield 0, mark
        return
    if keys and keys != EVERYWHERE and len(keys) == 1 and mark.pattern(keys[0]).whole is not None:
        yield from _split_numbers(mark, keys[0], shards, schema)
        return
    listed = _listed(mark, keys or ()) if keys != EVERYWHERE else []
    if not listed:
        for shard in range(shards):
            yield shard, mark
        return
    assert keys is not None
    homes = _homes(listed, keys, shards, schema)
    if len(keys) == 1:
        for shard in np.unique(homes).tolist():
            mine = [value for (value,), home in zip(listed, homes.tolist(), strict=True) if home == shard]
            yield shard, mark.narrowed(keys[0], one_of(mine))
        return
    for values, shard in zip(listed, homes.tolist(), strict=True):
        share = mark
        for key, value in zip(keys, values, strict=True):
            share = share.narrowed(key, constant(value))
        yield shard, share


def _split_numbers(mark: Punctuation, key: str, shards: int, schema: Schema) -> Iterator[tuple[int, Punctuation]]:
    """Shares of a list that came from data: it can be as long as a batch, so no Python object is made of a value."""
    numbers = mark.pattern(key).whole
    assert numbers is not None
    homes = shard_of([pa.array(numbers, _hashed_type(schema[key].type))], len(numbers), shards)
    for shard in range(shards):
        mine = numbers[homes == shard]
        if len(mine):
            yield shard, mark.narrowed(key, one_of_sorted(mine))


def _hashed_type(kind: pa.DataType) -> pa.DataType:
    return pa.int64() if pa.types.is_timestamp(kind) else kind


def lives_in(mark: Punctuation, keys: tuple[str, ...], shard: int, shards: int, schema: Schema) -> bool:
    """Whether all rows the punctuation speaks about belong to one shard, by the key columns; without any the first has all."""
    if not keys:
        return shard == 0
    listed = _listed(mark, keys)
    return bool(listed) and bool((_homes(listed, keys, shards, schema) == shard).all())


def _listed(mark: Punctuation, keys: tuple[str, ...]) -> list[tuple[Any, ...]]:
    """Every combination of key values the punctuation names; none if it does not list them, or lists too many."""
    values = [mark.pattern(key).values for key in keys]
    if not values or (len(values) > 1 and prod(map(len, values)) > _MOST_COMBINATIONS):
        return []
    return list(product(*values))


def _homes(listed: Sequence[tuple[Any, ...]], keys: tuple[str, ...], shards: int, schema: Schema) -> Int64s:
    kinds = [_hashed_type(schema[key].type) for key in keys]
    columns = [pa.array(list(values), kind) for values, kind in zip(zip(*listed, strict=True), kinds, strict=True)]
    return shard_of(columns, len(listed), shards)
