-- The tables of an index as views of a lake's tables: the statements of all reports run on either.
-- A file's id consists of its machine's and its own. Flags are numbers, costs are dollars.

-- The write that won each table, file and day; the rows of all others are dead.
CREATE {{table}} winners AS
SELECT table_name, machine, file, day, write_id, part, unit_rows
FROM (
    SELECT
        table_name, machine, file, day, write_id, part, is_retracted,
        u.rows AS unit_rows,
        row_number() OVER (
            PARTITION BY table_name, machine, file, day
            ORDER BY version DESC, level DESC, write_id DESC
        ) AS nth
    FROM lake_units u
) writes
WHERE nth = 1 AND NOT is_retracted;

CREATE {{view}} files AS
SELECT
    concat(t.machine, '/', t.file) AS id,
    t.machine,
    t.host,
    t.user AS user_name,
    coalesce(t.path, t.path_key) AS path,
    coalesce(t.store, t.store_key) AS store,
    t.opened_by,
    g.team,
    t.session,
    CAST(t.is_subagent AS INT) AS is_subagent,
    t.project,
    t.title,
    t.started,
    t.ended
FROM lake_sessions t {{live(sessions)}} LEFT JOIN lake_teams g ON g.user_name = t.user;

-- A prompt, message or call may be in several files, but counts once: in the first of them in the
-- order that the index has, too. Most are in one only, and need no sorting. Those are found with a
-- join, because DuckDB would keep all rows in memory for NOT EXISTS.
CREATE {{view}} live_turns AS
SELECT concat(t.machine, '/', t.file) AS file_id, t.*
FROM lake_turns t {{live(turns)}};

CREATE {{table}} copied_turns AS
{{repeated(live_turns)}};

CREATE {{view}} prompts AS
SELECT
    file_id AS file, line, key, kind, t.at, ended, branch, model, working, quarter, 1 AS counts
FROM live_turns t LEFT JOIN copied_turns c ON c.copied_key = t.key WHERE c.copied_key IS NULL
UNION ALL
SELECT
    file_id, line, key, kind, t.at, ended, branch, model, working, quarter,
    CASE WHEN nth = 1 THEN 1 ELSE 0 END
FROM ({{ranked_copies(turns)}}) t;

CREATE {{view}} live_calls AS
SELECT concat(t.machine, '/', t.file) AS file_id, t.*
FROM lake_calls t {{live(calls)}};

CREATE {{table}} copied_calls AS
{{repeated(live_calls)}};

CREATE {{view}} calls AS
SELECT
    file_id AS file, line, key, tool, t.at, branch, coalesce(path, path_key) AS path, command,
    coalesce(program, program_key) AS program, result_line, ended,
    CAST(is_error AS INT) AS is_error, error, CAST(is_rejected AS INT) AS is_rejected,
    added, removed, model, CAST(is_subagent AS INT) AS is_subagent, quarter, 1 AS counts
FROM live_calls t LEFT JOIN copied_calls c ON c.copied_key = t.key WHERE c.copied_key IS NULL
UNION ALL
SELECT
    file_id, line, key, tool, t.at, branch, coalesce(path, path_key), command,
    coalesce(program, program_key), result_line, ended,
    CAST(is_error AS INT), error, CAST(is_rejected AS INT),
    added, removed, model, CAST(is_subagent AS INT), quarter,
    CASE WHEN nth = 1 THEN 1 ELSE 0 END
FROM ({{ranked_copies(calls)}}) t;

CREATE {{view}} live_messages AS
SELECT concat(t.machine, '/', t.file) AS file_id, t.*
FROM lake_messages t {{live(messages)}};

CREATE {{table}} copied_messages AS
{{repeated(live_messages)}};

-- Another request is another message; a copy that names none is of the first request.
CREATE {{view}} asked_messages AS
SELECT
    t.*,
    f.opened_by,
    f.path AS place,
    coalesce(
        nullif(t.request, ''),
        {{first_known(nullif(t.request, ''))}} OVER (
            PARTITION BY t.key ORDER BY t.is_copy, f.opened_by, f.path, t.machine, t.line
            ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING
        ),
        ''
    ) AS asked
FROM live_messages t JOIN copied_messages c ON c.copied_key = t.key JOIN files f ON f.id = t.file_id;

-- Of each count, the copy that counts has the largest of all copies; the others keep their own.
CREATE {{view}} merged_messages AS
SELECT
    t.*,
    row_number() OVER (
        PARTITION BY key, asked ORDER BY is_copy, opened_by, place, machine, line
    ) AS nth,
    max(input) OVER same AS most_input,
    max(output) OVER same AS most_output,
    max(cache_read) OVER same AS most_read,
    max(searches) OVER same AS most_searches,
    max(cache_created) OVER same AS most_created,
    max(created_5m) OVER same AS most_5m,
    coalesce(max(created_1h) OVER same, 0) AS most_1h
FROM asked_messages t
WINDOW same AS (PARTITION BY key, asked);

CREATE {{view}} split_messages AS
SELECT
    t.*,
    CASE
        WHEN most_5m > most_created - most_1h THEN most_5m ELSE most_created - most_1h
    END AS most_short
FROM merged_messages t;

CREATE {{view}} messages AS
SELECT
    file_id AS file, line, key, model, t.at, branch, version, stop_reason,
    CAST(is_subagent AS INT) AS is_subagent,
    input, output, cache_write_5m, cache_write_1h, cache_read, searches,
    {{dollars(cost)}} AS cost,
    CAST(is_understated AS INT) AS is_understated, quarter, 1 AS counts
FROM live_messages t LEFT JOIN copied_messages c ON c.copied_key = t.key WHERE c.copied_key IS NULL
UNION ALL
SELECT
    file_id, line, key, model, t.at, branch, version, stop_reason, CAST(is_subagent AS INT),
    most_input, most_output, most_short, most_1h, most_read, most_searches,
    {{dollars(
        cost + {{price(most_input - input, rate_input)}} + {{price(most_output - output, rate_output)}}
        + {{price(most_short - cache_write_5m, rate_cache_write_5m)}}
        + {{price(most_1h - cache_write_1h, rate_cache_write_1h)}}
        + {{price(most_read - cache_read, rate_cache_read)}}
        + {{price(most_searches - searches, rate_search)}}
    )}},
    CAST(is_understated AS INT), quarter, 1
FROM split_messages t WHERE nth = 1
UNION ALL
SELECT
    file_id, line, key, model, t.at, branch, version, stop_reason, CAST(is_subagent AS INT),
    input, output, cache_write_5m, cache_write_1h, cache_read, searches, {{dollars(cost)}},
    CAST(is_understated AS INT), quarter, 0
FROM split_messages t WHERE nth > 1;

CREATE {{view}} pulls AS
SELECT
    concat(t.machine, '/', t.file) AS file, t.line, t.number, coalesce(t.url, t.url_key) AS url
FROM lake_pulls t {{live(pulls)}};

CREATE {{view}} commits AS
SELECT concat(t.machine, '/', t.file) AS file, t.line, t.at, t.branch, t.hash
FROM lake_commits t {{live(commits)}};

CREATE {{view}} compactions AS
SELECT concat(t.machine, '/', t.file) AS file, t.line, t.at, t.trigger, t.pre_tokens
FROM lake_compactions t {{live(compactions)}};
