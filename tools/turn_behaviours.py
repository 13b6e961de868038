"""What an agent's turn does, part by part: what each behaviour is, and the tests that hold it."""

from __future__ import annotations

from typing import NamedTuple


class Behaviour(NamedTuple):
    """``tests``: file below ``tests`` without its ending, and how the name of the test begins. ``lacks``: what of it is
    not there, or is otherwise, and why; such a row alone may have no test.
    """

    says: str
    tests: tuple[str, ...] = ()
    lacks: str = ""


_BUILDER = "cognition/turn/test_builder"
_PIPELINE = "cognition/turn/test_pipeline"
_HISTORY = "cognition/stages/test_history_sanitize"
_REPAIR = "cognition/history/test_repair"
_AGING = "cognition/history/test_aging"
_CLASSIFIER = "cognition/classification/test_classifier"
_TASKS = "cognition/classification/test_corpus"
_ROUTER = "cognition/routing/test_router"
_ROUTE = "cognition/stages/test_route"
_ROUTES = "kernel/policy/test_routes"
_GUARD = "cognition/stages/test_context_guard"
_WINDOW = "cognition/guard/test_window"
_INJECTION = "cognition/guard/test_injection"
_ATTACKS = "cognition/guard/test_corpus"
_AGENT = "cognition/test_agent"
_MENDED = "cognition/execution/test_repair"
_REPEATED = "cognition/execution/test_repetition"
_CLAIMS = "cognition/execution/test_claims"
_MACHINE = "cognition/failover/test_machine"
_ASKING = "cognition/failover/test_asking"
_FAILOVER = "cognition/stages/test_failover_decide"
_SCORES = "cognition/scoring/test_scores"
_OPTIONS = "kernel/syscall/models/test_model_options"
_DIALECTS = "cognition/providers/test_dialects"
_FAULTS = "cognition/providers/served/test_faults"
_PACE = "cognition/providers/served/test_pace"
_CANCEL = "integration/test_cancel"
_MODELS = "integration/test_models"
_TRACES = "weftos/cli/turns/test_traces"
_FEED = "kernel/message/test_turn_feed"
_SEEN = "integration/test_turn_events"
_TRACING = "weftos/node/test_tracing"
_SINKS = "weftos/traces/test_sinks"
_TRANSCRIPTS = "weftos/audit/lines/test_transcripts"
_CHATS = "kernel/turn/test_chat_sessions"
_CAPS = "kernel/turn/test_caps"
_ACCESS = "kernel/policy/test_access"
_ADMISSION = "kernel/control/test_admission"
_AUTH = "cognition/stages/test_auth_resolve"
_SECTIONS = "cognition/prompt/test_sections"
_FEED = "kernel/message/test_turn_feed"
_TRAJECTORIES = "kernel/slices/feed/test_trajectories"
_RATED = "kernel/control/test_trajectories"
_CHECK = "cognition/config/test_check"

