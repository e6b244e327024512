"""Operations that need others: run when their answers are there, held or skipped otherwise."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from casework.checkpoints.index_rows import Planned
from casework.checkpoints.records import OperationStatus
from casework.checkpoints.reviews import Correction, ReviewVerdict
from casework.gateway.errors import FailureKind
from casework.gateway.messages import ProviderCall
from casework.gateway.providers.scripted import Computed, Fail, Step
from casework.runner.exposure import exposures
from casework.runner.outcome_files import outcomes_of
from casework.runner.pipeline import Pipeline
from casework.runner.reviews import Decision, Reviewer
from casework.runtime.run.batch import BatchOptions, BatchReport
from casework.runtime.run.campaigns import ask_again, stopped_operations
from casework.runtime.run.interruption import Interruption
from casework.runtime.run.pipeline_run import PipelineRun
from casework.runtime.views.status_view import counts_line
from casework.strict_json import JSONObject
from tests.support.pipeline_workspace import Desk

OBJECT = 'output_schema = { type = "object" }'

GRAPH = f"""
name = "review"
[[operations]]
id = "opinion"
needs = ["triage", "facts"]
when = {{ operation = "triage", pointer = "/severity", in = ["high"] }}
data = [{{ operation = "facts", pointer = "/list" }}, "*.txt"]
task = "Give an opinion."
{OBJECT}
[[operations]]
id = "letter"
needs = ["opinion"]
data = [{{ operation = "opinion" }}]
task = "Write a letter."
{OBJECT}
[[operations]]
id = "triage"
task = "Judge."
{OBJECT}
[[operations]]
id = "facts"
task = "List."
{OBJECT}
"""

TEXTS = {"a": "Severe.", "b": "Harmless.", "c": "Severe and odd."}


def reply(call: ProviderCall) -> str:
    """Answer by task and document."""
    text = call.messages[-1].content
    if "Judge." in text:
        return json.dumps({"severity": "low" if "Harmless" in text else "high"})
    if "List." in text:
        return "no JSON" if "odd" in text else json.dumps({"list": ["one", "two"]})
    return json.dumps({"text": "done"})


ALL: Sequence[Step] = [Computed(reply)]


class Voice:
    """Answers as it is told at the moment."""

    def __init__(self, answer: Callable[[ProviderCall], str] = reply) -> None:
        self.answer = answer

    def steps(self) -> Sequence[Step]:
        """Return the script of a provider that has this voice."""
        return [Computed(self._say)]

    def _say(self, call: ProviderCall) -> str:
        return self.answer(call)


async def drive(run: PipelineRun) -> BatchReport:
    """Run to the end."""
    return await run.run(Interruption())


def states(desk: Desk, case_id: str) -> dict[str, str]:
    """Return what every operation of a case has come to, as the index knows."""
    return {
        row.operation_id: str(row.status or row.planned)
        for row in desk.store.index.operations(case_id)
    }


def tasks(desk: Desk) -> list[str]:
    """Return the tasks that were asked, in order."""
    words = ("Judge.", "List.", "Give an opinion.", "Write a letter.")
    return [
        next(word for word in words if word in call.messages[-1].content)
        for call in desk.provider.calls
    ]


async def test_answers_let_go_hold_and_skip() -> None:
    """One case goes through, one is skipped by its condition, one is held by a failure."""
    desk = Desk(ALL, texts=TEXTS, pipeline=GRAPH)
    run = desk.run()
    assert (6, 6) == (run.counts().waiting, run.counts().held)
    await drive(run)
    done = dict.fromkeys(("triage", "facts", "opinion", "letter"), "SUCCESS")
    assert done == states(desk, "a")
    assert {**done, "opinion": "SKIPPED", "letter": "SKIPPED"} == states(desk, "b")
    assert {**done, "facts": "ERROR", "opinion": "HELD", "letter": "HELD"} == states(desk, "c")
    counts = run.counts()
    assert counts.reconciles
    assert (12, 7, 1, 2, 2) == (
        counts.total,
        counts.success,
        counts.error,
        counts.held,
        counts.skipped,
    )
    assert 8 == len(desk.provider.calls)
    assert counts_line(counts).endswith("waiting 0  held 2  skipped 2")


async def test_parts_of_answers_reach_the_prompt_as_json_under_headings() -> None:
    """In the order of the list, beside the documents."""
    desk = Desk(ALL, texts={"a": "Severe."}, pipeline=GRAPH)
    await drive(desk.run())
    (opinion,) = [c for c in desk.provider.calls if "Give an opinion." in c.messages[-1].content]
    text = opinion.messages[-1].content
    assert (
        '--- document 1 of 2, 20 characters: "facts /list" ---\n\n[\n  "one",\n  "two"\n]' in text
    )
    assert '--- document 2 of 2, 7 characters: "text.txt" ---\n\nSevere.' in text
    (letter,) = [c for c in desk.provider.calls if "Write a letter." in c.messages[-1].content]
    assert '\n{\n  "text": "done"\n}\nEND DATA' in letter.messages[-1].content


async def test_a_retry_that_succeeds_lets_go_what_was_held() -> None:
    """The answer of a later campaign counts; what was done stays as it was."""
    voice = Voice()
    desk = Desk(voice.steps(), texts={"c": TEXTS["c"]}, pipeline=GRAPH)
    await drive(desk.run())
    assert "HELD" == states(desk, "c")["opinion"]
    list(ask_again(desk.store, stopped_operations(desk.store, (OperationStatus.ERROR,))))
    voice.answer = lambda call: reply(call).replace("no JSON", '{"list": []}')
    await drive(desk.run())
    assert {
        "triage": "SUCCESS",
        "facts@2": "SUCCESS",
        "opinion": "SUCCESS",
        "letter": "SUCCESS",
    } == states(desk, "c")
    assert ["Judge.", "List.", "List.", "Give an opinion.", "Write a letter."] == tasks(desk)


async def test_a_lost_index_changes_nothing() -> None:
    """What is held and skipped is found out again, without a call."""
    desk = Desk(ALL, texts=TEXTS, pipeline=GRAPH)
    await drive(desk.run())
    before, calls = {name: states(desk, name) for name in TEXTS}, len(desk.provider.calls)
    desk.store.index.discard()
    run = desk.run()
    await drive(run)
    assert before == {name: states(desk, name) for name in TEXTS}
    assert (calls, True) == (len(desk.provider.calls), run.counts().reconciles)


async def test_the_package_decides_whatever_the_index_says() -> None:
    """Work that the index calls ready is put back unasked, also where no run could end it."""
    desk = Desk(ALL, texts=TEXTS, pipeline=GRAPH)
    await drive(desk.run())
    calls = len(desk.provider.calls)
    run = desk.run()
    for case_id in TEXTS:
        for row in desk.store.index.operations(case_id):
            desk.store.index.set_planned(case_id, row.ophash, Planned.READY)
    await drive(run)
    assert calls == len(desk.provider.calls)
    assert {"opinion": "HELD", "letter": "HELD"}.items() <= states(desk, "c").items()
    assert {"opinion": "SKIPPED", "letter": "SKIPPED"}.items() <= states(desk, "b").items()


async def test_another_condition_is_looked_at_anew() -> None:
    """What was skipped under the old one runs now."""
    desk = Desk(ALL, texts={"b": TEXTS["b"]}, pipeline=GRAPH)
    await drive(desk.run())
    assert "SKIPPED" == states(desk, "b")["opinion"]
    desk.pipeline = Pipeline.parse(GRAPH.replace('in = ["high"]', 'in = ["low"]'), folder=Path())
    await drive(desk.run())
    assert {"SUCCESS"} == set(states(desk, "b").values())


async def test_once_runs_what_becomes_ready_meanwhile() -> None:
    """Each operation at most once, but the whole line of them."""
    desk = Desk(ALL, texts={"a": "Severe."}, pipeline=GRAPH)
    await drive(desk.run(BatchOptions(once=True)))
    assert {"SUCCESS"} == set(states(desk, "a").values())


async def test_a_place_without_a_value_is_an_error_of_its_case() -> None:
    """Nobody is asked; null is something and is asked about."""
    graph = GRAPH.replace('pointer = "/list"', 'pointer = "/list/1"')

    def answer(call: ProviderCall) -> str:
        text = call.messages[-1].content
        if "List." in text:
            return '{"list": [1, null]}' if "odd" in text else '{"list": [1]}'
        return reply(call)

    desk = Desk(Voice(answer).steps(), texts={"a": "Severe.", "n": "Severe, odd"}, pipeline=graph)
    report = await drive(desk.run())
    assert {"data_missing": 1} == dict(report.tally.reasons)
    assert ("ERROR", "HELD") == (states(desk, "a")["opinion"], states(desk, "a")["letter"])
    assert "SUCCESS" == states(desk, "n")["letter"]
    assert 1 == tasks(desk).count("Give an opinion.")


async def test_a_need_that_is_asked_anew_is_waited_for() -> None:
    """Both live on under later ids; the one that needs the other comes second and ends."""
    voice = Voice(lambda c: "no JSON" if "opinion" in c.messages[-1].content else reply(c))
    desk = Desk(voice.steps(), texts={"a": "Severe."}, pipeline=GRAPH)
    await drive(desk.run())
    assert "ERROR" == states(desk, "a")["opinion"]
    head = desk.store.open("a")
    desk.store.resume("a", head.package_id, "opinion", new_operation_id="opinion@2")
    voice.answer = reply
    await drive(desk.run())
    assert ("SUCCESS", "SUCCESS") == (
        states(desk, "a")["opinion@2"],
        states(desk, "a")["letter"],
    )


def decide(desk: Desk, case_id: str, operation_id: str, decision: Decision) -> None:
    """Let a person decide about an operation."""
    (row,) = [o for o in desk.store.index.operations(case_id) if o.operation_id == operation_id]
    Reviewer(desk.store, now=desk.clock.now).decide(case_id, row.ophash, decision)


async def test_a_correction_of_a_person_decides_like_an_answer() -> None:
    """It lets go what was skipped, and what was held by a failure; a rejection holds."""
    desk = Desk(ALL, texts={**TEXTS, "d": "Severe as well."}, pipeline=GRAPH)
    await drive(desk.run(BatchOptions(limit=8)))
    await drive(desk.run())
    severe = (Correction("/severity", "high"),)
    decide(desk, "b", "triage", Decision(ReviewVerdict.CORRECTED, "ada", corrections=severe))
    lists = (Correction("", {"list": ["by hand"]}),)
    decide(desk, "c", "facts", Decision(ReviewVerdict.CORRECTED, "ada", corrections=lists))
    await drive(desk.run())
    assert ("SUCCESS", "SUCCESS") == (states(desk, "b")["letter"], states(desk, "c")["letter"])
    read = [c.messages[-1].content for c in desk.provider.calls if "by hand" in str(c.messages)]
    assert 1 == len([text for text in read if "Give an opinion." in text])


async def test_what_needs_a_rejected_answer_is_held() -> None:
    """Until there is another one."""
    desk = Desk(ALL, texts={"a": "Severe."}, pipeline=GRAPH)
    steps = await drive(desk.run(BatchOptions(limit=2, concurrency=1)))
    assert 2 == steps.tally.rounds
    decide(desk, "a", "facts", Decision(ReviewVerdict.REJECTED, "ada", reason="no"))
    run = desk.run()
    await drive(run)
    assert ("HELD", "HELD") == (states(desk, "a")["opinion"], states(desk, "a")["letter"])
    assert (True, 2) == (run.counts().reconciles, run.counts().held)


PARTS = """
name = "long"
[[operations]]
id = "extract"
task = "List the numbers."
merge_task = "Join the lists."
chunk = { max_bytes = 64 }
output_schema = { type = "object" }
"""

LONG = "".join(f"This is the line that holds number {number}.\n\n" for number in range(1, 4))


def numbers(call: ProviderCall) -> str:
    """Answer with the numbers that stand in the data."""
    text = call.messages[-1].content
    merging = "Join the lists." in text
    found = [n for n in (1, 2, 3) if (f"\n    {n}\n" if merging else f"number {n}.") in text]
    return json.dumps({"numbers": found})


async def test_a_long_document_is_asked_part_by_part_and_merged() -> None:
    """Each part has its own outcome, and the operation itself the answer over them."""
    desk = Desk([Computed(numbers)], texts={"long": LONG, "short": "number 2."}, pipeline=PARTS)
    run = desk.run()
    await drive(run)
    parts = {f"extract#{n}of3": "SUCCESS" for n in (1, 2, 3)}
    assert {"extract": "SUCCESS", **parts} == states(desk, "long")
    assert {"extract": "SUCCESS"} == states(desk, "short")
    assert (True, 5, 5) == (run.counts().reconciles, run.counts().total, run.counts().success)
    assert {"numbers": [1, 2, 3]} == outputs(desk, "long")["extract"]
    assert {"numbers": [2]} == outputs(desk, "long")["extract#2of3"]
    assert {"numbers": [2]} == outputs(desk, "short")["extract"]
    joined = [
        c.messages[-1].content for c in desk.provider.calls if "Join" in c.messages[-1].content
    ]
    assert ["part 1 of 3", "part 2 of 3", "part 3 of 3"] == [
        name
        for name in ("part 1 of 3", "part 2 of 3", "part 3 of 3")
        if f'"{name}" ---' in joined[0]
    ]


async def test_a_part_that_fails_holds_the_merge_and_is_the_only_one_asked_again() -> None:
    """The others keep their answers, also through a lost index."""
    voice = Voice(lambda c: "no JSON" if "number 2." in c.messages[-1].content else numbers(c))
    desk = Desk(voice.steps(), texts={"long": LONG}, pipeline=PARTS)
    run = desk.run()
    await drive(run)
    assert {
        "extract": "HELD",
        "extract#1of3": "SUCCESS",
        "extract#2of3": "ERROR",
        "extract#3of3": "SUCCESS",
    } == states(desk, "long")
    assert (True, 4, 1) == (run.counts().reconciles, run.counts().total, run.counts().held)
    list(ask_again(desk.store, stopped_operations(desk.store, (OperationStatus.ERROR,))))
    voice.answer = numbers
    desk.store.index.discard()
    calls = len(desk.provider.calls)
    await drive(desk.run())
    assert ("SUCCESS", "SUCCESS") == (
        states(desk, "long")["extract"],
        states(desk, "long")["extract#2of3@2"],
    )
    assert {"numbers": [1, 2, 3]} == outputs(desk, "long")["extract"]
    assert 2 == len(desk.provider.calls) - calls


async def test_only_the_missing_part_is_asked_after_a_stop() -> None:
    """A run that ended between two parts goes on with the next one."""
    desk = Desk([Computed(numbers)], texts={"long": LONG}, pipeline=PARTS)
    await drive(desk.run(BatchOptions(limit=2, concurrency=1)))
    done = len(desk.provider.calls)
    assert 0 < done < 4
    desk.store.index.discard()
    await drive(desk.run())
    assert (4, "SUCCESS") == (len(desk.provider.calls), states(desk, "long")["extract"])


@pytest.mark.parametrize(
    ("text", "code"), [(" \n" * 100, "empty_input"), ("A word. \n\n" * 9000, "context_too_long")]
)
async def test_what_cannot_be_read_is_refused_whole(text: str, code: str) -> None:
    """No part of it is asked."""
    desk = Desk([Computed(numbers)], texts={"odd": text}, pipeline=PARTS)
    report = await drive(desk.run())
    assert ({code: 1}, 0) == (dict(report.tally.reasons), len(desk.provider.calls))


async def test_parts_of_another_split_are_taken_back() -> None:
    """Planned parts that the document no longer has are no work any more."""
    desk = Desk([Computed(numbers)], texts={"long": LONG}, pipeline=PARTS)
    await drive(desk.run(BatchOptions(limit=1, concurrency=1)))
    desk.pipeline = Pipeline.parse(PARTS.replace("= 64", "= 100"), folder=Path())
    run = desk.run()
    await drive(run)
    found = states(desk, "long")
    assert "SUCCESS" == found["extract"]
    assert {"SUCCESS"} == set(found.values())
    assert run.counts().reconciles


async def test_a_reask_is_recorded_counted_and_announced() -> None:
    """In the outcome, in the tally, in the audit, and before the call in the announcement."""
    pipeline = PARTS.replace("chunk", "# chunk").replace("merge_task", "# merge_task")
    announced: list[int] = []
    voice = Voice()
    desk = Desk(voice.steps(), texts={"a": "number 1."}, pipeline=pipeline)
    desk.pipeline = Pipeline.parse(
        pipeline.replace('id = "extract"', 'id = "extract"\non_invalid_output = "reask"'),
        folder=Path(),
    )

    def answer(call: ProviderCall) -> str:
        announced.append(len(desk.store.inflight.list()[0].targets))
        return "no JSON" if len(announced) == 1 else numbers(call)

    voice.answer = answer
    report = await drive(desk.run())
    assert ([2, 2], 2, 1) == (announced, report.tally.calls, report.tally.rounds)
    seen = list(exposures(desk.store, "a"))
    assert [("invalid_json", True), (None, True)] == [(one.code, one.confirmed) for one in seen]
    (body,) = [b for b in bodies(desk, "a") if b]
    assert (True, [("invalid_json", None)]) == (
        body["reask"],
        [(a["code"], a.get("reask")) for a in body["attempts"]],  # type: ignore[union-attr,call-overload,index]
    )


async def test_a_failure_of_the_last_need_leaves_its_sibling_alone() -> None:
    """Operations without needs stand alone as ever."""
    desk = Desk(
        [Computed(lambda c: "no JSON" if "List." in c.messages[-1].content else reply(c))],
        texts={"a": "Severe."},
        pipeline=GRAPH,
    )
    await drive(desk.run())
    assert ("SUCCESS", "ERROR") == (states(desk, "a")["triage"], states(desk, "a")["facts"])


async def test_a_blocked_need_holds_what_needs_it() -> None:
    """Until its restart succeeds."""
    desk = Desk([Fail(FailureKind.HTTP_5XX)], texts={"a": "Severe."}, pipeline=GRAPH, rounds=1)
    run = desk.run()
    await drive(run)
    assert (2, 2, 0) == (run.counts().blocked, run.counts().held, run.counts().waiting)


def bodies(desk: Desk, case_id: str) -> list[JSONObject]:
    """Return the outcomes of a case."""
    head = desk.store.open(case_id)
    found = outcomes_of(head.operations.values(), lambda path: desk.store.read_file(case_id, path))
    return [outcome.body for _, outcome in found]


def outputs(desk: Desk, case_id: str) -> dict[str, object]:
    """Return the answers of a case by operation, of a package that the oracle accepts."""
    head = desk.store.open(case_id)
    found = outcomes_of(head.operations.values(), lambda path: desk.store.read_file(case_id, path))
    return {state.operation_id: outcome.output for state, outcome in found}
