"""Kinds of turns, and of the questions to models in them."""

from __future__ import annotations

from chain.entry.fields import BOOL, DIGEST, JSON, TEXT, TEXTS, WHOLE
from chain.entry.kind import ADDRESS, CALL_HASH, MESSAGE, ORDINAL, TURN, kind

TURNS = (
    kind(
        "turn.started",
        "the handling of a message began, or began again after a crash",
        turn=TURN,
        message=MESSAGE,
        address=ADDRESS,
        session=(TEXT, "session it belongs to"),
        attempt=(WHOLE, "1 for the first time"),
        config=(
            JSON,
            "JSON of what the node's configuration tells the behaviour; that of attempt 1 goes for all",
        ),
        result_bytes=(
            WHOLE,
            "how much of a tool's result the process is handed; that of attempt 1 goes for all",
        ),
        ends=(WHOLE, "of how many ends of those that were handed it before the process is told"),
        withheld=(TEXTS, "tools that the process is not told of; those of attempt 1 go for all"),
    ),
    kind(
        "turn.steered",
        "a turn asked which messages of its chat have come since it began: these join it, and are answered by it",
        turn=TURN,
        ordinal=ORDINAL,
        call_hash=CALL_HASH,
        messages=(TEXTS, "ids of the messages, oldest first; often none"),
        texts=(JSON, "JSON of their texts"),
    ),
    kind(
        "turn.ended",
        "the handling of a message ended; lazy only where that answers a call of this node",
        durable=True,
        turn=TURN,
        status=(TEXT, "ok, error, cancelled, diverged (a person gave it up) or poison"),
        reply=(TEXT, "text of the reply"),
        reply_hash=(DIGEST, "SHA-256 of the whole reply"),
        call=(TEXT, "call of this node that it answers, TURN:ORDINAL, empty for none; not in older entries"),
        stages=(
            JSON,
            "JSON of the steps that the behaviour tells of: [stage, outcome, why, microseconds]; not in older entries",
        ),
    ),
    kind(
        "turn.diverged",
        "a resumed turn asked something else than before: it is parked until a person decides",
        durable=True,
        turn=TURN,
        ordinal=ORDINAL,
        recorded=(JSON, "JSON of the call that is recorded: op, name, arguments (bounded), seq, outcome"),
        asked=(JSON, "JSON of the call that was made instead: op, name, arguments (bounded)"),
    ),
    kind(
        "turn.differed",
        "a turn that was gone through once more, to check it, did not do the same: its behaviour is not deterministic",
        turn=TURN,
        ordinal=(TEXT, "which syscall: round.index; or end"),
        first=(TEXT, "what it asked or returned at first, in bounded words"),
        then=(TEXT, "what it did then"),
    ),
    kind(
        "turn.rated",
        "a person said how a turn that has ended went; the newest word counts",
        durable=True,
        turn=TURN,
        thumb=(TEXT, "up or down"),
        why=(TEXT, "what they say of it, empty for nothing"),
        by=(TEXT, "who said it"),
    ),
    kind(
        "turn.decided",
        "a person decided on a turn that had diverged",
        durable=True,
        turn=TURN,
        ordinal=ORDINAL,
        decision=(TEXT, "again, accept (what was recorded from this call on is forgotten) or dead"),
        by=(TEXT, "who decided"),
    ),
    kind(
        "model.asked",
        "a model was asked; only what is new against the request before in the session is held",
        turn=TURN,
        ordinal=ORDINAL,
        call_hash=(DIGEST, "SHA-256 of the canonical call, as the process made it"),
        provider=(TEXT, "provider that is asked"),
        model=(TEXT, "model that is asked"),
        tools=(TEXTS, "names of the tools that are offered"),
        asked=(
            TEXT,
            "JSON of what the process asked for, bounded: provider, model, tools, options other than the usual ones, "
            "number of messages, first and last where they are new",
        ),
        request_hash=(
            DIGEST,
            "SHA-256 of the canonical request, in which messages_hash stands for the messages (without messages_hash, "
            "in entries of older builds: of the whole canonical request)",
        ),
        messages_hash=(
            DIGEST,
            "SHA-256 of the SHA-256 of each message's canonical JSON, one after the other",
        ),
        prefix_of=(WHOLE, "seq of the model.asked in terms of whose messages this one is told, -1 for none"),
        prefix_count=(WHOLE, "how many of its messages are taken over"),
        pieces=(
            JSON,
            "JSON of how the messages are put together: [first, behind] are those of prefix_of, a number that many of "
            "new (in entries of older builds absent: the first prefix_count, then all of new)",
        ),
        new=(TEXT, "JSON of the messages that are new"),
        results=(
            JSON,
            "JSON of what tools gave, which new lacks: [which of new, seq of the tool.outcome, how many characters of "
            "its result are the content] (in entries of older builds absent: none)",
        ),
        truncated=(BOOL, "whether new was cut at the limit"),
        sections=(
            JSON,
            "JSON of what the process says that they are made of: [name, source, tokens, first message, how many "
            "messages, and of one alone from which to which character, 0 for all]; not in older entries",
        ),
    ),
    kind(
        "model.answered",
        "a model answered, or failed",
        turn=TURN,
        ordinal=ORDINAL,
        status=(TEXT, "ok or error"),
        answer=(JSON, "JSON"),
        input_tokens=(
            WHOLE,
            "tokens read, 0 when unknown; of an error after the answer had begun those of budget.reserved, where there "
            "is one",
        ),
        output_tokens=(WHOLE, "tokens written, 0 when unknown; of such an error as above"),
        cached_tokens=(
            WHOLE,
            "how many of the tokens read the provider had kept from before, 0 when unknown (in entries of older builds "
            "absent)",
        ),
        error_kind=(
            TEXT,
            "of an error rate_limited, timeout, auth, context_overflow, content_refused, server, transport, invalid, "
            "budget, refused or cancelled, else empty (in entries of older builds absent, with all that follows)",
        ),
        retry_after_ms=(WHOLE, "milliseconds that the provider wants to be left alone, 0: it has not said"),
        stop_reason=(TEXT, "stop, tool_calls, length or content_filter, empty where nobody says"),
        provider=(TEXT, "provider that was asked"),
        model=(TEXT, "model that was asked"),
        cost_millionths=(
            WHOLE,
            "what the answer cost, in millionths of the unit of money, -1 where no price is declared or nobody counted",
        ),
    ),
    kind(
        "model.quoted",
        "a process was told of models whether caps of cost leave room for a question",
        turn=TURN,
        ordinal=ORDINAL,
        call_hash=CALL_HASH,
        models=(TEXTS, "models, as provider/model"),
        tokens=(WHOLE, "about how many tokens they would read"),
        answer=(WHOLE, "how many the answer may have"),
        against=(TEXTS, "of each model why not, empty where there is room"),
        number=(WHOLE, "how often this node was asked of just these models before"),
    ),
)
