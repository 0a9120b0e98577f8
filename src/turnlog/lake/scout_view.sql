-- Session files as transcripts of inspect_scout (0.6): one row each, with its messages as JSON.
-- Needs the tables lake_units, lake_sessions, lake_messages and lake_texts. A lake without texts has
-- transcripts without messages. Columns that inspect_scout does not know are metadata to it.

CREATE VIEW scout_winners AS
SELECT machine, table_name, file, day, write_id
FROM (
    SELECT *, row_number() OVER (
        PARTITION BY machine, table_name, file, day
        ORDER BY version DESC, level DESC, write_id DESC
    ) AS nth
    FROM lake_units
)
WHERE nth = 1 AND NOT is_retracted;

CREATE VIEW scout_sessions AS
SELECT s.* FROM lake_sessions s
JOIN scout_winners w USING (machine, file, day, write_id) WHERE w.table_name = 'sessions';

CREATE VIEW scout_figures AS
SELECT
    machine, file,
    count(*) AS message_count,
    sum(input + output + cache_write_5m + cache_write_1h + cache_read) AS total_tokens,
    sum(cost) / 1e6 AS cost_usd,
    mode(model) AS model,
    max(version) AS client_version
FROM lake_messages m
JOIN scout_winners w USING (machine, file, day, write_id) WHERE w.table_name = 'messages'
GROUP BY machine, file;

-- Titles and notes are not part of the conversation.
CREATE VIEW scout_texts AS
SELECT
    machine, file, line, key, tool, kind, text,
    CASE
        WHEN kind = 'result' THEN 'tool'
        WHEN role = 'assistant' THEN 'assistant'
        ELSE 'user'
    END AS speaker,
    row_number() OVER (PARTITION BY machine, file ORDER BY line, kind = 'input', key) AS place
FROM lake_texts t
JOIN scout_winners w USING (machine, file, day, write_id)
WHERE w.table_name = 'texts' AND kind IN ('prompt', 'summary', 'answer', 'thinking', 'input', 'result');

-- Each block of an answer is on a line of its own: those in a row are one message.
CREATE VIEW scout_blocks AS
SELECT
    *,
    sum(CASE WHEN speaker = 'assistant' AND before = 'assistant' THEN 0 ELSE 1 END)
        OVER (PARTITION BY machine, file ORDER BY place) AS nth
FROM (
    SELECT *, lag(speaker) OVER (PARTITION BY machine, file ORDER BY place) AS before
    FROM scout_texts
);

CREATE VIEW scout_messages AS
SELECT
    machine, file, nth,
    CASE any_value(speaker)
        WHEN 'user' THEN json_object('role', 'user', 'content', any_value(text))
        WHEN 'tool' THEN json_object(
            'role', 'tool', 'content', any_value(text), 'tool_call_id', any_value(key),
            'function', any_value(tool)
        )
        ELSE json_object(
            'role', 'assistant',
            'content', coalesce(
                to_json(list(
                    CASE kind
                        WHEN 'thinking' THEN json_object('type', 'reasoning', 'reasoning', text)
                        ELSE json_object('type', 'text', 'text', text)
                    END ORDER BY place
                ) FILTER (kind <> 'input')),
                '[]'
            ),
            'tool_calls', coalesce(
                to_json(list(
                    json_object(
                        'id', key, 'function', tool, 'type', 'function',
                        'arguments',
                        CASE WHEN json_valid(text) AND json_type(text) = 'OBJECT' THEN text::JSON
                        ELSE json_object('input', text) END
                    ) ORDER BY place
                ) FILTER (kind = 'input')),
                '[]'
            )
        )
    END AS message
FROM scout_blocks
GROUP BY machine, file, nth;

CREATE VIEW scout_transcripts AS
SELECT
    concat(s.machine, '-', s.file) AS transcript_id,
    'turnlog' AS source_type,
    s.session AS source_id,
    s.path AS source_uri,
    strftime(make_timestamp(CAST(s.started * 1000000 AS BIGINT)), '%Y-%m-%dT%H:%M:%S.%fZ') AS date,
    s.project AS task_set,
    s.opened_by AS task_id,
    CASE WHEN s.is_subagent THEN 'claude-code sub-agent' ELSE 'claude-code' END AS agent,
    f.model,
    coalesce(f.message_count, 0) AS message_count,
    s.ended - s.started AS total_time,
    CAST(coalesce(f.total_tokens, 0) AS BIGINT) AS total_tokens,
    coalesce(m.messages, '[]') AS messages,
    '[]' AS events,
    s.user AS user_name,
    s.host,
    s.title,
    f.cost_usd,
    f.client_version
FROM scout_sessions s
LEFT JOIN scout_figures f USING (machine, file)
LEFT JOIN (
    SELECT machine, file, CAST(to_json(list(message ORDER BY nth)) AS VARCHAR) AS messages
    FROM scout_messages GROUP BY machine, file
) m USING (machine, file);
