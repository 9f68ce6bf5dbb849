"""A pool's spec: YAML read and checked, compiled to the log's record, compared with another."""

from tokenweir.spec.compile import compile_spec
from tokenweir.spec.document import BadSpec
from tokenweir.spec.model import Pool
from tokenweir.spec.read import read_spec

__all__ = ["BadSpec", "Pool", "compile_spec", "read_spec"]
