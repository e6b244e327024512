"""Concurrent requests in one call: what is gathered, how long, and to whom it goes back."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casework.config.privacy_profile import PrivacyProfile
from casework.config.serving import EmbeddingsConfig
from casework.errors import DeadlineExceeded, LimitReached
from casework.gateway.clock import MANUAL_START, Deadline, SystemClock
from casework.gateway.embeddings.batcher import (
    BATCH_BYTES_MAX,
    WAITING_INPUTS_MAX,
    EmbeddingBatcher,
)
from casework.gateway.embeddings.request import EmbeddingRequest
from casework.gateway.outcomes import Answered, RoundUnavailable
from casework.gateway.scope import UNBOUNDED, Scope
from tests.unit.gateway.embeddings.batch_bench import (
    Bench,
    Reply,
    settle,
    tokens,
    tokens_of,
    vector_of,
    vectors,
)


async def test_the_window_opens_with_the_first_text() -> None:
    """Later texts do not prolong it, and a single one waits no longer than it."""
    bench = Bench(window_seconds=0.125)
    first = await bench.come("a")
    await bench.let_pass(0.0625)
    second = await bench.come("b", "c")
    assert [] == bench.asked
    await bench.let_pass(0.0625)
    assert [("a", "b", "c")] == bench.asked
    assert (vector_of(b'"a"'),) == vectors(first)
    assert (vector_of(b'"b"'), vector_of(b'"c"')) == vectors(second)
    third = await bench.come("d")
    await bench.let_pass(0.125)
    assert (vector_of(b'"d"'),) == vectors(third)
    assert bench.is_empty()


async def test_a_full_batch_waits_for_nobody() -> None:
    """The most texts are sent at once, and their window is called off."""
    bench = Bench(items_max=3)
    callers = [await bench.come("a"), await bench.come("b", "c")]
    assert [("a", "b", "c")] == bench.asked
    assert [1, 2] == [len(vectors(caller)) for caller in callers]
    assert bench.is_empty()


async def test_a_request_that_does_not_fit_opens_the_next_batch() -> None:
    """The one before is sent without it; no request is spread over two calls."""
    bench = Bench(items_max=3)
    await bench.come("a", "b")
    await bench.come("c", "d")
    assert [("a", "b")] == bench.asked
    await bench.let_pass(0.1)
    assert [("a", "b"), ("c", "d")] == bench.asked


@pytest.mark.parametrize("texts", [("b", "c", "d"), ("b", "c", "d", "e")])
async def test_a_request_as_long_as_a_batch_or_longer_is_sent_alone(texts: tuple[str, ...]) -> None:
    """It goes in one call, whole, and those who wait go on waiting."""
    bench = Bench(items_max=3)
    await bench.come("a")
    long = await bench.come(*texts)
    assert [texts] == bench.asked
    assert len(texts) == len(vectors(long))
    await bench.let_pass(0.1)
    assert [texts, ("a",)] == bench.asked


async def test_one_request_stands_for_all() -> None:
    """The round is given what the requests have in common, and the sum of their sizes."""
    bench = Bench()
    await bench.come("a", members={"user": b'"u"'}, body_bytes=20, withheld=("api_key",))
    await bench.come("b", members={"user": b'"u"'}, body_bytes=22)
    await bench.let_pass(0.1)
    expected = EmbeddingRequest(
        model="m", inputs=(b'"a"', b'"b"'), members={"user": b'"u"'}, body_bytes=42
    )
    assert [expected] == [call.request for call in bench.calls]


async def test_texts_together_stay_below_the_limit_of_bytes() -> None:
    """Long texts do not make a call that servers refuse although each alone would pass."""
    bench = Bench()
    half = "x" * (BATCH_BYTES_MAX // 2)
    await bench.come(half)
    await bench.come(half)
    await bench.come("x" * BATCH_BYTES_MAX)
    assert [(half,), ("x" * BATCH_BYTES_MAX,)] == bench.asked
    await bench.let_pass(0.1)
    assert 3 == len(bench.calls)


async def test_whoever_leaves_makes_room() -> None:
    """Its texts and bytes are free for others."""
    bench = Bench(items_max=4)
    half = "x" * (BATCH_BYTES_MAX // 2)
    first = await bench.come(half, "a")
    await bench.come("b")
    first.cancel()
    await settle()
    await bench.come(half)
    assert [] == bench.asked
    await bench.come("c", "d")
    assert [("b", half, "c", "d")] == bench.asked


async def test_without_a_window_everything_is_sent_at_once() -> None:
    """Nothing is gathered."""
    bench = Bench(window_seconds=0)
    await bench.come("a")
    await bench.come("b")
    assert [("a",), ("b",)] == bench.asked
    assert bench.is_empty()


async def test_only_so_many_texts_wait() -> None:
    """The oldest are sent early where more come than may wait."""
    bench = Bench(items_max=2048)
    texts = ["t"] * 2047
    for model in "abcd":
        await bench.come(*texts, model=model)
    assert [] == bench.calls
    await bench.come(*texts[: WAITING_INPUTS_MAX - 4 * 2047], model="e")
    assert [] == bench.calls
    await bench.come("t", model="f")
    assert ["a"] == [call.request.model for call in bench.calls]
    await bench.let_pass(0.1)
    assert ["a", "b", "c", "d", "e", "f"] == [call.request.model for call in bench.calls]
    assert bench.is_empty()


@pytest.mark.parametrize(
    "other",
    [
        {"model": "n"},
        {"members": {"dimensions": b"256"}},
        {"members": {"dimensions": b"512", "user": b'"u"'}},
        {"privacy_profile": PrivacyProfile.LOCAL_ONLY},
        {"scope": Scope(profile=PrivacyProfile.LOCAL_ONLY)},
        {"scope": Scope(models=("m",))},
        {"client": "key-2"},
        {"client": None},
    ],
)
async def test_what_differs_is_never_mixed(other: dict[str, object]) -> None:
    """Model, every member, privacy, allowed models and client part the batches."""
    same: dict[str, object] = {"members": {"dimensions": b"512"}, "client": "key-1"}
    bench = Bench()
    await bench.come("a", **same)  # type: ignore[arg-type]
    await bench.come("b", **{**same, **other})  # type: ignore[arg-type]
    await bench.come("c", **same)  # type: ignore[arg-type]
    await bench.let_pass(0.1)
    assert [("a", "c"), ("b",)] == bench.asked


async def test_texts_and_tokens_are_never_mixed() -> None:
    """No server reads both in one call."""
    bench = Bench()
    await bench.come("a")
    await bench.come("[1, 2]")
    await bench.let_pass(0.1)
    assert [("a",), ("[1, 2]",)] == bench.asked


async def test_encoding_and_deadline_part_nobody() -> None:
    """The server is told neither, so both go in one call."""
    bench = Bench()
    await bench.come("a", encoding="base64", scope=Scope(deadline_seconds=3))
    await bench.come("b", encoding="float", scope=Scope(deadline_seconds=5))
    await bench.let_pass(0.1)
    assert [("a", "b")] == bench.asked


async def test_shares_of_usage_add_up() -> None:
    """Each caller is told a part by the length of its texts, and together they are the whole."""
    bench = Bench()
    callers = [await bench.come("a"), await bench.come("b" * 50), await bench.come("c", "d")]
    await bench.let_pass(0.1)
    counts = [tokens(caller) for caller in callers]
    assert tokens_of(bench.calls[0].texts) == sum(counts)
    assert [1, 22, 3] == counts


async def test_a_failure_is_told_to_everybody() -> None:
    """Whatever the round comes to, each caller of the batch is told."""
    bench = Bench(holds=True)
    callers = [await bench.come("a"), await bench.come("b")]
    await bench.let_pass(0.1)
    unavailable = RoundUnavailable(
        started_at=MANUAL_START, elapsed_ms=1, attempts=(), retry_after_seconds=3
    )
    bench.calls[0].end.set_result(unavailable)
    await settle()
    assert [unavailable] * 2 == [caller.result() for caller in callers]
    assert bench.is_empty()


async def test_a_limit_is_told_to_everybody() -> None:
    """An error of the round is raised by each caller, and stops no later batch."""
    bench = Bench(holds=True)
    callers = [await bench.come("a"), await bench.come("b")]
    await bench.let_pass(0.1)
    bench.calls[0].end.set_exception(LimitReached(5))
    await settle()
    for caller in callers:
        with pytest.raises(LimitReached):
            caller.result()
    assert bench.is_empty()


async def test_whoever_leaves_before_the_call_is_not_in_it() -> None:
    """Its texts are not sent; where all have left, there is no call."""
    bench = Bench()
    first, second = await bench.come("a"), await bench.come("b")
    first.cancel()
    await settle()
    await bench.let_pass(0.1)
    assert [("b",)] == bench.asked
    assert (vector_of(b'"b"'),) == vectors(second)
    lonely = await bench.come("c")
    lonely.cancel()
    await settle()
    assert bench.is_empty()
    assert 1 == len(bench.calls)


async def test_whoever_leaves_in_the_moment_of_the_call_is_not_in_it() -> None:
    """A cancellation that is not yet carried out counts already."""
    bench = Bench()
    first, second, third = await bench.come("a"), await bench.come("b"), await bench.come("c")
    second.cancel()
    window = next(alarm for alarm in bench.alarms if alarm.at == 0.1)
    window.act()
    window.off = True
    await settle()
    assert [("a", "c")] == bench.asked
    assert [True, True] == [first.done(), third.done()]
    assert bench.is_empty()


async def test_whoever_leaves_during_the_call_harms_nobody() -> None:
    """The others get their own vectors and shares, as if it were still there."""
    bench = Bench(holds=True)
    callers = [await bench.come(text) for text in ("a", "bb", "ccc")]
    await bench.let_pass(0.1)
    callers[1].cancel()
    await settle()
    bench.calls[0].answer()
    await settle()
    assert [(vector_of(b'"a"'),), (vector_of(b'"ccc"'),)] == [vectors(callers[i]) for i in (0, 2)]
    assert not bench.calls[0].cancelled
    assert bench.is_empty()


async def test_the_last_to_leave_takes_the_call_along() -> None:
    """Nobody waits, so the call is closed, and has ended when the last one has left."""
    bench = Bench(holds=True)
    first, second = await bench.come("a"), await bench.come("b")
    await bench.let_pass(0.1)
    first.cancel()
    await settle()
    assert not bench.calls[0].cancelled
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    assert bench.calls[0].cancelled
    assert bench.is_empty()


async def test_the_call_runs_under_the_longest_deadline() -> None:
    """Whoever has less time leaves earlier, and the others get their answer."""
    bench = Bench(holds=True)
    short, long = await bench.come("a", seconds=1), await bench.come("b", seconds=20)
    await bench.let_pass(0.1)
    assert 20 == bench.calls[0].deadline.at_monotonic
    await bench.let_pass(1)
    with pytest.raises(DeadlineExceeded):
        short.result()
    bench.calls[0].answer()
    await settle()
    assert (vector_of(b'"b"'),) == vectors(long)
    assert bench.is_empty()


async def test_the_call_itself_tells_that_the_longest_deadline_has_passed() -> None:
    """So that it is known who was asked, and whoever did not answer is held to account."""
    bench = Bench(holds=True)
    caller = await bench.come("a", seconds=1)
    await bench.let_pass(5)
    assert not caller.done()
    unavailable = RoundUnavailable(
        started_at=MANUAL_START, elapsed_ms=1000, attempts=(), retry_after_seconds=None
    )
    bench.calls[0].end.set_result(unavailable)
    await settle()
    assert unavailable == caller.result()


async def test_a_call_for_nobody_ends_with_the_time_of_the_last() -> None:
    """Where only those with less time are left, their deadline closes the call."""
    bench = Bench(holds=True)
    short, long = await bench.come("a", seconds=1), await bench.come("b", seconds=20)
    await bench.let_pass(0.1)
    long.cancel()
    await bench.let_pass(1)
    with pytest.raises(DeadlineExceeded):
        short.result()
    assert bench.calls[0].cancelled
    assert bench.is_empty()


async def test_a_deadline_within_the_window_is_kept() -> None:
    """The caller leaves before the call, and its text is not sent."""
    bench = Bench()
    short, long = await bench.come("a", seconds=0.05), await bench.come("b")
    await bench.let_pass(0.1)
    with pytest.raises(DeadlineExceeded):
        short.result()
    assert [("b",)] == bench.asked
    assert long.done()


async def test_the_running_loop_measures_the_window() -> None:
    """Without another clock the text is sent by the loop's own."""
    bench = Bench()
    config = EmbeddingsConfig(window_seconds=0.001)
    batcher = EmbeddingBatcher(bench._ask, config)
    request = EmbeddingRequest(model="m", inputs=(b'"a"',), members={})
    deadline = Deadline.after(30, SystemClock())
    outcome = await batcher.embed(request, UNBOUNDED, client=None, deadline=deadline)
    assert isinstance(outcome, Answered)
    assert (vector_of(b'"a"'),) == outcome.answer.vectors


