from __future__ import annotations

import json
import tomllib
from importlib.resources import files
from pathlib import Path

import pytest

from casework.config import GatewayConfig, PrivacyProfile
from casework.errors import ConfigurationError
from casework.gateway.errors import FailureKind
from casework.gateway.llm_gateway import LLMGateway
from casework.gateway.outcomes import RoundErred, RoundSucceeded
from casework.gateway.privacy import judge
from casework.runner.pipeline import Pipeline
from casework.runtime.demo.demo_project import DemoProject, prepare, read_answer_key
from casework.runtime.demo.licence_terms import FAMILIES, Family
from casework.runtime.run.requests import NamedText, RequestBuilder
from casework.strict_json import JSON


@pytest.fixture
def project(tmp_path: Path) -> DemoProject:
    return prepare(tmp_path / "demo", found=[])


def test_the_project_can_be_run_as_it_is(project: DemoProject) -> None:
    """Settings, pipelines, schemas, rules and prompts fit together, for both providers."""
    for model in (False, True):
        config = GatewayConfig.load(project.config_file(model=model))
        pipeline = Pipeline.load(project.pipeline_file(model=model))
        RequestBuilder(pipeline, config.privacy_profile)
        assert PrivacyProfile.LOCAL_ONLY is config.privacy_profile
        assert [True] == [verdict.eligible for verdict in judge(config, config.privacy_profile)]


def test_the_default_says_that_it_is_no_model(project: DemoProject) -> None:
    """On every screen and in every outcome."""
    (provider,) = GatewayConfig.load(project.config_file()).providers
    assert ("rules", "no model") == (provider.adapter, provider.model)
    (other,) = GatewayConfig.load(project.config_file(model=True)).providers
    assert "llamacpp" == other.adapter


def test_a_second_run_changes_nothing_but_the_answer_key(project: DemoProject) -> None:
    """So the second run asks the same questions, and an edited pipeline stays edited."""
    project.pipeline_file().write_text("edited", encoding="utf-8")
    before = {p: p.read_bytes() for p in project.folder.rglob("*") if p.is_file()}
    prepare(project.folder, found=[])
    assert before == {p: p.read_bytes() for p in project.folder.rglob("*") if p.is_file()}


def test_the_answer_key_lies_beside_the_cases(tmp_path: Path) -> None:
    """It names every case of this environment and nothing else."""
    project = prepare(tmp_path / "demo")
    key = read_answer_key(project.answer_key_file)
    assert len(project.items) >= len(key) > 0
    assert any(declared.expression == "MIT" for declared in key.values())


@pytest.mark.parametrize("content", [None, b"", b"[]", b'{"cases": []}'])
def test_a_missing_answer_key_is_an_error_with_a_way_out(
    tmp_path: Path, content: bytes | None
) -> None:
    """Nothing is scored against a damaged key."""
    path = tmp_path / "answer_key.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigurationError, match="casework demo"):
        read_answer_key(path)


def test_a_folder_that_is_a_file_is_named(tmp_path: Path) -> None:
    """One line instead of a traceback."""
    (tmp_path / "demo").write_bytes(b"")
    with pytest.raises(ConfigurationError, match="cannot be written"):
        prepare(tmp_path / "demo", found=[])


def test_rules_schema_and_scoring_know_the_same_families() -> None:
    """Every id that a rule may give is in the tables, with one family everywhere."""
    folder = files("casework.runtime.demo").joinpath("project_files")
    rules = tomllib.loads(folder.joinpath("licence_rules.toml").read_text(encoding="utf-8"))
    fields = {field["name"]: field for field in rules["fields"]}
    given = {rule["value"] for rule in fields["license_id"]["rules"] if "value" in rule}
    assert given == set(fields["family"]["table"]) == set(fields["obligations"]["table"])
    assert {name: FAMILIES[name].value for name in given} == fields["family"]["table"]
    schema = json.loads(folder.joinpath("schemas", "licence.json").read_text(encoding="utf-8"))
    assert [family.value for family in Family] == schema["properties"]["family"]["enum"]


TEXTS = {
    "MIT": "Permission is hereby granted, free of charge, to any person\nobtaining a copy of this. "
    "The above copyright notice and this permission notice shall be included.",
    "MIT-0": "Permission is hereby granted, free of charge, to any person obtaining a copy.",
    "Apache-2.0": "                 Apache License\n           Version 2.0, January 2004",
    "BSD-3-Clause": "Redistribution and use in source and binary forms are permitted. Neither the "
    "name of X nor the names may be used.",
    "BSD-2-Clause": "Redistribution and use in source and binary forms are permitted.",
    "ISC": "Permission to use, copy, modify, and/or distribute this software for any purpose with "
    "or without fee is hereby granted, provided that the above copyright notice appears.",
    "0BSD": "Permission to use, copy, modify, and/or distribute this software for any purpose with "
    "or without fee is hereby granted.",
    "PSF-2.0": "PYTHON SOFTWARE FOUNDATION LICENSE VERSION 2\n---",
    "MPL-2.0": "Mozilla Public License Version 2.0\n===",
    "GPL-3.0-or-later": "GNU GENERAL PUBLIC LICENSE\n   Version 3, 29 June 2007",
    "GPL-2.0-or-later": "the GNU General Public License as published by the Free Software "
    "Foundation; either version 2 of the License, or later.",
    "LGPL-2.1-or-later": "GNU LESSER GENERAL PUBLIC LICENSE\nVersion 2.1, February 1999",
    "AGPL-3.0-or-later": "GNU AFFERO GENERAL PUBLIC LICENSE\nVersion 3, 19 November 2007",
    "Unlicense": "This is free and unencumbered software released into the public domain.",
    "CC0-1.0": "Creative Commons CC0 1.0 Universal",
}


async def answer(project: DemoProject, text: str) -> JSON | FailureKind:
    config = GatewayConfig.load(project.config_file())
    pipeline = Pipeline.load(project.pipeline_file())
    prepared = RequestBuilder(pipeline).build(
        pipeline.operations[0], [NamedText("METADATA", "Name: x\n"), NamedText("LICENSE", text)]
    )
    async with LLMGateway(config) as gateway:
        outcome = await gateway.complete_round(prepared.request)
    if isinstance(outcome, RoundErred):
        return outcome.final.kind
    assert isinstance(outcome, RoundSucceeded)
    return outcome.output


@pytest.mark.parametrize("licence", sorted(TEXTS))
async def test_a_licence_is_known_by_its_text(project: DemoProject, licence: str) -> None:
    """The answer satisfies the schema, and its evidence stands in the document."""
    output = await answer(project, TEXTS[licence])
    assert isinstance(output, dict)
    assert licence == output["license_id"]
    assert FAMILIES[licence].value == output["family"]
    assert (licence not in {"0BSD", "MIT-0", "Unlicense", "CC0-1.0"}) is output["obligations"]
    evidence = output["evidence"]
    assert isinstance(evidence, str)
    assert evidence in TEXTS[licence]


@pytest.mark.parametrize("text", ["All rights reserved.", "", "license: see below"])
async def test_what_proves_nothing_is_no_evidence(project: DemoProject, text: str) -> None:
    """A licence is never guessed."""
    assert FailureKind.NO_EVIDENCE is await answer(project, text)
