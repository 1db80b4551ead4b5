"""Sources of examples: arrays and attributes in memory, shards on disk, text files, synthetic data."""

from maxmargin.data.attributes import AttributeEncoder
from maxmargin.data.formats import columns_to_shards, read_columns, svmlight_to_shards
from maxmargin.data.manifest import ShardError
from maxmargin.data.shard_writer import ShardWriter, write_shards
from maxmargin.data.sharded import ShardedDataset, open_shards
from maxmargin.data.templates import describe_columns
from maxmargin.data.tree_shards import trees_to_shards

__all__ = [
    "AttributeEncoder",
    "ShardError",
    "ShardWriter",
    "ShardedDataset",
    "columns_to_shards",
    "describe_columns",
    "open_shards",
    "read_columns",
    "svmlight_to_shards",
    "trees_to_shards",
    "write_shards",
]
