"""Breakers open, let one probe through and close; cooldowns only lengthen."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from casework.config.serving import BreakerConfig
from casework.gateway.clock import ManualClock
from casework.gateway.errors import FailureKind, ProviderFailure
from casework.gateway.health import RESTING_MAX, Probe, ProviderHealth
from casework.gateway.outcomes import Resting


class Ward:
    """The health of provider ``p`` with key ``k`` and model ``m``, on a manual clock."""

    def __init__(self, failures: int = 5) -> None:
        self.clock = ManualClock()
        self.health = ProviderHealth(BreakerConfig(failures=failures), self.clock)

    def fail(self, kind: FailureKind, *, key: str = "k", wait: float | None = None) -> None:
        """Let one call fail."""
        failure = ProviderFailure(kind, retry_after_seconds=wait)
        self.health.failed("p", key, "m", failure=failure)

    def rest(self, key: str = "k", model: str = "m") -> float:
        """Return for how long the target rests."""
        resting = self.health.resting("p", key, model)
        return resting.seconds if resting else 0.0

    def admitted(self, count: int) -> int:
        """Return how many of so many calls are let through at once."""
        return sum(self.probe() is not None for _ in range(count))

    def probe(self) -> Probe | bool | None:
        """Let one call through; True for one that is no probe, None for none."""
        admitted = self.health.admit("p", "k", "m")
        return None if isinstance(admitted, Resting) else admitted or True


def test_five_failures_of_a_server_open_its_breaker_for_a_minute() -> None:
    """The fifth in a row keeps everybody out; a success between them counts anew."""
    ward = Ward()
    for _ in range(4):
        ward.fail(FailureKind.HTTP_5XX)
    ward.health.succeeded("p", "k", "m")
    for _ in range(4):
        ward.fail(FailureKind.TIMEOUT)
    assert 0.0 == ward.rest()
    ward.fail(FailureKind.CONNECT_ERROR)
    assert (60.0, True) == (ward.rest(key="another"), ward.health.is_open("p"))
    assert 0 == ward.admitted(10)


def test_exactly_one_probe_of_two_hundred_is_let_through() -> None:
    """When the minute is over, one call goes and the rest is kept out until it reports."""
    ward = Ward(failures=1)
    ward.fail(FailureKind.HTTP_5XX)
    ward.clock.advance(60.0)
    assert 1 == ward.admitted(200)
    ward.health.succeeded("p", "k", "m")
    assert 200 == ward.admitted(200)


def test_a_failed_probe_opens_the_breaker_again_at_once() -> None:
    """One failure is enough then."""
    ward = Ward()
    for _ in range(5):
        ward.fail(FailureKind.HTTP_5XX)
    ward.clock.advance(60.0)
    assert 1 == ward.admitted(2)
    ward.fail(FailureKind.HTTP_5XX)
    assert 60.0 == ward.rest()


def test_a_probe_that_is_given_up_lets_the_next_one_go() -> None:
    """A client that leaves does not keep the provider closed."""
    ward = Ward(failures=1)
    ward.fail(FailureKind.HTTP_5XX)
    ward.clock.advance(60.0)
    probe = ward.probe()
    assert isinstance(probe, Probe)
    assert 0 == ward.admitted(5)
    ward.health.abandoned("p", probe)
    assert 1 == ward.admitted(5)


def test_only_the_latest_probe_can_be_given_up() -> None:
    """Neither an older one nor one that has reported makes room for a further call."""
    ward = Ward(failures=1)
    ward.fail(FailureKind.HTTP_5XX)
    ward.clock.advance(60.0)
    older = ward.probe()
    assert isinstance(older, Probe)
    ward.clock.advance(60.0)
    latest = ward.probe()
    assert isinstance(latest, Probe)
    ward.health.abandoned("p", older)
    assert 0 == ward.admitted(3)
    ward.fail(FailureKind.HTTP_5XX)
    ward.health.abandoned("p", latest)
    assert (0, 60.0) == (ward.admitted(3), ward.rest())


def test_a_probe_that_never_reports_heals_itself_after_another_minute() -> None:
    """Whatever became of it, the next one goes."""
    ward = Ward(failures=1)
    ward.fail(FailureKind.HTTP_5XX)
    ward.clock.advance(60.0)
    assert 1 == ward.admitted(1)
    ward.clock.advance(59.0)
    assert 0 == ward.admitted(3)
    ward.clock.advance(1.0)
    assert 1 == ward.admitted(3)


def test_a_refused_key_does_not_open_the_breaker() -> None:
    """A bad or exhausted key says nothing against the server, nor against other keys."""
    ward = Ward(failures=1)
    ward.fail(FailureKind.AUTH_ERROR)
    ward.fail(FailureKind.HTTP_429, key="second")
    assert (300.0, 60.0, 0.0) == (ward.rest(), ward.rest("second"), ward.rest("third"))
    assert (300.0, 0.0) == (ward.rest(model="other"), ward.rest("second", "other"))


_WAITS = st.sampled_from([1.0, 30.0, 600.0, 0.0])


@given(st.lists(st.tuples(_WAITS, st.booleans(), st.floats(0, 100))))
def test_a_cooldown_is_never_shortened(steps: list[tuple[float, bool, float]]) -> None:
    """Whatever waits are asked for, and whoever is answered meanwhile, the latest end counts."""
    ward = Ward()
    end = 0.0
    for wait, answered, passes in steps:
        ward.fail(FailureKind.HTTP_429, wait=wait)
        end = max(end, ward.clock.monotonic() + wait)
        if answered:
            ward.health.succeeded("p", "k", "m")
        assert abs(max(end - ward.clock.monotonic(), 0.0) - ward.rest()) < 1e-6
        ward.clock.advance(passes)


def test_a_cooldown_that_did_not_help_is_doubled() -> None:
    """Each rest is twice the one before until a call is answered; within one, nothing adds up."""
    ward = Ward()
    rests = []
    for _ in range(8):
        ward.fail(FailureKind.HTTP_429)
        ward.fail(FailureKind.HTTP_429)
        rests.append(ward.rest())
        ward.clock.advance(ward.rest())
    assert [60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 3600.0, 3600.0] == rests
    ward.health.succeeded("p", "k", "m")
    ward.fail(FailureKind.HTTP_429)
    assert 60.0 == ward.rest()


def test_a_server_cannot_close_itself_for_longer_than_an_hour() -> None:
    """An absurd Retry-After is cut."""
    ward = Ward()
    ward.fail(FailureKind.HTTP_429, wait=1e9)
    assert 3600.0 == ward.rest()


def test_what_rests_is_bounded() -> None:
    """Endless names of models do not grow the memory."""
    ward = Ward()
    failure = ProviderFailure(FailureKind.HTTP_429)
    for number in range(RESTING_MAX + 100):
        ward.health.failed("p", "k", f"m{number}", failure=failure)
    assert RESTING_MAX >= len(ward.health._cooling)


def test_a_stream_that_begins_closes_a_breaker_and_forgets_no_failures() -> None:
    """How it ends counts: streams that break off open the breaker like calls that fail."""
    ward = Ward(failures=2)
    for _ in range(2):
        ward.health.begun("p")
        ward.fail(FailureKind.CONNECT_ERROR)
    assert ward.health.is_open("p")
    ward.clock.advance(60.0)
    assert 1 == ward.admitted(1)
    ward.health.begun("p")
    assert 10 == ward.admitted(10)
