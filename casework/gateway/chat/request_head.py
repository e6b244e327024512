"""What requests of every kind begin with: one JSON object, a model, and a privacy profile."""

from __future__ import annotations

import json
from typing import Final

from casework.config.privacy_profile import PrivacyProfile
from casework.errors import InvalidRequest
from casework.gateway.chat.json_members import (
    MISFIT,
    NOT_JSON,
    Members,
    check_utf8,
    is_null,
    is_text,
    members_of,
    text_of,
)
from casework.gateway.chat.refusals import missing, out_of_range, wrong_type
from casework.gateway.chat.withheld import FAMILIAR, PRIVACY_MEMBER, is_misspelt_profile
from casework.strict_json import object_without_duplicates

WITHHELD_TOLD_MAX: Final = 64
"""Most members that are named as withheld."""


def top_of(body: bytes) -> Members:
    """Take a body apart into its members.

    Raises:
        InvalidRequest: It is no JSON object.
    """
    try:
        check_utf8(body)
        return members_of(body)
    except MISFIT:
        is_json = True
    except NOT_JSON:
        is_json = False
    if is_json:
        raise wrong_type(None, "a JSON object")
    raise InvalidRequest(
        "the body is no JSON in UTF-8, or nests too deep",
        code="invalid_json",
        remedy="send one JSON object",
    )


def model_of(top: Members) -> str:
    """Return the model that is asked for, as the client wrote it.

    Raises:
        InvalidRequest: None is named.
    """
    value = top.get("model")
    if value is None:
        raise missing("model")
    if not is_text(value):
        raise wrong_type("model", "a string")
    model = text_of(value)
    if not model:
        raise out_of_range("model", "name a model, or auto")
    return model


def privacy_profile_of(top: Members, body: bytes) -> PrivacyProfile | None:
    """Return the profile that the body names; it must be plain which one is meant.

    Raises:
        InvalidRequest: It is none, or may be another, or its name is misspelt.
    """
    if any(name not in FAMILIAR and is_misspelt_profile(name) for name in top):
        raise InvalidRequest(
            "a member is named almost like the one that narrows privacy, which would go unseen",
            code="invalid_value",
            where=PRIVACY_MEMBER,
            remedy=f"write {PRIVACY_MEMBER}, at the top of the body",
        )
    if PRIVACY_MEMBER not in top:
        return None
    try:
        json.loads(body, object_pairs_hook=object_without_duplicates)
        plain = True
    except (ValueError, RecursionError):
        plain = False
    if not plain:
        raise InvalidRequest(
            "a member stands twice, so that it is open which profile is meant",
            code="duplicate_member",
            where=PRIVACY_MEMBER,
            remedy="beside a privacy profile, write each member once",
        )
    value = top[PRIVACY_MEMBER]
    if is_null(value):
        return None
    if not is_text(value):
        raise wrong_type(PRIVACY_MEMBER, "a string or null")
    try:
        return PrivacyProfile(text_of(value))
    except ValueError:
        pass
    raise out_of_range(PRIVACY_MEMBER, f"use one of {', '.join(PrivacyProfile)}")
