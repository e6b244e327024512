"""Results made from something else than is asked now: found, never mixed, asked anew on demand."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from casework.checkpoints.records import OperationStatus
from casework.checkpoints.reviews import Correction, ReviewVerdict
from casework.config.gateway_config import GatewayConfig
from casework.errors import IllegalTransition, OperationConflict
from casework.gateway.llm_gateway import LLMGateway
from casework.gateway.messages import ProviderCall
from casework.gateway.providers.scripted import Computed, Reply
from casework.prompts import PromptTemplate
from casework.runner.pipeline import Pipeline
from casework.runner.reviews import Decision, Reviewer
from casework.runtime.run.campaigns import ask_stale
from casework.runtime.run.interruption import Interruption
from casework.runtime.run.pipeline_run import PipelineRun
from casework.runtime.run.stale_results import ANSWERS, CHUNK, StaleCheck, begun_operations
from tests.support.pipeline_workspace import SETTINGS, Desk

PIPELINE = """
name = "review"
[[operations]]
id = "first"
task = "Answer."
output_schema = { type = "object", required = ["answer"] }
[operations.parameters]
temperature = 0.0
max_tokens = 64
"""

YES = Reply('{"answer": "yes"}')
BUILT_IN = PromptTemplate.built_in


def edited(before: str, after: str) -> Callable[[Desk], None]:
    """Return the change of a pipeline that puts one text in the place of another."""

    def change(desk: Desk) -> None:
        assert before in PIPELINE
        desk.pipeline = Pipeline.parse(PIPELINE.replace(before, after), folder=Path())

    return change


def other_model(desk: Desk) -> None:
    """Let the provider have another model."""
    config = GatewayConfig.parse(SETTINGS.format(rounds=3).replace("m-1", "m-2"))
    gateway = LLMGateway(config, adapters={"desk": lambda _: desk.provider}, clock=desk.clock)
    desk.workspace = dataclasses.replace(desk.workspace, config=config, gateway=gateway)


SIX: dict[str, tuple[Callable[[Desk], None] | None, str]] = {
    "prompt": (edited("Answer.", "Answer now."), "messages"),
    "schema": (edited('["answer"]', '["answer"], maxProperties = 9'), "messages, output_schema"),
    "max tokens": (edited("= 64", "= 65"), "parameters"),
    "temperature": (edited("= 0.0", "= 0.5"), "parameters"),
    "model": (other_model, "configuration.providers[desk].model"),
    "built-in prompt": (None, "messages, prompt_sha256"),
}


def another_release(name: str) -> PromptTemplate:
    """Return a built-in template as a later release might ship it."""
    template = BUILT_IN(name)
    first, *others = template.sections
    pieces = ("Be brief.\n", *first.pieces)
    return dataclasses.replace(
        template, sha256="1" * 64, sections=(dataclasses.replace(first, pieces=pieces), *others)
    )


def check_of(desk: Desk) -> StaleCheck:
    """Return a check of a desk's results against its pipeline of today."""
    return StaleCheck(desk.pipeline, desk.store, desk.workspace.gateway)


def found_by(desk: Desk) -> list[tuple[str, str]]:
    """Return every stale result and what differs."""
    operations = begun_operations(desk.store)
    return [(s.operation.operation_id, ", ".join(s.parts)) for s in check_of(desk).of(operations)]


async def drive(run: PipelineRun) -> None:
    """Run to the end."""
    await run.run(Interruption())