PARTS: dict[str, tuple[Behaviour, ...]] = {
    "The pipeline": (
        Behaviour("A stage goes on with a new turn", (f"{_PIPELINE}::test_each_stage_gets_the_turn",)),
        Behaviour("A stage skips with a reason", (f"{_PIPELINE}::test_a_stage_that_skips",)),
        Behaviour(
            "A stage responds; score and trace run all the same",
            (f"{_PIPELINE}::test_behind_an_answer_only",),
        ),
        Behaviour(
            "A stage aborts; score and trace run all the same",
            (f"{_PIPELINE}::test_an_abort", f"{_PIPELINE}::test_what_an_always_stage"),
        ),
        Behaviour(
            "One error of the builder names everything that does not fit",
            (f"{_BUILDER}::test_each_fault", f"{_BUILDER}::test_all_faults"),
        ),
        Behaviour(
            "Stages are inserted, replaced, reordered within what they need",
            (f"{_BUILDER}::test_stages_are_inserted",),
        ),
        Behaviour(
            "What is skippable is skipped, and the rest is a fault",
            (f"{_BUILDER}::test_what_may_be_skipped",),
        ),
        Behaviour(
            "Without `context_guard` every turn warns", (f"{_BUILDER}::test_who_leaves_out_the_guard",)
        ),
        Behaviour(
            "The two short lists and their aliases are valid",
            (f"{_BUILDER}::test_a_list_may_use_other_names",),
        ),
        Behaviour("Each absent stage has a stated default", (f"{_BUILDER}::test_every_stage_that_may_be",)),
        Behaviour(
            "Behind `classify` the pipeline of the task's type takes over, also by the configuration",
            (
                f"{_PIPELINE}::test_behind_classify",
                f"{_BUILDER}::test_a_configuration_has_other",
                f"{_BUILDER}::test_the_stages_of_a_task",
            ),
        ),
    ),
    "Messages and sessions": (
        Behaviour(
            "A message says its channel, chat, user, id, attachments and what it asks of the answer, within bounds",
            (
                "kernel/model/test_inbound::test_",
                "kernel/control/test_sending::test_a_message_of_a_channel",
                "kernel/control/test_sending::test_what_cannot_be_said",
            ),
        ),
        Behaviour(
            "A repeated id of one channel is answered once",
            ("kernel/control/test_sending::test_an_id_of_a_channel",),
        ),
        Behaviour(
            "A session is a process below its agent, keyed `channel:chat`; a slow chat blocks no other",
            (f"{_CHATS}::test_a_slow_chat", "kernel/message/test_chats::test_"),
        ),
        Behaviour(
            "Crash and recovery are per session",
            (f"{_CHATS}::test_one_chat_that_crashes", f"{_CHATS}::test_the_crash_of_the_agent"),
        ),
        Behaviour(
            "A node that ends between a message and the start of its session loses nothing",
            (f"{_CHATS}::test_a_node_that_ends", f"{_CHATS}::test_a_message_for_one_that_sleeps"),
        ),
        Behaviour(
            "Idle sessions fall asleep and find their history again; there are so many of one agent",
            (
                f"{_CHATS}::test_one_that_is_idle",
                f"{_CHATS}::test_beyond_the_limit",
                f"{_CHATS}::test_of_too_many",
            ),
        ),
    ),
    "auth_resolve": (
        Behaviour(
            "A user of a channel means an identity with roles and a highest tier",
            (
                f"{_ACCESS}::test_a_channel_and",
                f"{_ADMISSION}::test_a_user_is_known",
                f"{_AUTH}::test_it_says",
            ),
        ),
        Behaviour(
            "Access rules by channel, process and tool; what is denied wins",
            (
                f"{_ACCESS}::test_who_may_ask",
                f"{_ACCESS}::test_which_tools",
                f"{_ACCESS}::test_whatever_a_user",
            ),
        ),
        Behaviour(
            "Users whom nobody knows are guests, or refused where the channel says so",
            (
                "weftos/config/test_access::test_without_a_word",
                f"{_AUTH}::test_where_the_node",
                f"{_ACCESS}::test_a_role_of_which",
            ),
        ),
        Behaviour(
            "AccessDenied says user, channel and reason, is on record, and reaches no model",
            (f"{_ADMISSION}::test_who_may_not_ask", "integration/test_access::test_a_user_has"),
        ),
        Behaviour(
            "A resumed turn sees the identity that was recorded",
            (f"{_ADMISSION}::test_what_was_decided",),
        ),
        Behaviour(
            "Rates of each sender by minute and hour, sliding; a refused message counts for nothing and says when",
            (
                "kernel/policy/test_rates::test_",
                f"{_ADMISSION}::test_a_message_too_many",
                f"{_ADMISSION}::test_an_agent_is_limited",
            ),
        ),
        Behaviour(
            "A kill gives no message, no hour and no money for free",
            (
                "integration/test_access::test_a_message_too_many",
                "integration/test_access::test_a_question_under",
            ),
        ),
        Behaviour(
            "Another user of a chat neither speaks in a turn nor ends it",
            (f"{_CHATS}::test_another_user",),
        ),
        Behaviour("Why a user may use a tool is explained", (f"{_ADMISSION}::test_what_is_said_of",)),
        Behaviour("It cannot be skipped", (f"{_AUTH}::test_it_stands_first",)),
        Behaviour(
            "What agents have others do counts for the user who asked",
            lacks="the tools of his turn are handed on; his tier and caps are those of the agent that he asked",
        ),
    ),
    "history_sanitize": (
        Behaviour(
            "Sensitive fields are redacted for senders without the permission, and in every summary",
            (f"{_HISTORY}::test_sensitive_fields", "cognition/history/test_sensitive::test_"),
            "they are found by name; what an answer said in prose is not",
        ),
        Behaviour(
            "At most 50 messages, within the budget of tokens",
            (f"{_HISTORY}::test_at_most_fifty", f"{_HISTORY}::test_what_fits"),
        ),
        Behaviour("Internal messages are dropped", (f"{_REPAIR}::test_what_does_not_fit",)),
        Behaviour(
            "Orphaned results and calls, duplicates, wrong alternation are repaired",
            (f"{_REPAIR}::test_what_does_not_fit", f"{_REPAIR}::test_whatever_a_session_holds"),
        ),
        Behaviour("A result older than four turns is one line", (f"{_AGING}::test_a_result_is_shown_whole",)),
        Behaviour(
            "Secrets are redacted",
            (f"{_AGING}::test_secrets_of_known", f"{_HISTORY}::test_secrets_in_results"),
        ),
        Behaviour("`sliding` drops the oldest and says so", (f"{_HISTORY}::test_sliding",)),
        Behaviour(
            "`summary` replaces what is over its threshold", (f"{_HISTORY}::test_a_summary_takes_the_place",)
        ),
        Behaviour(
            "`hybrid` slides and keeps a running summary",
            (f"{_HISTORY}::test_hybrid", f"{_HISTORY}::test_the_session_keeps_the_summary"),
        ),
        Behaviour(
            "Without a summary from the model the result is still valid",
            (f"{_HISTORY}::test_without_a_summary",),
        ),
        Behaviour(
            "Deeds that no exchange shows are told from the node's record, open ones first, within bounds",
            (
                f"{_HISTORY}::test_every_deed",
                f"{_HISTORY}::test_where_all_is_shown",
                f"{_HISTORY}::test_more_than_may_be_told",
                "kernel/slices/history/test_deeds::test_",
            ),
        ),
        Behaviour(
            "Compaction from 70 % of the window on, whatever the strategy: 70/30, on record started, done, with range "
            "and hash; valid without the model",
            (
                f"{_HISTORY}::test_the_limit",
                f"{_HISTORY}::test_a_session_is_compacted",
                f"{_HISTORY}::test_without_an_answer",
                "kernel/syscall/prompts/test_compactions::test_one_is_recorded",
            ),
        ),
        Behaviour(
            "Facts go to MEMORY.md, with the event memory_flush; what is there stays",
            ("kernel/syscall/prompts/test_compactions::test_",),
        ),
        Behaviour(
            "A compaction that makes nothing shorter opens a breaker",
            (f"{_HISTORY}::test_a_compaction_that",),
        ),
        Behaviour(
            "A summary can be undone",
            (
                f"{_HISTORY}::test_a_summary_that_was_undone",
                "kernel/control/test_sessions::test_the_newest_summary",
            ),
        ),
        Behaviour(
            "A history of 100,000 messages, a message of 5 MB have their outcome",
            (f"{_HISTORY}::test_a_history_of",),
        ),
        Behaviour("The summary records its range and hash", (f"{_HISTORY}::test_a_summary_stays_true",)),
    ),
    "classify": (
        Behaviour(
            "Eight types of tasks", (f"{_CLASSIFIER}::test_a_plain_message", f"{_TASKS}::test_macro_f1")
        ),
        Behaviour(
            "Complexity from 0 to 1",
            (f"{_CLASSIFIER}::test_more_that_is_asked", f"{_TASKS}::test_what_is_called_more"),
        ),
        Behaviour("Word boundaries, not substrings", (f"{_CLASSIFIER}::test_a_part_of_a_word",)),
    ),
    "route": (
        Behaviour(
            "Four tiers with their boundaries, or static",
            (f"{_ROUTER}::test_each_tier_begins", f"{_ROUTE}::test_static_routing"),
        ),
        Behaviour(
            "The sender's `max_tier`; an unknown name fails closed",
            (
                f"{_ROUTER}::test_every_task_under",
                f"{_ROUTER}::test_a_tier_that_is_none",
                f"{_ROUTES}::test_a_tier",
            ),
        ),
        Behaviour(
            "Escalation where permitted",
            (
                f"{_ROUTER}::test_escalation",
                f"{_ROUTER}::test_the_threshold",
                f"{_ROUTES}::test_who_escalates",
            ),
        ),
        Behaviour(
            "Within a tier by preference, lowest cost or chance",
            (f"{_ROUTER}::test_the_cheapest", f"{_ROUTER}::test_chance", f"{_ROUTE}::test_chance_is_asked"),
        ),
        Behaviour(
            "Models of a tier take turns", (f"{_ROUTER}::test_models_of_a_tier", f"{_CAPS}::test_a_quote")
        ),
        Behaviour(
            "Caps of cost by day and month, for each tier and sender, reserved before and settled after",
            (
                "kernel/budget/test_spending::test_",
                f"{_CAPS}::test_twenty_at_once",
                f"{_CAPS}::test_a_node_that_dies",
                f"{_CAPS}::test_what_nobody",
            ),
        ),
        Behaviour(
            "A cheaper tier where a cap is short, and the decision says which cap",
            (f"{_ROUTER}::test_what_caps", f"{_ROUTE}::test_the_node_is_asked_for_a_quote"),
        ),
        Behaviour("Allow and deny globs", (f"{_ROUTER}::test_globs", f"{_ROUTES}::test_what_is_denied")),
        Behaviour(
            "A fallback chain that never exceeds the permission",
            (f"{_ROUTER}::test_no_chain", f"{_ROUTES}::test_whatever_an_agent_finds"),
        ),
        Behaviour(
            "The decision explains itself",
            (f"{_ROUTER}::test_the_decision", f"{_ROUTE}::test_a_message_has_a_type"),
        ),
        Behaviour(
            "Once per turn, also after a kill",
            (
                "integration/test_routing::test_a_turn_that_goes_on",
                f"{_ROUTE}::test_a_model_that_the_configuration",
            ),
        ),
        Behaviour(
            "The node decides again",
            ("integration/test_routing::test_the_node_refuses", f"{_ROUTES}::test_every_tier"),
        ),
    ),
    "context_guard": (
        Behaviour(
            "System prompt of sections: IDENTITY.md, SOUL.md, USER.md, MEMORY.md, rules; absent files are fine",
            (f"{_SECTIONS}::test_what_is_there", "kernel/syscall/prompts/test_prompt_files::test_"),
        ),
        Behaviour(
            "For each call of a model the sections are recorded: name, tokens, source, hash",
            (f"{_SECTIONS}::test_each_message", f"{_SECTIONS}::test_of_many_sections"),
        ),
        Behaviour(
            "`weftos context` shows the window with a bar for each section, and the text where it was not erased",
            ("weftos/cli/turns/test_contexts::test_", "integration/test_context::test_"),
        ),
        Behaviour(
            "Attachments: count, size, type; shown as text where they are text",
            (
                f"{_GUARD}::test_what_came_with",
                f"{_GUARD}::test_an_attachment",
                f"{_GUARD}::test_orders_in_an",
            ),
            "no provider is sent pictures",
        ),
        Behaviour(
            "Content policy by phrases",
            (f"{_GUARD}::test_phrases", f"{_GUARD}::test_a_phrase_with"),
        ),
        Behaviour(
            "Memory by hybrid search within its budget",
            (
                "cognition/recall/test_context::test_whatever_the_texts",
                "cognition/recall/test_context::test_the_recalled_stays",
            ),
        ),
        Behaviour(
            "What is shown fits the window before every call of a model",
            (f"{_GUARD}::test_results_that_outgrow", f"{_WINDOW}::test_it_fits"),
        ),
        Behaviour(
            "System prompt and message that do not fit are told with used and limit",
            (f"{_GUARD}::test_a_message_that_does_not_fit", f"{_WINDOW}::test_system_prompt_and"),
        ),
        Behaviour(
            "Middle messages drop first",
            (f"{_WINDOW}::test_one_token_too_many", f"{_WINDOW}::test_the_session_goes"),
        ),
        Behaviour(
            "The stable part stands first and is the same bytes from call to call",
            (f"{_DIALECTS}::test_what_a_question_begins_with", f"{_AGENT}::test_each_request_of_a_turn"),
        ),
        Behaviour(
            "Injection: user text, tool output and web content score differently",
            (f"{_INJECTION}::test_the_same_words", "cognition/guard/test_guard::test_a_tool_whose"),
        ),
        Behaviour(
            "Injection: normalised first",
            (f"{_INJECTION}::test_an_order_is_noticed_in_each", f"{_INJECTION}::test_a_disguise"),
        ),
        Behaviour(
            "Injection: flags, strips or refuses by configuration",
            (
                f"{_GUARD}::test_a_suspicious",
                f"{_GUARD}::test_a_stripped",
                f"{_GUARD}::test_a_refused",
                f"{_GUARD}::test_off",
            ),
        ),
        Behaviour("Injection: attacks and benign texts that were held out", (f"{_ATTACKS}::test_",)),
    ),
    "tool_split": (
        Behaviour(
            "`[agent.tools.NAME]`: enabled, roles, calls per session, sandbox, a person; the node checks each call",
            (
                "kernel/policy/test_tool_rules::test_",
                "kernel/syscall/test_tool_rules::test_what_may_not",
                "kernel/syscall/test_tool_rules::test_calls_are_counted",
            ),
        ),
        Behaviour(
            "Definitions within a budget of the window, the preferred first and behind what they need; text only",
            (
                "cognition/execution/test_loading::test_those_are_offered",
                "cognition/execution/test_loading::test_declarations_take",
                "cognition/stages/test_tool_split::test_what_does_not_fit",
            ),
        ),
        Behaviour(
            "`load_tools`: groups on demand, the first question has one small tool",
            (
                "cognition/execution/test_loading::test_a_group",
                "cognition/stages/test_tool_split::test_tools_are_loaded",
            ),
        ),
        Behaviour(
            "A turn keeps the rules that it began with",
            ("kernel/syscall/test_tool_rules::test_a_turn_keeps",),
        ),
        Behaviour(
            "Tools that capabilities and configuration allow",
            (f"{_AGENT}::test_configuration_reaches", f"{_AGENT}::test_without_a_list"),
        ),
    ),
    "execute": (
        Behaviour(
            "At most five tools with a process of their own at once", ("kernel/syscall/test_at_once::test_",)
        ),
        Behaviour(
            "A time for each tool and one for the whole turn, without what is nobody's work",
            (
                "kernel/turn/test_turn_time::test_",
                "kernel/policy/test_tool_rules::test_a_call_takes_the_least",
            ),
        ),
        Behaviour(
            "`[agent.workspace]`: root, allowed paths, denied patterns, size of a file, also over links",
            ("kernel/toolbox/test_file_rules::test_",),
        ),
        Behaviour("Streams to whoever listens", (f"{_MODELS}::test_tokens_are_seen",)),
        Behaviour(
            "Results to 64 KB, and a word that there is more",
            (
                "kernel/syscall/test_long_results::test_a_result_of",
                "cognition/providers/test_wire::test_a_failed",
            ),
        ),
        Behaviour(
            "25 rounds, one closing call without tools, then an error",
            (f"{_AGENT}::test_after_25_rounds", f"{_AGENT}::test_a_model_that_asks_for_tools"),
        ),
        Behaviour(
            "Parallel calls of a round", (f"{_AGENT}::test_calls_of_one", f"{_AGENT}::test_calls_are_made")
        ),
        Behaviour(
            "Answers by JSON Schema, asked again at most twice",
            (
                f"{_AGENT}::test_an_answer_of_the_shape",
                f"{_AGENT}::test_an_answer_of_another",
                f"{_AGENT}::test_after_two_more",
                f"{_DIALECTS}::test_a_schema_goes",
            ),
        ),
        Behaviour(
            "Stop reasons length and content_filter by name",
            (f"{_FAILOVER}::test_why_an_answer_ended", f"{_DIALECTS}::test_an_answer_that_was_cut"),
        ),
        Behaviour(
            "Arguments repaired only where unambiguous",
            (f"{_MENDED}::test_what_can_mean", f"{_MENDED}::test_what_would_be"),
        ),
        Behaviour(
            "The same call: warned at 3, refused at 5, the turn ends at 8",
            (f"{_REPEATED}::test_what_becomes", f"{_AGENT}::test_the_same_call"),
        ),
        Behaviour("Ping-pong only where arguments repeat", (f"{_REPEATED}::test_two_in_turns",)),
        Behaviour(
            "Three unknown tools end the turn",
            (f"{_REPEATED}::test_three_tools", f"{_AGENT}::test_three_tools"),
        ),
        Behaviour(
            "Calls written as text are recovered",
            (f"{_MENDED}::test_calls_that_were_written", f"{_AGENT}::test_a_call_that_was_written"),
        ),
        Behaviour(
            "An empty answer is asked for again",
            (f"{_AGENT}::test_an_empty_answer", f"{_AGENT}::test_a_second_answer"),
        ),
        Behaviour("Cancellation leaves no orphan", (f"{_CANCEL}::test_",)),
        Behaviour(
            "A cancelled, failed or exhausted turn keeps its partial answer, marked",
            (f"{_AGENT}::test_a_model_error_after_tool_work", "kernel/turn/test_partial_answers::test_"),
        ),
        Behaviour(
            "Claims about files and messages are checked",
            (f"{_CLAIMS}::test_a_claim_of_what", f"{_AGENT}::test_a_claim"),
        ),
    ),
    "failover_decide": (
        Behaviour(
            "Seven states, six events, a total table, in the docs",
            (
                f"{_MACHINE}::test_every_state",
                f"{_MACHINE}::test_each_row",
                f"{_MACHINE}::test_the_table_in_the_docs",
                f"{_MACHINE}::test_the_scopes",
            ),
        ),
        Behaviour(
            "A spent provider gives way, the last one is the end",
            (f"{_MACHINE}::test_a_spent_provider", f"{_MACHINE}::test_the_last_spent"),
        ),
        Behaviour("A timeout may be retried and then fails over", (f"{_ASKING}::test_a_timeout",)),
        Behaviour(
            "Retries are reset on moving on",
            (f"{_MACHINE}::test_a_spent_provider_gives_way_to_the_next_with_all",),
        ),
        Behaviour("`retry_after` is respected within the deadline", (f"{_ASKING}::test_what_a_server_asks",)),
        Behaviour("Exponential back-off with jitter", (f"{_ASKING}::test_waits_grow",)),
        Behaviour("Circuit breaker per model", ("cognition/providers/served/test_breaker::test_",)),
        Behaviour("At most n(2r+2)+1 transitions, walked", (f"{_MACHINE}::test_no_walk",)),
        Behaviour(
            "Two agents of ten calls, two providers that fail in mid-turn: in trace, ledger and the answer's metadata",
            (
                "integration/test_failing_providers::test_who_fails",
                "kernel/slices/feed/test_reply_metadata::test_",
            ),
        ),
        Behaviour(
            "What was shown of a dead attempt is void",
            (f"{_DIALECTS}::test_a_stream_that_is_cut", f"{_DIALECTS}::test_an_error_in_the_middle"),
        ),
    ),
    "score": (
        Behaviour(
            "Overall, relevance, coherence, completion, efficiency, use of tools, explained",
            (f"{_SCORES}::test_each_respect", f"{_SCORES}::test_the_numbers"),
        ),
        Behaviour("A turn that failed is scored too", (f"{_SCORES}::test_a_turn_that_failed",)),
        Behaviour(
            "A person's thumb is an entry, counts as half of the score, and is shown by the trace",
            (
                f"{_RATED}::test_a_thumb",
                f"{_TRAJECTORIES}::test_a_thumb_is_half",
                f"{_TRACES}::test_what_a_person_says",
            ),
        ),
        Behaviour("Only a turn that has ended is rated", (f"{_RATED}::test_a_turn_is_rated",)),
        Behaviour(
            "The newest thumb counts; it outlasts the node",
            (f"{_TRAJECTORIES}::test_the_newest_thumb", f"{_RATED}::test_a_thumb"),
        ),
    ),
    "learn": (
        Behaviour(
            "Of each turn a trajectory: request, response, scores, cost, tokens, model, task, outcome",
            (f"{_TRAJECTORIES}::test_a_trajectory_names",),
        ),
        Behaviour(
            "Turns that failed too, also those that told of no stage",
            (f"{_TRAJECTORIES}::test_a_turn_that_its_node_ended",),
        ),
        Behaviour("Without the stage there is none", (f"{_TRAJECTORIES}::test_a_turn_without",)),
        Behaviour(
            "Retention by count and by days, and a bound over all agents",
            (
                f"{_TRAJECTORIES}::test_the_newest_so_many",
                f"{_TRAJECTORIES}::test_what_is_older",
                f"{_TRAJECTORIES}::test_of_all_agents",
            ),
        ),
        Behaviour(
            "An erased or deleted session has none, nor has a removed process",
            (f"{_RATED}::test_an_erased", f"{_TRAJECTORIES}::test_they_go_with"),
        ),
        Behaviour(
            "`weftos trajectories` lists them, and exports them with the texts that are not erased",
            ("integration/test_trajectories::test_",),
        ),
        Behaviour(
            "Turns are handed to memory",
            lacks="by an agent that holds the memory tools, and by compactions; no turn is by itself (ADR 0071)",
        ),
    ),
    "Configuration": (
        Behaviour(
            "Each key acts: without its line something else is seen; one file has all of them",
            (
                "weftos/config/keys/test_every_key::test_a_key_acts",
                "weftos/config/keys/test_every_key::test_one_file",
                "weftos/config/keys/test_every_key::test_what_agents_can",
            ),
        ),
        Behaviour(
            "Each key wrong in turn is one fault with file, line and key",
            ("weftos/config/keys/test_wrong_values::test_",),
        ),
        Behaviour(
            "`weftos config reload` and SIGHUP: what reloads is stated; faults change nothing; keys rotate",
            ("integration/test_reload::test_keys", "weftos/config/test_reload::test_"),
        ),
        Behaviour("`voice_mode`: an answer that can be spoken", ("cognition/execution/test_spoken::test_",)),
        Behaviour(
            "defaults < TOML < environment < app < spawn < channel < message; tools only intersect",
            ("cognition/turn/test_precedence::test_",),
        ),
        Behaviour(
            "Identities, permissions, rates and caps are reloaded",
            (
                "integration/test_access::test_what_is_configured",
                "weftos/config/test_reload::test_what_can_be",
            ),
        ),
        Behaviour(
            "Each fault is told with its key, all at once",
            (f"{_CHECK}::test_each_fault", f"{_CHECK}::test_all_faults"),
        ),
        Behaviour("An agent that is told nothing has the defaults", (f"{_CHECK}::test_an_agent_that",)),
    ),
    "Providers": (
        Behaviour(
            "Chat completions, responses, Anthropic messages, Ollama: an answer whole and as it comes",
            (f"{_DIALECTS}::test_an_answer_comes", f"{_DIALECTS}::test_calls_of_tools"),
        ),
        Behaviour(
            "Errors have a kind, with the time to wait",
            (
                f"{_DIALECTS}::test_what_a_server_says",
                f"{_DIALECTS}::test_a_providers_own",
                f"{_DIALECTS}::test_how_long",
                f"{_FAULTS}::test_the_word",
            ),
        ),
        Behaviour(
            "Keys from environment or file, held by the gateway alone, rotated without a restart",
            (
                "integration/test_provider_keys::test_the_key_reaches",
                "integration/test_provider_keys::test_providers_are_there",
                "cognition/providers/served/test_key_file::test_",
            ),
        ),
        Behaviour("Presets from the environment", ("weftos/config/test_presets::test_",)),
        Behaviour(
            "Usage and cost",
            (f"{_OPTIONS}::test_an_answer_has_a_cost", "integration/test_money::test_what_models"),
        ),
        Behaviour(
            "Pacing: in flight and per minute, fair, learnt from headers",
            (f"{_PACE}::test_so_many", f"{_PACE}::test_who_asks", f"{_DIALECTS}::test_a_limit_that"),
        ),
        Behaviour(
            "Waiting for a slot is a wait cause and takes nothing of the model's time",
            (f"{_MODELS}::test_a_question_behind", f"{_OPTIONS}::test_the_wait_for_others"),
        ),
        Behaviour(
            "A server that others have written: `transformers serve`",
            ("integration/test_transformers_serve::test_",),
            "not part of `make test` nor of `make prove`: it wants torch in an interpreter of its own",
        ),
        Behaviour(
            "Garbage, a cut in the middle, 10 MB in a line, 500 calls, usage of -1",
            (
                f"{_DIALECTS}::test_garbage",
                f"{_DIALECTS}::test_a_cut",
                f"{_DIALECTS}::test_ten_megabytes",
                f"{_DIALECTS}::test_five_hundred",
                f"{_DIALECTS}::test_counts",
            ),
        ),
    ),
    "Events": (
        Behaviour(
            "For one call: tokens before, action_started, shield_verdict, action_completed, tokens after, the answer",
            (f"{_FEED}::test_the_order",),
        ),
        Behaviour("A slow subscriber blocks nobody", (f"{_FEED}::test_a_thousand_readers",)),
        Behaviour(
            "Offsets; who comes late, again, or after a restart of the node reads what all others read",
            (f"{_FEED}::test_the_order", f"{_FEED}::test_what_cannot_be_followed"),
        ),
        Behaviour(
            "What a dead attempt showed is void (`reset`)",
            (f"{_FEED}::test_an_answer_that_is_begun_anew", f"{_FEED}::test_a_call_that_is_made_again"),
        ),
        Behaviour("Kept for a bounded time, in bounded bytes", (f"{_FEED}::test_what_is_kept",)),
    ),
    "Traces": (
        Behaviour(
            "`weftos trace` shows stages, durations, outcomes, who did not answer",
            (
                f"{_TRACES}::test_the_newest",
                f"{_TRACES}::test_people_get",
                f"{_TRACES}::test_a_turn_is_chosen",
            ),
        ),
        Behaviour(
            "One turn, one trace with one root, also over a kill -9; what is made again is linked and counts once",
            (f"{_SEEN}::test_a_turn_of_a_killed_node", f"{_FEED}::test_a_call_that_is_made_again"),
        ),
        Behaviour("Waiting for a person is a span of its own", (f"{_SINKS}::test_what_is_taken",)),
        Behaviour(
            "Traces go to a file or by OTLP, sampled, and hold up no turn; what is dropped is counted and said",
            (
                f"{_TRACING}::test_what_is_not_taken",
                f"{_TRACING}::test_a_tracer_that_does_not_answer",
                f"{_SINKS}::test_who_takes_nothing",
                f"{_SINKS}::test_a_file_has",
                f"{_SEEN}::test_a_receiver_that_never",
            ),
        ),
        Behaviour(
            "Prompts are left out as a rule; secrets never leave",
            (f"{_TRACING}::test_prompts_are_in_it", "weftos/traces/test_content::test_"),
        ),
    ),
    "Kills": (
        Behaviour(
            "Killed between its stages, a turn does nothing and asks nothing twice (all places: "
            "`make prove PART=stages`)",
            (
                "integration/test_restarts::test_a_turn_whose_cell",
                "prove/stages/test_verdict::test_what_is_wrong",
            ),
        ),
    ),
    "What is seen of a turn": (
        Behaviour(
            "Events in one order; who is late, comes again, or comes after a restart sees the same",
            (
                f"{_FEED}::test_the_order_of_one_call",
                f"{_SEEN}::test_a_turn_of_a_killed_node",
                "weftos/api/test_api::test_who_comes_again",
            ),
            "`otr_blocked` and `approval_required` are names once somebody emits them",
        ),
        Behaviour(
            "What failed over, was made again or is incomplete is voided by `reset`",
            (f"{_FEED}::test_an_answer_that_is_begun_anew", f"{_FEED}::test_a_call_that_is_made_again"),
        ),
        Behaviour(
            "What sub-agents do is told to who waits for them", (f"{_FEED}::test_the_turn_that_waits",)
        ),
        Behaviour(
            "Readers who are slow, leave, or never read hold up nobody; what is kept is bounded",
            (f"{_FEED}::test_a_thousand_readers", f"{_FEED}::test_what_is_kept_is_bounded"),
        ),
        Behaviour("What cannot be followed is said", (f"{_FEED}::test_what_cannot_be_followed",)),
    ),
    "Conversations as files": (
        Behaviour(
            "Exported with calls and thoughts, a line each; searched; titled after three exchanges",
            (
                f"{_TRANSCRIPTS}::test_a_conversation_is_told",
                f"{_TRANSCRIPTS}::test_a_title",
                f"{_SEEN}::test_traces_go_into_a_file",
            ),
        ),
        Behaviour(
            "Imported as far as it is whole, within bounds, in place of no other; no deeds",
            (
                f"{_TRANSCRIPTS}::test_of_a_file",
                f"{_TRANSCRIPTS}::test_a_line_",
                "kernel/control/test_transcripts::test_what_is_taken_over",
            ),
        ),
    ),
}
