"""The records of the wire as frozen values; `tokenweir.wire` encodes and decodes them.

Standard library only: the core, the gateway and the review share them. Field docs stand in the
schemas, `schemas/*.avsc`.
"""
