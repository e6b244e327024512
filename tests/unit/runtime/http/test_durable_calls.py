"""Clients' calls as operations in packages: asked once, given again, named where a crash cut in."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from casework.checkpoints.disk import DiskCall, ObservedDisk
from casework.config.privacy_profile import PrivacyProfile
from casework.errors import InvalidRequest, LockBusy, PrivacyViolation
from casework.facade.errors import BUSY, reply_to_failed_round
from casework.gateway.chat.calls import ChatReply
from casework.gateway.errors import FailureKind, ProviderFailure
from casework.gateway.outcomes import Answered, RoundErred, RoundUnavailable
from casework.gateway.scope import UNBOUNDED, Scope
from casework.runner.chat_operations import ROUNDS_MAX
from casework.runner.exposure import exposures
from casework.runner.revisions import RevisionReason, raise_revision
from casework.runtime.http import durable_calls
from tests.support.kept_calls import (
    COMPLETION,
    SETTINGS,
    Kept,
    answered,
    chat_request,
    completion,
    refused,
)

CASE = "call:alice:k-1"
BAD_REQUEST = ProviderFailure(FailureKind.HTTP_ERROR, http_status=400)
DOWN = ProviderFailure(FailureKind.HTTP_5XX, http_status=503)
UNREACHABLE = ProviderFailure(FailureKind.CONNECT_ERROR, sent=False)


async def test_the_same_key_and_body_gets_the_same_bytes_and_asks_once(tmp_path: Path) -> None:
    """Both replies are the bytes that a call gets which is not kept; the second costs nothing."""
    kept = Kept(tmp_path, [ChatReply(body=COMPLETION.encode(), dropped=("seed",))])
    plain = await kept.gateway.complete(chat_request(), UNBOUNDED)
    assert isinstance(plain, Answered)
    kept.provider.calls.clear()
    first = answered(await kept.answer())
    assert plain.answer.body("auto") == first.body
    assert b"1.00" in first.body
    assert first.walked is not None
    again = answered(await kept.answer())
    assert replace(first, walked=None) == again
    assert (("remote", "m", ("seed",)), 1) == (
        (again.provider, again.model, again.dropped),
        len(kept.provider.calls),
    )
    kept.assert_verifies()


async def test_a_later_process_gives_the_recorded_reply_without_any_provider(
    tmp_path: Path,
) -> None:
    """What is recorded stands, whatever the settings and the profile of the request are now."""
    first = answered(await Kept(tmp_path).answer())
    later = Kept(tmp_path, settings=SETTINGS.replace("cloud_allowed", "local_only"))
    again = answered(await later.answer(scope=Scope(profile=PrivacyProfile.LOCAL_ONLY)))
    assert (first.body, []) == (again.body, later.provider.calls)


async def test_another_body_under_the_key_is_refused(tmp_path: Path) -> None:
    """Another text, model, parameter or profile is another request, before and after an answer."""
    kept = Kept(tmp_path, [DOWN, completion()])
    others = [
        chat_request("bye"),
        chat_request(model="remote/m"),
        chat_request(temperature=0.5),
        chat_request(privacy_profile="cloud_allowed"),
    ]
    for calls in (1, 2):
        await kept.answer()
        replies = [refused(await kept.answer(other)).reply for other in others]
        assert {(409, "idempotency_conflict")} == {(r.status, r.code) for r in replies}
        assert calls == len(kept.provider.calls)
        kept.clock.advance(60)
    answered(await kept.answer())


async def test_a_body_that_says_the_same_is_the_same_request(tmp_path: Path) -> None:
    """The order of members and the spelling of numbers are no difference."""
    kept = Kept(tmp_path)
    first = answered(await kept.answer(chat_request(temperature=100.0, seed=5)))
    request = chat_request()
    request = replace(request, members={"seed": b"5", "temperature": b"1e2", **request.members})
    again = answered(await kept.answer(request))
    assert (first.body, 1) == (again.body, len(kept.provider.calls))


async def test_keys_of_two_clients_and_two_keys_of_one_never_meet(tmp_path: Path) -> None:
    """Each client and each key has a call of its own, in a case of its own."""
    kept = Kept(tmp_path)
    for client, key in (("alice", "k-1"), ("bob", "k-1"), ("alice", "k-2")):
        answered(await kept.answer(key=key, client=client))
    assert 3 == len(kept.provider.calls)
    assert {CASE, "call:bob:k-1", "call:alice:k-2"} == set(kept.store.list())


async def test_the_record_holds_the_request_and_neither_credentials_nor_addresses(
    tmp_path: Path,
) -> None:
    """Members are kept as values; what is never passed on is not there."""
    kept = Kept(tmp_path)
    await kept.answer(chat_request(temperature=0.5, api_key="canary", base_url="http://canary"))
    stored = kept.request_file()
    assert ("alice", "k-1", "auto", {"temperature": 0.5}) == (
        stored["client"],
        stored["idempotency_key"],
        stored["model"],
        stored["parameters"],
    )
    assert [{"role": "user", "content": "hello"}] == stored["messages"]
    assert b"canary" not in b"".join(bytes_below(tmp_path))
    assert () == kept.store.inspect(CASE).originals()


def bytes_below(folder: Path) -> Iterator[bytes]:
    """Yield the content of every file in a folder."""
    return (path.read_bytes() for path in folder.rglob("*") if path.is_file())


async def test_a_named_case_takes_the_call_and_keeps_its_originals(tmp_path: Path) -> None:
    """A call may be added to an imported case, where no operation of a pipeline is like it."""
    kept = Kept(tmp_path)
    head = kept.store.create("claim-7", {"claim.txt": b"The pump failed."})
    answered(await kept.answer(case="claim-7", operation="extract"))
    answered(await kept.answer(case="claim-7", operation="extract"))
    after = kept.store.open("claim-7")
    (state,) = after.operations.values()
    assert (head.package_id, "call:alice:extract", 1) == (
        after.package_id,
        state.operation_id,
        len(kept.provider.calls),
    )
    other_key = refused(await kept.answer(key="k-2", case="claim-7", operation="extract"))
    assert 409 == other_key.reply.status
    kept.assert_verifies("claim-7")


async def test_a_revised_case_still_has_the_reply(tmp_path: Path) -> None:
    """Whoever has the case asked anew means the pipeline's work, not that of clients."""
    kept = Kept(tmp_path)
    kept.store.create("claim-7", {"claim.txt": b"The pump failed."})
    first = answered(await kept.answer(case="claim-7"))
    raise_revision(kept.store, "claim-7", RevisionReason("new rules", "ann"), now=kept.clock.now)
    again = answered(await kept.answer(case="claim-7"))
    assert (first.body, 1) == (again.body, len(kept.provider.calls))
    assert 409 == refused(await kept.answer(chat_request("bye"), case="claim-7")).reply.status


