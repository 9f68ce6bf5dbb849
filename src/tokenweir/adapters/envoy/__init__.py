"""Tokenweir beside an Envoy: its rate limit service, and the processor that sees what was used.

service = EnvoyService(gateway)
port = await service.start("127.0.0.1:8081")
"""

from tokenweir.adapters.envoy.degrade import Degrade
from tokenweir.adapters.envoy.descriptors import Defaults
from tokenweir.adapters.envoy.service import EnvoyService

__all__ = ["Defaults", "Degrade", "EnvoyService"]
