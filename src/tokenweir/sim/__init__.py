"""Scenarios in virtual time: virtual GPU pools, the SDK's real admission, the real policy."""
