"""One search in several shards: the same search from several seeds, until one completes it."""

from gradaudit.sharding.run import audit_shards
from gradaudit.sharding.seeds import shard_seed

__all__ = ["audit_shards", "shard_seed"]