async def test_several_calls_share_a_case_that_none_of_them_found(tmp_path: Path) -> None:
    """The first call begins the case; the others are added."""
    kept = Kept(tmp_path)
    for key in ("k-1", "k-2"):
        answered(await kept.answer(key=key, case="chat-1"))
    assert 2 == len(kept.store.open("chat-1").operations)
    kept.assert_verifies("chat-1")


async def test_a_case_of_another_call_cannot_be_named(tmp_path: Path) -> None:
    """Nobody reaches into the case of a single call."""
    kept = Kept(tmp_path)
    with pytest.raises(InvalidRequest, match="begin with call:"):
        await kept.answer(case="call:bob:k-1")
    assert [] == list(kept.store.list())


async def test_a_case_that_was_forgotten_takes_no_call(tmp_path: Path) -> None:
    """Neither is the reply given again, nor the call made again."""
    kept = Kept(tmp_path)
    await kept.answer()
    kept.store.forget(CASE)
    reply = refused(await kept.answer()).reply
    assert (409, "case_forgotten", 1) == (reply.status, reply.code, len(kept.provider.calls))


async def test_of_two_at_once_one_is_made_and_the_other_told_to_come_back(tmp_path: Path) -> None:
    """While a call is under way its key is busy; afterwards it has the reply."""
    answers = asyncio.Event()
    kept = Kept(tmp_path, [answers, completion()])
    first = asyncio.ensure_future(kept.answer())
    await kept.provider.asked.wait()
    busy = refused(await kept.answer()).reply
    assert (409, "idempotency_busy", 1.0) == (busy.status, busy.code, busy.retry_after_seconds)
    answers.set()
    assert answered(await first).body == answered(await kept.answer()).body
    assert 1 == len(kept.provider.calls)