@pytest.mark.parametrize("what", SIX)
async def test_each_change_is_told_refused_and_asked_anew_on_demand(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The difference is named, old outcomes stay, and nothing is asked before somebody says so."""
    desk = Desk([YES], pipeline=PIPELINE)
    await drive(desk.run())
    assert [] == found_by(desk)
    change, differs = SIX[what]
    if change is None:
        monkeypatch.setattr(PromptTemplate, "built_in", another_release)
    else:
        change(desk)
    with pytest.raises(OperationConflict, match="casework retry --stale") as refused:
        await drive(desk.run())
    assert differs in str(refused.value)
    assert [differs] == [", ".join(one.parts) for one in check_of(desk).sampled()]
    assert [("first", differs)] * 3 == found_by(desk)
    assert 3 == len(desk.provider.calls)
    chosen = check_of(desk).of(begun_operations(desk.store))
    asked = list(ask_stale(desk.store, chosen))
    assert [("first@2", differs)] * 3 == [(one.new_operation_id, one.reason) for one in asked]
    run = desk.run()
    await drive(run)
    assert (6, 3, []) == (len(desk.provider.calls), run.counts().success, found_by(desk))
    states = desk.store.open("a").operations.values()
    assert {("first", "first@2"), ("first@2", None)} == {
        (state.operation_id, state.resumed_as) for state in states
    }
    assert {OperationStatus.SUCCESS} == {state.status for state in states}


async def test_an_answer_is_left_behind_only_for_somebody_who_says_so() -> None:
    """Resuming alone never gives an answer up."""
    desk = Desk([YES], pipeline=PIPELINE)
    await drive(desk.run())
    head = desk.store.open("a")
    with pytest.raises(IllegalTransition):
        desk.store.resume("a", head.package_id, "first", new_operation_id="first@2")
    after = desk.store.resume(
        "a", head.package_id, "first", new_operation_id="first@2", answered=True
    )
    assert "RETRY_PENDING" == after.status


DEPENDENT = (
    PIPELINE
    + """
[[operations]]
id = "second"
needs = ["first"]
data = [{ operation = "first", pointer = "/answer" }]
task = "Answer again."
output_schema = { type = "object" }
"""
)


async def test_what_read_an_answer_that_was_given_anew_is_stale_in_its_turn() -> None:
    """It does not hold up the run, is told, and is asked anew where its own data differ."""
    word = ["old"]

    def answer(call: ProviderCall) -> str:
        same = "Three." in call.messages[-1].content
        return json.dumps({"answer": "same" if same else word[0]})

    desk = Desk([Computed(answer)], pipeline=DEPENDENT)
    await drive(desk.run())
    word[0] = "new"
    desk.pipeline = Pipeline.parse(DEPENDENT.replace('"Answer."', '"Answer anew."'), folder=Path())
    chosen = check_of(desk).of(begun_operations(desk.store), only="first")
    assert 3 == len(list(ask_stale(desk.store, chosen)))
    await drive(desk.run())
    assert [("second", ANSWERS)] * 2 == found_by(desk)
    assert [ANSWERS] == [part for one in check_of(desk).sampled() for part in one.parts]
    await drive(desk.run())
    list(ask_stale(desk.store, check_of(desk).of(begun_operations(desk.store))))
    run = desk.run()
    await drive(run)
    assert ([], 6, 6 + 3 + 2) == (found_by(desk), run.counts().success, len(desk.provider.calls))


async def test_both_a_need_and_what_needs_it_can_be_asked_anew_at_once() -> None:
    """The one that needs the other waits for it, however early it is due."""
    desk = Desk([YES], pipeline=DEPENDENT)
    await drive(desk.run())
    desk.pipeline = Pipeline.parse(DEPENDENT.replace('"Answer', '"Please answer'), folder=Path())
    assert 6 == len(list(ask_stale(desk.store, check_of(desk).of(begun_operations(desk.store)))))
    run = desk.run()
    await drive(run)
    assert (6, 0, []) == (run.counts().success, run.counts().retry, found_by(desk))


async def test_another_split_of_a_document_is_a_change() -> None:
    """The operation itself is stale; the parts of the old split are nobody's any more."""
    parts = PIPELINE.replace(
        'task = "Answer."', 'task = "Answer."\nmerge_task = "Join."\nchunk = { max_bytes = 64 }'
    )
    desk = Desk([YES], texts={"a": "A line of the text.\n\n" * 12}, pipeline=parts)
    await drive(desk.run())
    desk.pipeline = Pipeline.parse(parts.replace("= 64 }", "= 100 }"), folder=Path())
    assert [("first", CHUNK)] == found_by(desk)
    with pytest.raises(OperationConflict, match="chunk"):
        await drive(desk.run())
    list(ask_stale(desk.store, check_of(desk).of(begun_operations(desk.store))))
    run = desk.run()
    await drive(run)
    assert ([], 0) == (found_by(desk), run.counts().unsettled)
    assert (5 + 4, True) == (len(desk.provider.calls), run.counts().reconciles)


async def test_an_answer_given_anew_may_let_go_what_the_old_one_ruled_out() -> None:
    """Conditions are judged by the newest campaign."""
    word = ["no"]
    conditional = DEPENDENT.replace(
        'task = "Answer again."',
        'task = "Answer again."\n'
        'when = { operation = "first", pointer = "/answer", equals = "yes" }',
    )
    desk = Desk([Computed(lambda _: json.dumps({"answer": word[0]}))], pipeline=conditional)
    run = desk.run()
    await drive(run)
    assert (3, 3) == (run.counts().success, run.counts().skipped)
    word[0] = "yes"
    desk.pipeline = Pipeline.parse(
        conditional.replace('"Answer."', '"Answer anew."'), folder=Path()
    )
    list(ask_stale(desk.store, check_of(desk).of(begun_operations(desk.store))))
    run = desk.run()
    await drive(run)
    assert (6, 0) == (run.counts().success, run.counts().skipped)


SPLIT = PIPELINE.replace(
    'task = "Answer."', 'task = "Answer."\nmerge_task = "Join."\nchunk = { max_bytes = 64 }'
)


async def test_parts_and_merge_are_asked_anew_in_their_order() -> None:
    """The merge waits for the new answers of all parts."""
    desk = Desk([YES], texts={"a": "A line of the text.\n\n" * 6}, pipeline=SPLIT)
    await drive(desk.run())
    changed = SPLIT.replace('"Answer."', '"Answer now."').replace('"Join."', '"Join now."')
    desk.pipeline = Pipeline.parse(changed, folder=Path())
    list(ask_stale(desk.store, check_of(desk).of(begun_operations(desk.store))))
    run = desk.run()
    await drive(run)
    assert (3, 0, 6) == (run.counts().success, run.counts().unsettled, len(desk.provider.calls))
    assert "Join now." in desk.provider.calls[-1].messages[-1].content


async def test_a_corrected_part_makes_the_merge_stale_and_stops_no_run() -> None:
    """The person's answer is what the merge reads when it is asked anew."""
    desk = Desk([YES], texts={"a": "A line of the text.\n\n" * 6}, pipeline=SPLIT)
    await drive(desk.run())
    (part,) = [o for o in desk.store.index.operations("a") if o.operation_id == "first#1of2"]
    word = (Correction("/answer", "by hand"),)
    Reviewer(desk.store, now=desk.clock.now).decide(
        "a", part.ophash, Decision(ReviewVerdict.CORRECTED, "ada", corrections=word)
    )
    assert [("first", ANSWERS)] == found_by(desk)
    await drive(desk.run())
    list(ask_stale(desk.store, check_of(desk).of(begun_operations(desk.store))))
    await drive(desk.run())
    assert ([], True) == (found_by(desk), "by hand" in desk.provider.calls[-1].messages[-1].content)
