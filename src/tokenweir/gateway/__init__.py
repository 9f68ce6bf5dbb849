"""The gateway SDK: admit or refuse in microseconds, report what was used.

async with Gateway(brokers="localhost:9092", name="edge-1", pools=["chat"]) as gateway:
    async with gateway.request(tenant="acme", pool="chat", estimate=800) as call:
        ...
        call.settle(uncached=500, out=300)
"""

from tokenweir.gateway.call import Call
from tokenweir.gateway.gateway import Gateway
from tokenweir.gateway.lane import OnRevoke
from tokenweir.gateway.reasons import AlreadyEnded, Overdue, Reason, Refused, Revoked
from tokenweir.gateway.slot_states import SlotLost
from tokenweir.gateway.slots import NoSlot, Slots, SlotStats
from tokenweir.gateway.stats import PoolStats, TenantStats
from tokenweir.gateway.sync_call import SyncCall
from tokenweir.gateway.threads import SyncGateway

__all__ = [
    "AlreadyEnded",
    "Call",
    "Gateway",
    "NoSlot",
    "OnRevoke",
    "Overdue",
    "PoolStats",
    "Reason",
    "Refused",
    "Revoked",
    "SlotLost",
    "SlotStats",
    "Slots",
    "SyncCall",
    "SyncGateway",
    "TenantStats",
]