_WORDS = st.text("ab", min_size=1, max_size=30)
_REQUESTS = st.lists(
    st.tuples(st.lists(_WORDS, min_size=1, max_size=6), st.sampled_from("mn"), st.booleans()),
    min_size=1,
    max_size=12,
)


@given(_REQUESTS, st.integers(1, 8), st.sampled_from([0, 0.1]))
def test_however_callers_come_each_gets_its_own(
    requests: list[tuple[list[str], str, bool]], items_max: int, window_seconds: float
) -> None:
    """Own vectors in order, no text twice, no batch too long, and shares that add up."""

    async def story() -> None:
        bench = Bench(items_max=items_max, window_seconds=window_seconds)
        callers = []
        for texts, model, pause in requests:
            callers.append(await bench.come(*texts, model=model))
            await bench.let_pass(0.05 if pause else 0.0)
        await bench.let_pass(1)
        for (texts, _, _), caller in zip(requests, callers, strict=True):
            expected = tuple(vector_of(f'"{text}"'.encode()) for text in texts)
            assert expected == vectors(caller)
        for model in "mn":
            sent = [t for call in bench.calls if call.request.model == model for t in call.texts]
            wanted = [f'"{t}"'.encode() for texts, m, _ in requests if m == model for t in texts]
            assert sorted(wanted) == sorted(sent)
        longest = max(len(texts) for texts, _, _ in requests)
        assert all(len(call.texts) <= max(items_max, longest) for call in bench.calls)
        assert sum(map(tokens, callers)) == sum(tokens_of(call.texts) for call in bench.calls)
        assert bench.is_empty()

    asyncio.run(story())


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("come"), st.integers(1, 3)),
        st.tuples(st.just("leave"), st.integers(0, 9)),
        st.tuples(st.just("answer"), st.integers(0, 9)),
        st.tuples(st.just("fail"), st.integers(0, 9)),
        st.tuples(st.just("breathe"), st.integers(1, 3)),
        st.tuples(st.just("pass"), st.sampled_from([0.05, 0.1, 1.0])),
    ),
    max_size=25,
)


