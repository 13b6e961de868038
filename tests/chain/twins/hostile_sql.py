"""Statements that an archive must survive: each with words of the answer, or with None where an answer is harmless.

``{secret}`` is a file of the test, ``{out}`` a place where nothing may be written.
"""

from __future__ import annotations

NOT_ALLOWED = "is not allowed here"
NO_FILES = "file system operations are disabled|external access|disabled by configuration"
MEMORY = "Memory|memory|alloc"
SLOW = "took longer than"

FILES = [
    ("SELECT * FROM read_csv('{secret}')", NO_FILES),
    ("SELECT * FROM read_text('/etc/passwd')", NO_FILES),
    ("SELECT * FROM read_blob('{secret}')", NO_FILES),
    ("SELECT * FROM read_json('{secret}')", NO_FILES),
    ("SELECT * FROM read_parquet('{secret}')", NO_FILES),
    ("SELECT * FROM parquet_metadata('{secret}')", NO_FILES),
    ("SELECT * FROM sniff_csv('{secret}')", NO_FILES),
    ("SELECT * FROM read_duckdb('{secret}')", NO_FILES),
    ("SELECT * FROM glob('/etc/*')", NO_FILES),
    ("SELECT * FROM '{secret}'", NO_FILES),
    ("SELECT * FROM duckdb_secrets()", NO_FILES),
    ("SELECT * FROM query('SELECT * FROM read_csv(''{secret}'')')", NO_FILES),
    ("SELECT getenv('HOME')", "does not exist"),
    ("SELECT * FROM python_list", "does not exist"),
    ("SELECT * FROM arrow_scan(1, 2, 3)", "No function matches"),
    ("SELECT * FROM pandas_scan(1)", "No function matches"),
    ("SELECT * FROM query('SELECT 1; DROP TABLE entries')", "Parser Error|SELECT|statement"),
    ("SELECT * FROM checkpoint()", None),
]

WRITES = [
    ("COPY entries TO '{out}'", NOT_ALLOWED),
    ("COPY (SELECT 1) TO '{out}' (FORMAT parquet)", NOT_ALLOWED),
    ("COPY entries FROM '{secret}'", NOT_ALLOWED),
    ("ATTACH '{out}'", NOT_ALLOWED),
    ("DETACH audit", NOT_ALLOWED),
    ("EXPORT DATABASE '{out}'", NOT_ALLOWED),
    ("IMPORT DATABASE '{out}'", NOT_ALLOWED),
    ("INSTALL httpfs", NOT_ALLOWED),
    ("LOAD httpfs", NOT_ALLOWED),
    ("PRAGMA database_list", NOT_ALLOWED),
    ("CALL pragma_version()", NOT_ALLOWED),
    ("SET memory_limit = '64GB'", NOT_ALLOWED),
    ("RESET memory_limit", NOT_ALLOWED),
    ("USE memory", NOT_ALLOWED),
    ("CHECKPOINT", NOT_ALLOWED),
    ("VACUUM", NOT_ALLOWED),
    ("BEGIN", NOT_ALLOWED),
    ("COMMIT", NOT_ALLOWED),
    ("ROLLBACK", NOT_ALLOWED),
    ("PREPARE x AS SELECT 1", NOT_ALLOWED),
    ("EXPLAIN ANALYZE DELETE FROM entries", NOT_ALLOWED),
    ("DELETE FROM entries", NOT_ALLOWED),
    ("UPDATE entries SET kind = ''", NOT_ALLOWED),
    ("INSERT INTO entries (seq) VALUES (1)", NOT_ALLOWED),
    ("DROP TABLE entries", NOT_ALLOWED),
    ("CREATE TABLE t AS SELECT 1", NOT_ALLOWED),
    ("CREATE OR REPLACE VIEW tool_calls AS SELECT 1", NOT_ALLOWED),
    ("CREATE TEMP MACRO count(x) AS 0", NOT_ALLOWED),
    ("CREATE SECRET (TYPE s3)", NOT_ALLOWED),
    ("COMMENT ON TABLE entries IS 'x'", NOT_ALLOWED),
    ("WITH gone AS (DELETE FROM entries RETURNING *) SELECT * FROM gone", "read-only"),
    ("WITH new AS (INSERT INTO position (format) VALUES ('x') RETURNING *) SELECT * FROM new", "read-only"),
    ("SELECT * FROM enable_logging()", "locked"),
    ("SELECT * FROM enable_profiling()", "locked"),
    ("SELECT * FROM force_checkpoint()", "CHECKPOINT"),
    ("SELECT 1; SELECT 2", "2 statements: give exactly one"),
    ("SELECT 1; DROP TABLE entries", "2 statements"),
    ("SELECT 1 \0; DROP TABLE entries", "2 statements"),
    ("", "0 statements"),
    ("-- nothing", "0 statements"),
    ("SELECT $1", "has parameters"),
    ("SELECT ?", "has parameters"),
    ("SELEC 1", "Parser Error"),
    ("SELECT nothing FROM entries", "Binder Error"),
    ("SELECT error('boom')", "boom"),
    ("SELECT '\ud800'", "surrogates"),
]

GREEDY = [
    ("SELECT repeat('x', 4000000000)", MEMORY),
    ("SELECT len(repeat('x', 1000000000))", MEMORY),
    ("SELECT repeat('x', 1000000) FROM range(100000)", MEMORY),
    ("SELECT string_agg(repeat('x', 100000)) FROM range(100000)", MEMORY),
    ("SELECT list(i) FROM range(1000000000) t(i)", MEMORY),
    ("SELECT range(1000000000)", MEMORY),
    ("SELECT list_sort(range(100000000))", MEMORY),
    ("SELECT printf('%1000000000d', 1)", MEMORY),
    ("SELECT json(repeat('[', 10000000))", MEMORY),
    ("SELECT json_extract(repeat('[', 1000000), '$')", "Malformed JSON"),
    ("SELECT count(DISTINCT i) FROM range(1000000000) t(i)", MEMORY),
    ("SELECT * FROM range(100000000) t(i) ORDER BY hash(i)", MEMORY),
    ("SELECT damerau_levenshtein(repeat('a', 100000), repeat('b', 100000))", MEMORY),
]

ENDLESS = [
    ("WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t", SLOW),
    ("SELECT count(*) FROM range(100000) a, range(100000) b, range(100000) c", SLOW),
    ("SELECT sum(i) FROM range(100000000000) t(i)", SLOW),
    ("SELECT sleep_ms(100000)", SLOW),
]

UNSTOPPABLE = "SELECT levenshtein(repeat('a', 1000000), repeat('b', 1000000))"
