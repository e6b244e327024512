"""Is everything ready, and what could leave this machine? Contacts nobody."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from casework.checkpoints.index import sqlite_version
from casework.config.gateway_config import GatewayConfig
from casework.config.privacy_profile import ProviderClass
from casework.errors import CaseworkError, ConfigurationError
from casework.gateway.clock import SystemClock
from casework.gateway.credentials import credentials_for
from casework.gateway.llm_gateway import LLMGateway
from casework.gateway.privacy import Eligibility
from casework.gateway.providers.local_weights import is_intact, weights_path
from casework.runner.pipeline import Pipeline
from casework.runtime.project import Project
from casework.runtime.run.requests import NamedText, RequestBuilder
from casework.runtime.scaffold import ignores_settings
from casework.runtime.version import version_line
from casework.runtime.views import phrases
from casework.runtime.views.travel import asked_in_order, travel_sentence
from casework.runtime.workspace import open_store

PROXY_NAMES: Final = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")

WAL_FAULT_FIRST: Final = (3, 7, 0)
WAL_FAULT_LAST: Final = (3, 51, 2)
"""The versions of SQLite in which resetting the write-ahead log can damage a database."""

_LOCAL: Final = ProviderClass.LOCAL


class CheckState(StrEnum):
    """How a check came out."""

    OK = "ok"
    NOTE = "note"
    """Worth knowing; nothing is wrong."""
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    name: str
    state: CheckState
    detail: str


def examine(
    project: Project, environ: Mapping[str, str], *, pipeline_file: Path | None = None
) -> Iterator[Check]:
    """Look at settings, pipeline, keys, ground and surroundings, and say what was found."""
    yield Check("version", CheckState.OK, version_line())
    try:
        config = GatewayConfig.load(project.config_file)
        gateway = LLMGateway(config, environ=environ)
    except CaseworkError as error:
        yield _problem("settings", error)
    else:
        yield Check("settings", CheckState.OK, _settings_sentence(project, config))
        yield from _providers(gateway, environ)
        yield from _pipeline(project, gateway, pipeline_file)
    yield _ignored(project)
    yield _proxies(environ)
    if project.config_file.exists() or project.runtime.exists():
        yield from _ground(project)
    yield _sqlite()
    yield _local_model(environ)


def _settings_sentence(project: Project, config: GatewayConfig) -> str:
    return (
        f"{project.config_file}: {phrases.plural(len(config.enabled_providers), 'provider')} "
        f"enabled, profile {config.privacy_profile.value}"
    )


def _providers(gateway: LLMGateway, environ: Mapping[str, str]) -> Iterator[Check]:
    """Say who is eligible, whose keys are missing, and what could leave the machine."""
    verdicts = gateway.explain()
    away = any(v.eligible and v.provider.provider_class is not _LOCAL for v in verdicts)
    yield Check("travel", CheckState.NOTE if away else CheckState.OK, travel_sentence(verdicts))
    eligible = any(verdict.eligible for verdict in verdicts)
    order = f"asked in order: {asked_in_order(verdicts)}"
    remedy = "" if eligible else "; enable a provider that the profile permits"
    state = CheckState.OK if eligible else CheckState.PROBLEM
    yield Check("providers", state, order + remedy)
    for verdict in verdicts:
        yield from _keys(verdict, environ)


def _keys(verdict: Eligibility, environ: Mapping[str, str]) -> Iterator[Check]:
    provider = verdict.provider
    if not verdict.eligible:
        reason = f"{provider.id} is not asked: {verdict.reason.value}"
        yield Check("providers", CheckState.NOTE, reason)
        return
    try:
        keys = credentials_for(provider, environ)
    except ConfigurationError as error:
        yield _problem("keys", error)
        return
    if keys:
        labels = ", ".join(key.label for key in keys)
        yield Check("keys", CheckState.OK, f"{provider.id}: {labels}")


def _pipeline(project: Project, gateway: LLMGateway, pipeline_file: Path | None) -> Iterator[Check]:
    """Read the pipeline and plan each operation as a call would, short of the call."""
    config = gateway.config
    try:
        path = project.pipeline_file(pipeline_file)
        pipeline = Pipeline.load(path, engine=config.validation.engine)
        builder = RequestBuilder(pipeline, config.privacy_profile)
    except CaseworkError as error:
        yield _problem("pipeline", error)
        return
    names = ", ".join(spec.id for spec in pipeline.operations)
    yield Check("pipeline", CheckState.OK, f"{path}: {pipeline.name}: {names}")
    for spec in pipeline.operations:
        try:
            gateway.plan(builder.build(spec, [NamedText("probe", "probe")]).request)
        except CaseworkError as error:
            yield _problem(f"operation {spec.id}", error)


def _ignored(project: Project) -> Check:
    if ignores_settings(project.folder):
        return Check("ignore file", CheckState.OK, "settings and runtime folder stay out of Git")
    detail = "add config/llm.local.toml and runtime/ to .gitignore, if this folder is under Git"
    return Check("ignore file", CheckState.NOTE, detail)


def _proxies(environ: Mapping[str, str]) -> Check:
    """Say that proxies of the environment are not used, and which are set; never their values."""
    names = [name for name in environ if name.lower() in PROXY_NAMES and environ[name]]
    if names:
        return Check(
            "proxies", CheckState.NOTE, f"set but not used for providers: {', '.join(names)}"
        )
    return Check("proxies", CheckState.OK, "none set; they would not be used for providers")


def _ground(project: Project) -> Iterator[Check]:
    """Prove the runtime folder, and tell of rounds that a crash cut off."""
    store = open_store(project, SystemClock())
    try:
        store.prove()
        yield Check("disk", CheckState.OK, f"{project.runtime}: creates once, syncs, locks")
        interrupted = store.recover()
    except CaseworkError as error:
        yield _problem("disk", error)
        return
    for intent in interrupted:
        yield Check(
            "interrupted",
            CheckState.NOTE,
            f"case {intent.case_id}, {intent.operation_id} round {intent.round}: its call may "
            "have been paid twice; see casework audit",
        )
    for name in store.inflight.damaged():
        yield Check("interrupted", CheckState.PROBLEM, f"inflight/{name} cannot be read")


def _sqlite() -> Check:
    version = sqlite_version()
    number = tuple(int(part) for part in version.split("."))
    if WAL_FAULT_FIRST <= number <= WAL_FAULT_LAST:
        return Check(
            "sqlite",
            CheckState.NOTE,
            f"{version} has the WAL-reset fault of 3.7.0 to 3.51.2; Casework is not exposed: its "
            "index does not use the write-ahead log, and can be rebuilt from the packages",
        )
    return Check("sqlite", CheckState.OK, f"{version}, without known faults")


def _local_model(environ: Mapping[str, str]) -> Check:
    weights = is_intact(weights_path(environ))
    runtime = importlib.util.find_spec("xllamacpp") is not None
    if weights and runtime:
        return Check("local model", CheckState.OK, "installed")
    missing = [
        *([] if weights else ["weights (casework model install)"]),
        *([] if runtime else ["runtime (pip install 'casework[local-model]')"]),
    ]
    return Check("local model", CheckState.NOTE, f"not installed: {', '.join(missing)}")


def _problem(name: str, error: CaseworkError) -> Check:
    return Check(name, CheckState.PROBLEM, str(error))
