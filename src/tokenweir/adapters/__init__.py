"""Adapters: Tokenweir in front of the gateways and servers that people run already."""
