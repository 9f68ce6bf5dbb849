"""A bounded number of slots as leases with a life: the core, without clock and I/O.

A slot lives while now < used + BASE_TIMEOUT·(1 + load), with load = in use / all (Priority pool
article). What is to be opened and closed is told by `to_open` and `to_close`; times are ms.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterator
from typing import Any

from tokenweir.gateway.inheritance import Holder, pass_on
from tokenweir.gateway.slot import Slot, Want, less
from tokenweir.gateway.slot_states import SlotEvent
from tokenweir.gateway.wants import Wants

NEVER = 1 << 62


class Rack:
    """`size` slots that may be in use at once, `ready` of them opened ahead.

    Nobody waits longer than `inversion_ms` for a slot while somebody of a lower priority of its
    own has one: that one inherits the priority at once, has notice after half the time, and loses
    its slot at the end.
    """

    def __init__(
        self,
        size: int,
        version: str,
        *,
        ready: int = 0,
        base_ms: int = 60_000,
        inversion_ms: int = 10_000,
        most_waiting: int = 1_000,
    ) -> None:
        self.size = size
        self.version = version  # of the slots that are given out
        self.coming: str | None = None  # the version that is being opened beside it
        self.ready = ready
        self.base_ms = base_ms
        self.inversion_ms = inversion_ms
        self.most_waiting = most_waiting
        self.lost = 0  # slots whose holders did not renew them in time
        self.preempted = 0  # slots that somebody higher got
        self.to_close: list[Slot] = []
        self.granted: list[Want] = []  # and not told yet
        self.opening: dict[str, int] = {}
        self._idle: dict[str, OrderedDict[Slot, None]] = {version: OrderedDict()}
        self._used: OrderedDict[Slot, None] = OrderedDict()  # in use, longest not renewed first
        self._wants = Wants()
        self._of: Counter[str] = Counter()  # slots in use by version
        self._owns: Counter[int] = Counter()  # own priorities of those that have a slot
        self._told = 0  # the pressure that holders have been told

    @property
    def in_use(self) -> int:
        """Slots that somebody has, those being taken back included."""
        return len(self._used)

    @property
    def all(self) -> int:
        """Slots that are open."""
        return len(self._used) + sum(map(len, self._idle.values()))

    @property
    def waiting(self) -> int:
        """Who waits."""
        return len(self._wants)

    @property
    def life_ms(self) -> int:
        """How long a slot lives without being renewed: longer under load."""
        return self.base_ms + self.base_ms * self.in_use // max(self.all, 1)

    def idle(self, version: str | None = None) -> int:
        """Slots that are open and free, of the version that is given out or of another."""
        return len(self._idle.get(version or self.version, ()))

    def ask(self, want: Want, now_ms: int) -> bool:
        """Give it a slot or let it wait; False when too many wait already."""
        if len(self._wants) >= self.most_waiting:
            return False
        want.asked_ms = now_ms
        want.holder.waits = self
        self._wants.add(want)
        self._serve(now_ms)
        self._tell()
        return True

    def withdraw(self, want: Want) -> None:
        """It does not wait any more."""
        if want.waits:
            self._forget(want)
            self._tell()

    def beat(self, slot: Slot, now_ms: int) -> None:
        """Its holder lives; raises `SlotLost` when the slot is not its own any more."""
        slot.move("beat")
        slot.used_ms = now_ms
        self._used.move_to_end(slot)

    def give_back(self, slot: Slot, now_ms: int) -> None:
        """Its holder is done; raises `SlotLost` as `beat` does."""
        slot.move("give_back")
        slot.used_ms = now_ms
        self._release(slot)
        self._keep(slot)
        self._serve(now_ms)
        self._tell()

    def opened(self, version: str, resource: Any, now_ms: int) -> None:
        """A slot of this version has been opened, as `to_open` wanted."""
        self.opening[version] -= 1
        slot = Slot(version, resource, now_ms)
        self._keep(slot)
        self._turn_over()
        self._serve(now_ms)

    def failed(self, version: str) -> None:
        """A slot could not be opened; `to_open` wants it again."""
        self.opening[version] -= 1

    def reload(self, version: str) -> None:
        """Open slots of another version beside those in use, and then give out only those.

        Double buffering: until the new ones are ready the old ones serve; after that the idle old
        ones are closed and those in use drain. Nobody loses a slot or a place by it.
        """
        if version == (self.coming or self.version):
            return
        self._drop(self.coming)
        self.coming = None if version == self.version else version
        self._idle.setdefault(version, OrderedDict())

    def shut(self) -> None:
        """Open nothing more, and close what nobody uses."""
        self.size = self.ready = 0
        for version in tuple(self._idle):
            self._drop(version)
            self._idle[version] = OrderedDict()
        for want in tuple(self._wants):
            self._forget(want)

    def resize(self, size: int, now_ms: int) -> None:
        """Let so many be in use; above that the lowest, newest holders' slots drain."""
        self.size = size
        while self.all > size and self._idle[self.version]:
            self._end(self._idle[self.version].popitem()[0], "revoke")
        over = self.in_use - size
        for slot in self._lowest()[: max(over, 0)]:
            if slot.state == "busy":
                slot.move("revoke")
        self._serve(now_ms)
        self._tell()

    def turn(self, now_ms: int) -> list[Want]:
        """Let time pass: end lives, inversions and waits; returns whose wait is over in vain."""
        for slot in self._dead(now_ms):
            self._lose(slot)
            self.lost += 1
        idle = self._idle[self.version]
        while idle and now_ms >= next(iter(idle)).used_ms + self.life_ms:
            self._end(idle.popitem(last=False)[0], "expire")
        self._serve(now_ms)
        self._invert(now_ms)
        late = []
        for want in self._wants.overdue(now_ms):
            self._forget(want)
            late.append(want)
        self._tell()
        return late

    def to_open(self) -> list[str]:
        """The versions of slots to open now; each ends in `opened` or `failed`."""
        wanted = min(self.size, self.in_use + len(self._wants) + self.ready)
        orders = [self.version] * (wanted - self.all_of(self.version) - self._draining())
        if self.coming is not None and self.size:
            orders += [self.coming] * (max(self.ready, 1) - self.all_of(self.coming))
        for version in orders:
            self.opening[version] = self.opening.get(version, 0) + 1
        return orders

    def all_of(self, version: str) -> int:
        """Slots of a version: idle, in use, and being opened."""
        idle = len(self._idle.get(version, ()))
        return self._of[version] + idle + self.opening.get(version, 0)

    def next_ms(self) -> int:
        """When `turn` is due at the latest."""
        oldest = (next(iter(slots), None) for slots in (self._idle[self.version], self._used))
        moments = [slot.used_ms + self.life_ms for slot in oldest if slot is not None]
        deadline_ms = self._wants.deadline()
        moments += [] if deadline_ms is None else [deadline_ms]
        return min((*moments, *self._notices()), default=NEVER)

    def pressure(self) -> int:
        """The highest priority that waits for a slot."""
        first = self._wants.first()
        return first.holder.priority if first is not None else 0

    def holders(self) -> Iterator[Holder]:
        """Who has a slot."""
        return (slot.holder for slot in self._used if slot.holder is not None)

    def reorder(self, holder: Holder) -> None:
        """A holder that waits here has another priority."""
        self._wants.reorder(holder)

    def _tell(self) -> None:
        pressure = self.pressure()
        if pressure != self._told:
            self._told = pressure
            pass_on(self)

    def _serve(self, now_ms: int) -> None:
        """Give free slots to who waits, the highest first."""
        idle = self._idle[self.version]
        while idle and self.in_use < self.size and (want := self._wants.first()) is not None:
            slot, _ = idle.popitem()
            slot.move("take")
            slot.used_ms = slot.since_ms = now_ms
            slot.holder, want.slot = want.holder, slot
            self._used[slot] = None
            self._of[slot.version] += 1
            self._owns[want.holder.own] += 1
            self._forget(want)
            want.holder.holds.append(self)
            self.granted.append(want)
            want.holder.priority = want.holder.inherited()

    def _forget(self, want: Want) -> None:
        self._wants.forget(want)
        want.holder.waits = None

    def _keep(self, slot: Slot) -> None:
        """An idle slot is kept if its version is wanted and there is room."""
        if slot.state == "gone":
            self.to_close.append(slot)
        elif slot.version not in (self.version, self.coming) or self.all >= self._most():
            self._end(slot, "revoke")
        else:
            self._idle[slot.version][slot] = None

    def _most(self) -> int:
        return self.size + (max(self.ready, 1) if self.coming is not None else 0)

    def _turn_over(self) -> None:
        """The new version is ready: give it out, and drain the old one."""
        coming = self.coming
        if coming is None or len(self._idle[coming]) < max(self.ready, 1):
            return
        old, self.version, self.coming = self.version, coming, None
        self._drop(old)
        for slot in self._used:
            if slot.state == "busy" and slot.version == old:
                slot.move("revoke")

    def _drop(self, version: str | None) -> None:
        for slot in self._idle.pop(version, ()) if version is not None else ():
            self._end(slot, "revoke")

    def _draining(self) -> int:
        return self.in_use - self._of[self.version]

    def _dead(self, now_ms: int) -> list[Slot]:
        dead = []
        for slot in self._used:
            # They stand in the order of their last use, and all live equally long.
            if now_ms < slot.used_ms + self.life_ms:
                break
            dead.append(slot)
        return dead

    def _lowest(self) -> list[Slot]:
        """Slots in use: those of the lowest own priority first, of these the newest."""
        return sorted(self._used, key=lambda slot: (slot.own, -slot.since_ms))

    def _inverted(self) -> list[Want]:
        """Those that wait while somebody of a lower priority has a slot."""
        if self.in_use < self.size or not self._wants:
            return []
        lowest = min(self._owns, default=NEVER)
        if self._wants.highest_own <= lowest:
            return []
        return [want for want in self._wants if want.holder.own > lowest]

    def _invert(self, now_ms: int) -> None:
        """End the inversions that have lasted too long; give notice to those that will."""
        for want in self._inverted():
            waited_ms = now_ms - want.asked_ms
            if 2 * waited_ms >= self.inversion_ms:
                for slot in self._lowest()[:1]:
                    slot.notice = True
            if waited_ms >= self.inversion_ms:
                self._make_room(want)
        self._serve(now_ms)

    def _make_room(self, want: Want) -> None:
        """Take slots from lower ones until this want, and all that go before it, can have one."""
        needed = 1 + self._wants.before(want)
        for slot in self._lowest():
            if self.size - self.in_use >= needed or slot.own >= want.holder.own:
                return
            self._lose(slot)
            self.preempted += 1

    def _notices(self) -> Iterator[int]:
        inverted = self._inverted()
        if inverted:
            noticed = self._lowest()[0].notice
            wait_ms = self.inversion_ms if noticed else (self.inversion_ms + 1) // 2
            yield min(want.asked_ms for want in inverted) + wait_ms

    def _lose(self, slot: Slot) -> None:
        slot.move("expire")
        self._release(slot)
        self.to_close.append(slot)

    def _release(self, slot: Slot) -> None:
        del self._used[slot]
        self._of[slot.version] -= 1
        holder, slot.holder = slot.holder, None
        assert holder is not None
        less(self._owns, holder.own)
        holder.holds.remove(self)
        slot.notice = False
        holder.priority = holder.inherited()

    def _end(self, slot: Slot, event: SlotEvent) -> None:
        slot.move(event)
        self.to_close.append(slot)
