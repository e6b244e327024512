"""Faults that users of other gateways have reported, by kind, and the tests that hold each off."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[3]
HERE: Final = "tests/facade/faults"


class Reported(NamedTuple):
    """One kind of fault."""

    report: str
    """One public report of it, of an issue or a pull request."""
    symptom: str
    tests: tuple[str, ...]
    """``file::function``; files of this folder by their name alone, without ``test_``."""


KINDS: Final = frozenset(
    {
        *(1, 2, 4, 5, 6, 8, 9, 11, 12, 14, 15, 17, 18, 20, 21, 22, 23, 24, 25, 27, 29, 30, 31),
        *(32, 33, 35, 37, 38, 40, 41, 43, 44, 46, 48, 49, 50, 52, 53, 54, 55, 56, 58, 59, 60),
        *(61, 62, 63, 65, 66),
    }
)
"""All that were collected, by the number they have in that collection."""

_AFTER = "broken_streams::test_what_breaks_after_it_began_is_told_once_and_asked_of_nobody_else"
_BEFORE = "broken_streams::test_what_breaks_before_it_began_is_made_good_by_the_next_one"
_FRAMING = "stream_framing::test_the_framing_of_a_server_is_its_own_affair"
_USAGE = "stream_framing::test_usage_is_what_the_server_says_where_the_client_asked"
_LEFT = "leaving_clients::test_the_call_is_closed_and_the_log_says_why"
_CALLS = "tool_calls::test_parallel_calls_stay_apart_however_they_are_numbered"
_HISTORY = "tool_calls::test_a_history_reaches_the_server_as_it_is"
_UNKNOWN = "kept_fields::test_members_that_nobody_here_knows_reach_the_server"
_STATUS = "failover::test_a_status_leads_to_the_next_one_or_to_the_client"
_STRICT = "broken_streams::test_a_strict_name_stays_strict_on_every_path"
_BOUNDS = "borders::test_no_failure_leads_out_of_what_a_client_may_reach"
_SILENCE = "broken_streams::test_a_silence_before_the_first_word_is_made_good_by_the_next_one"
_KEPT = "tests/unit/runtime/http/test_durable_calls.py"
_CANARY = "tests/contract/privacy/test_serving_canary.py"
_AUDIT = "tests/unit/gateway/chat/test_request.py"
_KILL = "tests/crash/test_interactive_kill.py::test_no_kill"
_LOG = "tests/unit/runtime/http/test_request_log.py"
_WORDS = "borders::test_errors_and_the_log_hold_no_words_of_others"

REPORTED: Final[Mapping[int, Reported]] = {
    1: Reported("BerriAI/litellm 33404", "a reset is told as a good end", (_AFTER,)),
    2: Reported(
        "BerriAI/litellm 40404",
        "a stream that is cut, stalls or holds one bad event has no defined end",
        (_AFTER, _BEFORE, _SILENCE),
    ),
    4: Reported(
        "diegosouzapw/OmniRoute 8210", "an error beside no choices is a success", (_AFTER, _BEFORE)
    ),
    5: Reported("mlflow/mlflow 25262", "only whole answers fail over", (_BEFORE, _STATUS)),
    6: Reported(
        "apache/apisix 13876", "a cut is paid for twice, its connection used again", (_AFTER,)
    ),
    8: Reported("mnfst/llm-gateway 2053", "comments of a server become data", (_FRAMING,)),
    9: Reported(
        "theopenco/llmgateway 2334",
        "comments of the gateway become empty events",
        (
            "stream_framing::test_no_reader_makes_an_event_of_our_comments",
            "tests/clients/test_programs.py::test_a_python_client_works",
        ),
    ),
    11: Reported("BerriAI/litellm 18842", "characters break where chunks do", (_FRAMING,)),
    12: Reported("Portkey-AI/gateway 1072", "a chunk without choices is too much", (_FRAMING,)),
    14: Reported("diegosouzapw/OmniRoute 9750", "usage beside an empty delta is lost", (_USAGE,)),
    15: Reported("nguyenphutrong/quotio 460", "usage comes though nobody asked", (_USAGE,)),
    17: Reported(
        "BerriAI/litellm 31499", "who leaves before the first token is not missed", (_LEFT,)
    ),
    18: Reported(
        "1rgs/claude-code-proxy 114", "a call for a whole answer is not cancelled", (_LEFT,)
    ),
    20: Reported(
        "BerriAI/litellm 27955",
        "each stream that is left costs a place",
        (
            "places::test_a_hundred_streams_that_are_left_leave_the_place_free",
            "places::test_who_leaves_while_waiting_for_the_place_was_never_there",
            "every_await::test_cut_short_at_every_await_nothing_is_left_behind",
            "every_await::test_cut_short_over_http_no_socket_is_left",
        ),
    ),
    21: Reported(
        "BerriAI/litellm 37992",
        "zero becomes an estimate",
        ("leaving_clients::test_zero_that_a_server_told_stays_zero", _USAGE),
    ),
    22: Reported("theopenco/llmgateway 3331", "unknown usage becomes zero", (_LEFT, _USAGE)),
    23: Reported(
        "Augustas11/macprovider 762",
        "a repeat runs and costs twice",
        (
            "tests/facade/test_kept_calls.py::test_the_same_key_gets_the_same_bytes_and_is_told_so",
            f"{_KEPT}::test_another_body_under_the_key_is_refused",
        ),
    ),
    24: Reported("maximhq/bifrost 1961", "every parallel call has the index 0", (_CALLS,)),
    25: Reported("maximhq/bifrost 1829", "fragments by turns are merged", (_CALLS,)),
    27: Reported(
        "agentgateway/agentgateway 2965",
        "calls after a text count from 1",
        ("tool_calls::test_calls_after_a_text_are_numbered_from_zero",),
    ),
    29: Reported(
        "vercel/ai 12218",
        "an answer with calls ends in stop, and nobody says which",
        ("tool_calls::test_a_reason_to_end_that_openai_knows_is_left_as_it_is",),
    ),
    30: Reported(
        "maximhq/bifrost 2093",
        "thoughts are removed, or renamed",
        (
            _HISTORY,
            "kept_fields::test_thoughts_come_back_under_the_name_that_the_server_gives_them",
        ),
    ),
    31: Reported("maximhq/bifrost 2622", "unknown members are dropped in silence", (_UNKNOWN,)),
    32: Reported("BasedHardware/omi 11975", "an unknown member fails every call", (_UNKNOWN,)),
    33: Reported(
        "langwatch/langwatch 6290",
        "nobody knows what becomes of a parameter",
        (
            f"{_AUDIT}::test_every_member_that_openai_documents_is_passed_on",
            "kept_fields::test_members_reach_the_server_byte_for_byte",
        ),
    ),
    35: Reported(
        "tashfeenahmed/freellmapi 165",
        "an assistant without content is refused",
        (_HISTORY, "tool_calls::test_an_assistant_that_said_nothing_is_no_mistake"),
    ),
    37: Reported(
        "router-for-me/CLIProxyAPI 4961",
        "a schema becomes a hint",
        (
            "kept_fields::test_a_schema_reaches_the_server_byte_for_byte",
            "kept_fields::test_an_answer_is_held_against_the_schema_here_too",
        ),
    ),
    38: Reported(
        "BerriAI/litellm 25656",
        "vectors in the order of their arrival",
        (
            "vectors_and_names::test_each_text_gets_its_own_vector_by_its_index",
            "vectors_and_names::test_a_gathered_call_that_fails_is_one_call_to_the_next",
        ),
    ),
    40: Reported(
        "BerriAI/litellm 37271",
        "a slash in an id is 404",
        ("vectors_and_names::test_ids_hold_whatever_names_hold",),
    ),
    41: Reported(
        "maximhq/bifrost 4395",
        "a prefix in capitals leads elsewhere",
        ("vectors_and_names::test_a_prefix_never_leads_to_another_provider",),
    ),
    43: Reported(
        "maximhq/bifrost 6344",
        "packed bodies are passed on as if they were plain",
        (
            _FRAMING,
            "vectors_and_names::test_packed_bodies_are_unpacked_and_sent_plain",
            "vectors_and_names::test_bodies_that_cannot_be_unpacked_are_no_answers",
        ),
    ),
    44: Reported(
        "BerriAI/litellm 40130",
        "the shorter of two waits counts",
        ("failover::test_the_longer_of_two_waits_counts",),
    ),
    46: Reported(
        "agentgateway/agentgateway 1500",
        "429 without a time does not lead on",
        ("failover::test_a_limit_without_a_time_is_passed_over_too",),
    ),
    48: Reported(
        "diegosouzapw/OmniRoute 1772",
        "a quota used up is asked for again every minute",
        ("failover::test_a_rest_that_did_not_help_is_longer_the_next_time",),
    ),
    49: Reported("vava-nessa/free-coding-models 148", "529, 409 and 503 lead nowhere", (_STATUS,)),
    50: Reported(
        "future-agi/future-agi 2693",
        "half-open is wide open",
        ("failover::test_of_two_hundred_that_wait_one_is_the_probe",),
    ),
    52: Reported(
        "thushan/olla 144",
        "who fails at once gets everybody",
        (
            "failover::test_a_server_that_fails_at_once_does_not_attract_everybody",
            "failover::test_a_server_that_breaks_every_stream_is_found_out_too",
        ),
    ),
    53: Reported(
        "BerriAI/litellm 19985",
        "an exhausted chain begins again",
        (
            "failover::test_exhausted_chains_do_not_begin_again",
            "failover::test_keys_that_are_refused_are_tried_once_each",
        ),
    ),
    54: Reported("BerriAI/litellm 35578", "a strict request is rerouted in a stream", (_STRICT,)),
    55: Reported(
        "bircex/llmr 45",
        "repeats have no end together",
        (
            "failover::test_the_deadline_holds_over_all_providers_and_repeats",
            "failover::test_a_wait_that_would_cross_the_deadline_is_skipped",
        ),
    ),
    56: Reported(
        "open-webui/terminals 24",
        "a stale connection is an error, or a second call",
        (
            "failover::test_a_connection_gone_stale_costs_neither_an_error_nor_a_call",
            "failover::test_a_request_that_was_read_is_not_sent_again_in_silence",
        ),
    ),
    58: Reported(
        "BerriAI/litellm 26987",
        "probes cost money",
        ("failover::test_a_probe_is_a_clients_own_request",),
    ),
    59: Reported("BerriAI/litellm 38572", "failover leaves what is allowed", (_BOUNDS,)),
    60: Reported(
        "BerriAI/litellm 24952",
        "a body names the destination",
        (
            "borders::test_no_member_of_a_body_names_a_destination",
            "borders::test_nobody_here_fetches_what_a_request_points_to",
            "borders::test_no_redirect_is_followed_or_passed_on",
        ),
    ),
    61: Reported(
        "NVIDIA-NeMo/Switchyard 410",
        "credentials of clients, cookies and places cross the border",
        (
            "borders::test_headers_of_a_client_stay_where_they_are",
            "borders::test_headers_of_an_answer_stay_where_they_are",
        ),
    ),
    62: Reported(
        "BerriAI/litellm 18731",
        "errors tell keys and addresses",
        (_WORDS, "borders::test_an_address_that_nobody_answers_is_not_told"),
    ),
    63: Reported(
        "BerriAI/litellm 39385",
        "what failed is logged unredacted",
        (_WORDS, f"{_CANARY}::test_no_file_holds_what_it_should_not"),
    ),
    65: Reported(
        "maximhq/bifrost 1902",
        "after a crash a job has no end",
        (f"{_KILL}_loses_a_reply_or_repeats_a_call_unnamed",),
    ),
    66: Reported(
        "BerriAI/litellm 38193",
        "what cannot be stored piles up",
        (
            "tests/crash/test_disk_outage.py::test_a_service_lives_through_a_disk_that_refuses",
            f"{_LOG}::test_an_outage_of_the_disk_costs_what_does_not_fit",
        ),
    ),
}


@cache
def names_in(path: str) -> frozenset[str]:
    """Return the names of the tests in a file."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    found = (n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(name for name in found if name.startswith("test_"))


def located(test: str) -> tuple[str, str]:
    """Return the file and the name of a test."""
    file, _, name = test.partition("::")
    return (file if "/" in file else f"{HERE}/test_{file}.py"), name


def test_every_kind_of_fault_is_held_off_by_a_test_that_is_there() -> None:
    """None is missing, and none is held off in name only."""
    assert set(REPORTED) == KINDS
    named = [located(test) for reported in REPORTED.values() for test in reported.tests]
    assert [] == [(file, name) for file, name in named if name not in names_in(file)]
    assert all(reported.tests for reported in REPORTED.values())


def test_every_file_here_holds_off_something() -> None:
    """Its tests stand in the table, or hold something that nobody has reported yet."""
    used = {file for reported in REPORTED.values() for file, _ in map(located, reported.tests)}
    unreported = {
        "test_fast_loop.py",
        "test_odd_requests.py",
        "test_silence.py",
        "test_shutting_down.py",
    }
    here = {path.name for path in (ROOT / HERE).glob("test_*.py")}
    missing = {name for name in here if f"{HERE}/{name}" not in used}
    assert {*unreported, Path(__file__).name} == missing
