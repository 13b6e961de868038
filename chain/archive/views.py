"""The archive's views: what auditors ask for most, over the table of entries. ``docs/audit-sql.md`` explains them.

Every view reads ``entries`` alone, so whatever it says can be followed to entries by their ``seq``. What was erased is
not there: a row may lack columns, or be missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_TOOL_CALLS = """
CREATE VIEW tool_calls AS
WITH said AS (
    SELECT seq, time_us, pid, kind, body, body->>'turn' AS turn, body->>'ordinal' AS ordinal,
        max(seq) FILTER (kind = 'tool.proposed') OVER (PARTITION BY turn, ordinal ORDER BY seq) AS call
    FROM entries WHERE kind IN ('tool.proposed', 'tool.verdict', 'tool.intent', 'tool.outcome', 'tool.resolved')),
verdicts AS (
    SELECT call, arg_max(body->>'decision', seq) AS decision, arg_max(body->'reasons', seq) AS reasons
    FROM said WHERE kind = 'tool.verdict' AND turn IS NOT NULL GROUP BY call),
intents AS (
    SELECT call, count(*) AS attempts, arg_max(body->>'effects', seq) AS effects, max(seq) AS intent_seq
    FROM said WHERE kind = 'tool.intent' AND turn IS NOT NULL GROUP BY call),
outcomes AS (
    SELECT call, arg_max(body->>'status', seq) AS status, arg_max(body->>'result', seq) AS result,
        max(seq) AS outcome_seq, max(time_us) AS ended_us
    FROM said WHERE kind = 'tool.outcome' AND turn IS NOT NULL GROUP BY call),
resolutions AS (
    SELECT call, arg_max(body->>'resolution', seq) AS resolution
    FROM said WHERE kind = 'tool.resolved' AND turn IS NOT NULL GROUP BY call)
SELECT p.seq, make_timestamp(p.time_us) AS time, p.pid, p.turn, p.ordinal, p.body->>'tool' AS tool,
    p.body->>'arguments' AS arguments, decision, reasons, effects, coalesce(attempts, 0) AS attempts, intent_seq,
    status, result, outcome_seq, (ended_us - p.time_us) / 1000 AS took_ms, resolution
FROM said p
LEFT JOIN verdicts v ON v.call = p.seq
LEFT JOIN intents i ON i.call = p.seq
LEFT JOIN outcomes o ON o.call = p.seq
LEFT JOIN resolutions r ON r.call = p.seq
WHERE p.kind = 'tool.proposed';
"""

_PROCESSES = """
CREATE VIEW processes AS
WITH started AS (
    SELECT seq, time_us, (body->>'pid')::BIGINT AS pid, body->>'address' AS address, body->>'cell' AS cell
    FROM entries WHERE kind = 'process.started' AND body IS NOT NULL),
exited AS (
    SELECT (body->>'pid')::BIGINT AS pid, max(seq) AS exit_seq, max(time_us) AS exit_us,
        arg_max(body->>'reason', seq) AS reason, arg_max(body->>'detail', seq) AS detail
    FROM entries WHERE kind = 'process.exited' AND body IS NOT NULL GROUP BY 1),
spawned AS (
    SELECT seq, body->>'address' AS address, body->>'parent' AS parent,
        json_extract_string(body->>'spec', '$.behaviour') AS behaviour
    FROM entries WHERE kind = 'process.spawned' AND body IS NOT NULL)
SELECT s.pid, s.address, w.parent, w.behaviour, s.cell, s.seq, make_timestamp(s.time_us) AS started,
    make_timestamp(exit_us) AS ended, (exit_us - s.time_us) / 1e6 AS ran_s, reason, detail, exit_seq,
    w.seq AS spawned_seq
FROM started s
ASOF LEFT JOIN spawned w ON w.address = s.address AND s.seq >= w.seq
LEFT JOIN exited x ON x.pid = s.pid;
"""

_DENIALS = """
CREATE VIEW denials AS
SELECT seq, make_timestamp(time_us) AS time, pid, 'tool call' AS what, body->>'tool' AS subject,
    body->>'decision' AS decision, array_to_string((body->'reasons')::VARCHAR[], '; ') AS why
FROM entries WHERE kind = 'tool.verdict' AND (body->>'decision') <> 'allow'
UNION ALL
SELECT seq, make_timestamp(time_us), pid, 'message', concat(body->>'sender', ' to ', body->>'to'), 'refused',
    body->>'why'
FROM entries WHERE kind = 'message.refused' AND body IS NOT NULL
UNION ALL
SELECT seq, make_timestamp(time_us), pid, 'peer', body->>'who', 'refused', body->>'why'
FROM entries WHERE kind = 'peer.refused' AND body IS NOT NULL;
"""

_DOUBTS = """
CREATE VIEW doubts AS
WITH resolved AS (
    SELECT seq, time_us, body->>'turn' AS turn, body->>'ordinal' AS ordinal, body->>'resolution' AS resolution,
        body->>'by' AS decided_by
    FROM entries WHERE kind = 'tool.resolved' AND body IS NOT NULL),
doubted AS (
    SELECT seq, time_us, pid, cause, body->>'turn' AS turn, body->>'ordinal' AS ordinal, body->>'tool' AS tool,
        (body->>'attempt')::BIGINT AS attempt
    FROM entries WHERE kind = 'tool.outcome' AND (body->>'status') = 'in_doubt')
SELECT d.seq, make_timestamp(d.time_us) AS time, d.pid, d.turn, d.ordinal, d.tool, d.attempt, d.cause AS intent_seq,
    r.seq IS NULL AS open, r.resolution, r.decided_by, r.seq AS resolved_seq, make_timestamp(r.time_us) AS resolved
FROM doubted d
ASOF LEFT JOIN resolved r ON r.turn = d.turn AND r.ordinal = d.ordinal AND d.seq < r.seq;
"""

_MODEL_CALLS = """
CREATE VIEW model_calls AS
WITH asked AS (
    SELECT seq, time_us, pid, body->>'turn' AS turn, body->>'ordinal' AS ordinal, body->>'provider' AS provider,
        body->>'model' AS model
    FROM entries WHERE kind = 'model.asked'),
answered AS (
    SELECT seq, time_us, cause, body->>'status' AS status, (body->>'input_tokens')::BIGINT AS input_tokens,
        (body->>'output_tokens')::BIGINT AS output_tokens
    FROM entries WHERE kind = 'model.answered')
SELECT q.seq, make_timestamp(q.time_us) AS time, q.pid, q.turn, q.ordinal, q.provider, q.model, a.status,
    a.input_tokens, a.output_tokens, (a.time_us - q.time_us) / 1000 AS took_ms, a.seq AS answered_seq
FROM asked q LEFT JOIN answered a ON a.cause = q.seq;
"""

_COSTS = """
CREATE VIEW costs AS
SELECT c.provider, c.model, c.pid, p.address, count(*) AS calls, count(*) FILTER (c.status = 'error') AS errors,
    coalesce(sum(c.input_tokens), 0)::BIGINT AS input_tokens,
    coalesce(sum(c.output_tokens), 0)::BIGINT AS output_tokens,
    min(c.time) AS first, max(c.time) AS last
FROM model_calls c LEFT JOIN processes p ON p.pid = c.pid
GROUP BY c.provider, c.model, c.pid, p.address;
"""

VIEWS: Mapping[str, str] = MappingProxyType(
    {
        "tool_calls": _TOOL_CALLS,
        "processes": _PROCESSES,
        "denials": _DENIALS,
        "doubts": _DOUBTS,
        "model_calls": _MODEL_CALLS,
        "costs": _COSTS,
    }
)
