"""How far the slowest origin is for those that read a simulated node, as they tell it with their acknowledgements."""

from __future__ import annotations

from anabranch.core.horizon import SlowestTold, Told
from anabranch.sim import messages as say
from anabranch.sim.role import Protocol, Role


class Slowest:
    """Where no horizon is set, nothing is told."""

    def __init__(self, role: Role, protocol: Protocol) -> None:
        self._passes_on = protocol.passes_slowest
        self._horizons = {
            stream: protocol.horizon(role.horizon_us, (replicas,))
            for stream, replicas in role.fragments.items()
            if role.horizon_us is not None
        }
        self.forget()

    def forget(self) -> None:
        """It is told again."""
        self._told = dict.fromkeys(self._horizons, Told())

    def told(self, reader: str, said: say.Acknowledgement) -> None:
        if said.stream in self._horizons:
            event = SlowestTold(reader=reader, time_us=said.slowest_us)
            self._told[said.stream] = self._horizons[said.stream].handle(self._told[said.stream], event)

    def may_enter(self, source: str, promised_us: int, latest_us: int) -> bool:
        return self._horizons[source].may_enter(self._told[source], promised_us, latest_us)

    def to_pass_on(self) -> list[int]:
        """What each fragment that reads this node has told."""
        return [horizon.slowest_us(self._told[stream]) for stream, horizon in self._horizons.items() if self._passes_on]
