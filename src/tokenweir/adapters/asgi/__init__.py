"""Tokenweir in front of any OpenAI-compatible ASGI app.

app = Tokenweir(app, gateway=gateway, pool="chat", identify=lambda scope: Caller("acme", "bo"))
"""

from tokenweir.adapters.asgi.caller import Caller
from tokenweir.adapters.asgi.middleware import Tokenweir

__all__ = ["Caller", "Tokenweir"]
