"""``RETRYSCRAPE_STOP``: when too great a share of the last attempts failed, stop burning money.

Counting and one comparison; what a stop or a pause is, is carried out elsewhere.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from retryscrape.policy.outcomes import Outcome

#: Attempts that are looked at unless ``window`` says how many.
WINDOW = 200


@dataclass(frozen=True, slots=True)
class StopRule:
    """``shares`` maps outcomes to the share (0 to 1) of the last ``window`` attempts
    from which on it is too much."""

    shares: Mapping[Outcome, float]
    window: int = WINDOW


def parse_stop(given: Mapping[str, object]) -> StopRule:
    """``{"blocked": 0.5, "window": 200}``. Raises ValueError with the rest of a sentence."""
    shares: dict[Outcome, float] = {}
    window = WINDOW
    for name, value in given.items():
        number = _number(value)
        if name == "window":
            if number is None or number < 1 or number != int(number):
                raise ValueError("needs a whole number of attempts as its window")
            window = int(number)
        elif name == Outcome.OK or name not in set(Outcome):
            known = ", ".join(outcome for outcome in Outcome if outcome is not Outcome.OK)
            raise ValueError(f"has the key {name!r}: there are window and {known}")
        elif number is None or not 0 < number <= 1:
            raise ValueError(f"needs a share above 0 and up to 1 for {name!r}")
        else:
            shares[Outcome(name)] = number
    if not shares:
        raise ValueError("must name an outcome and its share, such as blocked and 0.5")
    return StopRule(shares, window)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except ValueError:
        return None


@dataclass(slots=True)
class Window:
    """The last attempts of a run, or of a host."""

    rule: StopRule
    last: deque[Outcome] = field(default_factory=deque)
    counts: Counter[Outcome] = field(default_factory=Counter)

    def add(self, outcome: Outcome) -> str | None:
        """Count an attempt; the sentence if too many of the last ones came to the same.
        Nothing is said before the window is full, and it is empty after a sentence."""
        self.last.append(outcome)
        self.counts[outcome] += 1
        if len(self.last) > self.rule.window:
            self.counts[self.last.popleft()] -= 1
        if len(self.last) < self.rule.window:
            return None
        for kind, share in self.rule.shares.items():
            found = self.counts[kind] / self.rule.window
            if found >= share:
                self.last.clear()
                self.counts.clear()
                return (
                    f"{found:.0%} of the last {self.rule.window} attempts came to {kind} "
                    f"(RETRYSCRAPE_STOP: {share:.0%})"
                )
        return None


@dataclass(slots=True)
class Shares:
    """The windows of one run. A host of which nothing is heard for long is forgotten."""

    rule: StopRule | None
    most_hosts: int = 10_000
    _all: Window | None = field(init=False, default=None)
    _hosts: dict[str, Window] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._all = Window(self.rule) if self.rule is not None else None

    def add(self, host: str, outcome: Outcome) -> tuple[str | None, str | None]:
        """Count an attempt: the sentence that stops the run, and the one that pauses the host."""
        if self.rule is None or self._all is None:
            return None, None
        window = self._hosts.pop(host, None) or Window(self.rule)
        self._hosts[host] = window
        if len(self._hosts) > self.most_hosts:
            del self._hosts[next(iter(self._hosts))]
        return self._all.add(outcome), window.add(outcome)