async def test_a_controlled_error_is_final_and_told_alike_each_time(tmp_path: Path) -> None:
    """What the server refused is not sent again under the key."""
    kept = Kept(tmp_path, [BAD_REQUEST])
    first, again = refused(await kept.answer()), refused(await kept.answer())
    assert isinstance(first.walked, RoundErred)
    assert (first.reply, None, 1) == (again.reply, again.walked, len(kept.provider.calls))
    assert reply_to_failed_round(first.walked) == first.reply
    kept.assert_verifies()


async def test_an_unavailable_round_may_be_tried_again_at_once(tmp_path: Path) -> None:
    """A failure that may pass is recorded, is not final, and nothing has to be waited for."""
    kept = Kept(tmp_path, [DOWN])
    first = refused(await kept.answer())
    assert isinstance(first.walked, RoundUnavailable)
    assert reply_to_failed_round(first.walked) == first.reply
    changed = SETTINGS.replace('model = "m"', 'model = "other"')
    answered(await Kept(tmp_path, settings=changed, clock=kept.clock).answer())
    results = [outcome["result"] for outcome in kept.outcomes()]
    assert ["temporary_failure", "success"] == results
    kept.assert_verifies()


async def test_a_round_that_reached_nobody_leaves_nothing(tmp_path: Path) -> None:
    """Where no byte was sent, nothing is recorded, announced or used up."""
    kept = Kept(tmp_path, [UNREACHABLE])
    for _ in range(3):
        assert 500 < refused(await kept.answer()).reply.status
    assert (3, 0, ()) == (
        len(kept.provider.calls),
        len(kept.store.open(CASE).operations),
        kept.store.inflight.list(),
    )


async def test_the_tries_under_a_key_are_bounded(tmp_path: Path) -> None:
    """After the last of many rounds the key is used up, and the client is told the way out."""
    kept = Kept(tmp_path, [DOWN])
    last = refused(await kept.answer())
    for _ in range(ROUNDS_MAX - 1):
        kept.clock.advance(60)
        last = refused(await kept.answer())
    used_up = refused(await kept.answer())
    assert [(503, "idempotency_exhausted")] * 2 == [
        (reply.status, reply.code) for reply in (last.reply, used_up.reply)
    ]
    assert ROUNDS_MAX == len(kept.provider.calls)
    kept.assert_verifies()


async def test_a_request_that_cannot_be_asked_leaves_no_package(tmp_path: Path) -> None:
    """Nothing is written where nobody could have been asked."""
    kept = Kept(tmp_path)
    with pytest.raises(PrivacyViolation):
        await kept.answer(scope=Scope(profile=PrivacyProfile.LOCAL_ONLY))
    with pytest.raises(InvalidRequest):
        await kept.answer(chat_request(model="nobody/has-it"))
    assert [] == list(kept.store.list())


async def test_a_request_that_is_no_strict_json_cannot_be_kept(tmp_path: Path) -> None:
    """A name that stands twice inside a message would be recorded as another request."""
    kept = Kept(tmp_path)
    request = chat_request()
    doubtful = replace(request, members={"messages": b'[{"role":"user","role":"system"}]'})
    with pytest.raises(InvalidRequest) as caught:
        await kept.answer(doubtful)
    assert ("not_strict_json", "messages") == (caught.value.code, caught.value.where)


