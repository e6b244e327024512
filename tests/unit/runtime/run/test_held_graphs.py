"""Any graph, any answers: the line ends where the rule says, and finds that out again."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from casework.gateway.messages import ProviderCall
from casework.gateway.providers.scripted import Computed
from casework.runner.pipeline import Operation, Pipeline
from casework.runtime.run.interruption import Interruption
from casework.runtime.run.pipeline_run import PipelineRun
from tests.support.pipeline_workspace import Desk

NAMES = ("a", "b", "c", "d", "e")

Graph = dict[str, tuple[list[str], str | None]]
"""Needs of each operation, and the one that must have answered yes."""


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Draw operations that need only earlier ones."""
    graph: Graph = {}
    for position, name in enumerate(NAMES):
        earlier = st.sampled_from(NAMES[:position]) if position else st.nothing()
        needs = draw(st.lists(earlier, max_size=2, unique=True)) if position else []
        graph[name] = (needs, draw(st.sampled_from([None, *needs])))
    return graph


def pipeline_of(graph: Graph, order: list[str]) -> Pipeline:
    """Return the pipeline of a graph, its operations written down in any order."""
    operations = []
    for name in order:
        needs, asked = graph[name]
        when = [] if asked is None else [{"operation": asked, "pointer": "/yes", "equals": True}]
        operations.append(
            Operation(
                name, task=f"Task {name}.", output_schema={"type": "object"}, needs=needs, when=when
            )
        )
    return Pipeline("n", operations)


def expected(graph: Graph, answers: dict[str, bool | None]) -> dict[str, str]:
    """Say what each operation comes to, from the graph and the answers alone."""
    found: dict[str, str] = {}
    for name, (needs, asked) in graph.items():
        below = [found[need] for need in needs]
        if "SKIPPED" in below:
            found[name] = "SKIPPED"
        elif any(state != "SUCCESS" for state in below):
            found[name] = "HELD"
        elif asked is not None and answers[asked] is not True:
            found[name] = "SKIPPED"
        else:
            found[name] = "ERROR" if answers[name] is None else "SUCCESS"
    return found


async def drive(run: PipelineRun) -> None:
    """Run to the end."""
    await run.run(Interruption())


@settings(max_examples=40, deadline=None)
@given(
    graphs(),
    st.fixed_dictionaries({name: st.sampled_from([True, False, None]) for name in NAMES}),
    st.permutations(list(NAMES)),
)
async def test_every_graph_ends_where_the_rule_says(
    graph: Graph, answers: dict[str, bool | None], order: list[str]
) -> None:
    """Each operation is asked at most once, and a lost index asks nobody again."""

    def answer(call: ProviderCall) -> str:
        text = call.messages[-1].content
        (name,) = [name for name in NAMES if f"Task {name}." in text]
        return "no JSON" if answers[name] is None else json.dumps({"yes": answers[name]})

    desk = Desk([Computed(answer)], texts={"case": "A text."})
    desk.pipeline = pipeline_of(graph, order)
    run = desk.run()
    await drive(run)
    goal = expected(graph, answers)
    assert goal == states(desk)
    assert run.counts().reconciles
    asked = len(desk.provider.calls)
    assert asked == sum(state in {"SUCCESS", "ERROR"} for state in goal.values())
    desk.store.index.discard()
    await drive(desk.run())
    assert (goal, asked) == (states(desk), len(desk.provider.calls))


def states(desk: Desk) -> dict[str, str]:
    """Return what each operation has come to, as the index knows."""
    rows = desk.store.index.operations("case")
    return {row.operation_id: str(row.status or row.planned) for row in rows}