@dataclass(slots=True)
class _Story:
    """Who has come so far, and who was told to leave."""

    bench: Bench
    texts: list[list[str]] = field(default_factory=list)
    callers: list[Reply] = field(default_factory=list)
    left: set[int] = field(default_factory=set)

    async def step(self, what: str, number: float) -> None:
        """Let one thing happen, where it can."""
        calls, callers, nth = self.bench.calls, self.callers, int(number)
        match what:
            case "come":
                self.texts.append([f"t{len(callers)}-{n}" for n in range(nth)])
                callers.append(await self.bench.come(*self.texts[-1], seconds=0.2 * number))
            case "leave" if callers:
                callers[nth % len(callers)].cancel()
                self.left.add(nth % len(callers))
            case "answer" if calls:
                calls[nth % len(calls)].answer()
            case "fail" if calls and not calls[nth % len(calls)].end.done():
                calls[nth % len(calls)].end.set_exception(LimitReached(1))
            case "breathe":
                for _ in range(nth):
                    await asyncio.sleep(0)
            case "pass":
                await self.bench.let_pass(number)

    async def end(self) -> None:
        """Let all that still waits be sent and answered."""
        await self.bench.let_pass(0.1)
        for call in self.bench.calls:
            call.answer()
        await settle()


@given(_STEPS)
def test_whoever_leaves_whenever_nothing_is_left_and_nobody_is_harmed(
    steps: list[tuple[str, float]],
) -> None:
    """Comings, leavings, answers and failures in any order: own vectors or a reason, no debris."""

    async def run() -> None:
        story = _Story(Bench(items_max=4, holds=True))
        for what, number in steps:
            await story.step(what, number)
        await story.end()
        for number, (texts, caller) in enumerate(zip(story.texts, story.callers, strict=True)):
            assert caller.done()
            if caller.cancelled():
                assert number in story.left
            elif caller.exception() is not None:
                assert isinstance(caller.exception(), DeadlineExceeded | LimitReached)
            else:
                assert tuple(vector_of(f'"{t}"'.encode()) for t in texts) == vectors(caller)
        assert story.bench.is_empty()

    asyncio.run(run())


@given(st.integers(0, 12), st.sampled_from([1, 3]), st.booleans())
def test_a_cancellation_at_any_moment_leaves_nothing(
    moment: int,
    callers_count: int,
    answers: bool,  # noqa: FBT001 - drawn, not called
) -> None:
    """From the first step to the last, whether the server answers or hangs."""

    async def story() -> None:
        bench = Bench(items_max=callers_count, holds=True)
        callers = [await bench.come(f"t{n}") for n in range(callers_count)]
        if answers:
            bench.calls[0].answer()
        for _ in range(moment):
            await asyncio.sleep(0)
        for caller in callers:
            caller.cancel()
        await asyncio.gather(*callers, return_exceptions=True)
        await settle()
        assert bench.is_empty()

    asyncio.run(story())