async def let_go(kept: Kept) -> None:
    """Wait until nobody works on the case."""
    while True:
        with suppress(LockBusy), kept.store.lock(CASE):
            return
        await asyncio.sleep(0)


async def test_a_client_that_leaves_leaves_the_call_as_a_crash_would(tmp_path: Path) -> None:
    """The call is cancelled, named as perhaps paid, and made again under the same key."""
    kept = Kept(tmp_path, [asyncio.Event(), completion()])
    call = asyncio.ensure_future(kept.answer())
    await kept.provider.asked.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await let_go(kept)
    assert [("remote", False)] == [(r.provider, r.confirmed) for r in exposures(kept.store, CASE)]
    answered(await kept.answer())
    assert [False, True] == [row.confirmed for row in exposures(kept.store, CASE)]
    kept.assert_verifies()


async def test_a_disk_that_hangs_ends_with_the_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client is told in time; what the disk does later is there under the same key."""
    monkeypatch.setattr(durable_calls, "LATE_SECONDS", 0.0)
    hangs, mended = Event(), Event()

    def observe(call: DiskCall, moment: str) -> None:
        if "outcome-" in call.path and not hangs.is_set():
            hangs.set()
            mended.wait()

    kept = Kept(tmp_path, disk=ObservedDisk(observe))
    late = refused(await kept.answer(scope=Scope(deadline_seconds=0.05))).reply
    assert (504, "timeout") == (late.status, late.code)
    assert "idempotency_busy" == refused(await kept.answer()).reply.code
    mended.set()
    await let_go(kept)
    answered(await kept.answer())
    assert 1 == len(kept.provider.calls)
    kept.assert_verifies()


async def test_calls_whose_disk_hangs_do_not_pile_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond a number of calls at once, the next is refused before anything is done for it."""
    monkeypatch.setattr(durable_calls, "CALLS_MAX", 1)
    answers = asyncio.Event()
    kept = Kept(tmp_path, [answers, completion()])
    first = asyncio.ensure_future(kept.answer())
    await kept.provider.asked.wait()
    assert BUSY == refused(await kept.answer(key="k-2")).reply
    answers.set()
    answered(await first)
    answered(await kept.answer(key="k-2"))


@pytest.mark.parametrize("verb", ["sync", "publish", "begin"])
async def test_a_disk_that_fails_is_told_and_mended_it_goes_on(tmp_path: Path, verb: str) -> None:
    """At whichever step: no text of the disk reaches the client, and no repeat is unnamed."""
    step = 0
    while True:
        step += 1
        root, left = tmp_path / str(step), [step]

        def observe(call: DiskCall, moment: str, left: list[int] = left) -> None:
            left[0] -= moment == "before" and call.verb == verb
            if left[0] <= 0:
                raise OSError(errno.ENOSPC, "canary")

        broken = Kept(root, disk=ObservedDisk(observe))
        reply = await broken.answer()
        if left[0] > 0:
            answered(reply)
            break
        assert 503 == refused(reply).reply.status
        assert "canary" not in refused(reply).reply.message
        mended = Kept(root)
        answered(await mended.answer())
        unconfirmed = [row for row in exposures(mended.store, CASE) if not row.confirmed]
        calls = len(broken.provider.calls) + len(mended.provider.calls)
        assert calls <= 1 + len(unconfirmed)
        mended.assert_verifies()
    assert step > 5


async def test_the_end_of_the_service_waits_for_what_is_being_written(tmp_path: Path) -> None:
    """A call under way is brought to its end."""
    answers = asyncio.Event()
    kept = Kept(tmp_path, [answers, completion()])
    call = asyncio.ensure_future(kept.answer())
    await kept.provider.asked.wait()
    answers.set()
    await kept.calls.aclose()
    assert answered(await call).body
