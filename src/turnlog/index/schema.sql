-- All of this is derived from the session files: the index can be deleted, and is rebuilt.
-- Times are seconds since 1970 in UTC; lines count from 1; offsets are bytes.
-- A quarter is a quarter of an hour, counted since 1970: days of all time zones are made of them.

CREATE TABLE about (name TEXT PRIMARY KEY, value) WITHOUT ROWID;

-- A session's file, or that of a sub-agent.
CREATE TABLE files (
    id INTEGER PRIMARY KEY,
    path TEXT NOT NULL UNIQUE,
    store TEXT NOT NULL,       -- the directory of the store that it is in
    opened_by TEXT NOT NULL,   -- the id that opens it
    session TEXT,              -- the session it belongs to
    is_subagent INTEGER NOT NULL,
    project TEXT,              -- the working directory
    title TEXT,
    tag TEXT,                  -- the label that `turnlog tag` or the Agent SDK gave it
    slug TEXT,                 -- the client's nickname for the session, the last one
    started REAL,
    ended REAL,
    is_gone INTEGER NOT NULL DEFAULT 0, -- deleted, but in the archive
    -- what was read, and how far
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    inode INTEGER NOT NULL,
    reached INTEGER NOT NULL,  -- bytes
    carry TEXT NOT NULL,       -- state to continue reading from when the file has grown
    prompt INTEGER,            -- the prompt that the last line belongs to
    -- the same for words, which are read after the figures and never further
    words_reached INTEGER NOT NULL DEFAULT 0,
    words_carry TEXT NOT NULL DEFAULT '{}',
    last_doc INTEGER NOT NULL DEFAULT 0, -- the last text that was indexed
    vectors_doc INTEGER NOT NULL DEFAULT 0 -- the last text that has a vector or was skipped
);
CREATE INDEX files_by_session ON files (session);
CREATE INDEX files_by_opener ON files (opened_by);
CREATE INDEX sessions_by_end ON files (coalesce(ended, mtime_ns / 1e9))
    WHERE NOT is_subagent AND NOT is_gone;
CREATE INDEX files_read_whole ON files (path, inode, size, mtime_ns) WHERE reached >= size;
CREATE INDEX files_without_words ON files (path) WHERE words_reached < reached;
CREATE INDEX files_without_vectors ON files (path) WHERE vectors_doc < last_doc;

-- Prompts in the order of the file; each begins a turn.
CREATE TABLE prompts (
    id INTEGER PRIMARY KEY,
    file INTEGER NOT NULL,
    line INTEGER NOT NULL,
    key TEXT NOT NULL,         -- from its time, directory and text: the same in all copies
    kind TEXT NOT NULL,
    at REAL,
    ended REAL,                -- the last time of an answer or a result in the turn
    branch TEXT,
    text TEXT,                 -- its start
    model TEXT,                -- the one that answered first
    working REAL,              -- seconds that the client measured; null where it did not
    permission_mode TEXT,
    is_copy INTEGER NOT NULL,
    counts INTEGER NOT NULL DEFAULT 1, -- 0 if another file has a copy that counts instead
    quarter INTEGER AS (CAST(at / 900 AS INTEGER))
);
CREATE INDEX prompts_by_file ON prompts (file);

-- Messages of the model, once for each file that has them.
CREATE TABLE messages (
    id INTEGER PRIMARY KEY,
    file INTEGER NOT NULL,
    line INTEGER NOT NULL,
    prompt INTEGER,
    key TEXT NOT NULL,         -- the API's id of the message
    request TEXT,              -- the API's id of the request; another one is another message
    model TEXT,
    at REAL,
    branch TEXT,
    version TEXT,
    stop_reason TEXT,          -- the last one recorded
    is_copy INTEGER NOT NULL,
    is_subagent INTEGER NOT NULL,
    usage BLOB NOT NULL,       -- as this file records it, in JSON
    -- for each count, the largest that any file records
    input INTEGER NOT NULL,
    output INTEGER NOT NULL,
    cache_write_5m INTEGER NOT NULL,
    cache_write_1h INTEGER NOT NULL,
    cache_read INTEGER NOT NULL,
    searches INTEGER NOT NULL,
    cost REAL,                 -- dollars; null where the model has no price
    is_understated INTEGER NOT NULL, -- the client recorded too few output tokens
    counts INTEGER NOT NULL DEFAULT 1,
    quarter INTEGER AS (CAST(at / 900 AS INTEGER))
);
CREATE UNIQUE INDEX messages_by_file ON messages (file, key);

-- Tool calls and their results.
CREATE TABLE calls (
    id INTEGER PRIMARY KEY,
    file INTEGER NOT NULL,
    line INTEGER NOT NULL,
    prompt INTEGER,
    key TEXT NOT NULL,         -- the id of the tool_use
    tool TEXT NOT NULL,
    at REAL,
    branch TEXT,
    path TEXT,                 -- the file it read or changed
    command TEXT,              -- the start of the command
    result_line INTEGER,
    ended REAL,
    is_error INTEGER,          -- null while there is no result
    error TEXT,                -- the start of the error message
    is_rejected INTEGER NOT NULL DEFAULT 0, -- the user denied it: it never ran, and did not fail
    added INTEGER NOT NULL DEFAULT 0,
    removed INTEGER NOT NULL DEFAULT 0,
    model TEXT,
    is_copy INTEGER NOT NULL,
    is_subagent INTEGER NOT NULL,
    counts INTEGER NOT NULL DEFAULT 1,
    quarter INTEGER AS (CAST(at / 900 AS INTEGER))
);
CREATE UNIQUE INDEX calls_by_file ON calls (file, key);

-- Pull requests that a session created or worked on.
CREATE TABLE pulls (
    file INTEGER NOT NULL,
    line INTEGER NOT NULL,
    number INTEGER,
    url TEXT,
    repository TEXT
);
CREATE INDEX pulls_by_file ON pulls (file);

-- Commits that commands created, if their results name them (2.1.2xx on).
CREATE TABLE commits (
    file INTEGER NOT NULL,
    line INTEGER NOT NULL,
    at REAL,
    branch TEXT,
    hash TEXT NOT NULL         -- its start
);
CREATE INDEX commits_by_file ON commits (file);

-- Where older entries were replaced by a summary.
CREATE TABLE compactions (
    file INTEGER NOT NULL,
    line INTEGER NOT NULL,
    at REAL,
    trigger TEXT,              -- manual or auto
    pre_tokens INTEGER         -- size of the context before
);
CREATE INDEX compactions_by_file ON compactions (file);

-- Cached reports; those of an earlier generation are out of date.
CREATE TABLE answers (
    question TEXT PRIMARY KEY, -- the report, its filters and the time zone
    generation INTEGER NOT NULL,
    answer TEXT NOT NULL       -- in JSON
) WITHOUT ROWID;

-- What would keep a session from being resumed in full, as found by a check.
CREATE TABLE checks (
    path TEXT PRIMARY KEY,
    inode INTEGER NOT NULL,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    message TEXT               -- the worst finding; null if there is none
) WITHOUT ROWID;

-- What the parts of a session cost; computed when a report asks for it.
CREATE TABLE carrying (
    path TEXT PRIMARY KEY,     -- the session's file
    state TEXT NOT NULL,       -- its files, and its messages that count elsewhere
    costs BLOB NOT NULL        -- in JSON
) WITHOUT ROWID;

-- Searchable texts of entries, by kind. The text itself stays in its file.
CREATE TABLE docs (
    id INTEGER PRIMARY KEY,
    file INTEGER NOT NULL,
    line INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    size INTEGER NOT NULL,     -- of the line
    part INTEGER NOT NULL,     -- the number of the text in the line, from 0
    kind TEXT NOT NULL,        -- prompt, answer, thinking, input, result, summary, title, note
    tool TEXT,
    is_error INTEGER NOT NULL,
    at REAL,
    prompt INTEGER
);
CREATE INDEX docs_by_file ON docs (file);
-- A text is in one of the columns, by the weight of a word in it.
CREATE VIRTUAL TABLE words USING fts5 (
    asked, said, done, content = '', tokenize = "unicode61 remove_diacritics 2 categories 'L* N* Co'"
);
-- Vectors for searches by meaning, of several texts of a file each.
CREATE TABLE vectors (
    id INTEGER PRIMARY KEY,
    file INTEGER NOT NULL,
    docs BLOB NOT NULL,        -- the ids of the texts, 8 bytes each
    codes BLOB NOT NULL,       -- the signs of each vector, a bit per dimension
    rows BLOB NOT NULL         -- each vector, a signed byte per dimension
);
CREATE INDEX vectors_by_file ON vectors (file);

-- What users ask for in SQL, by the names of the glossary. Figures count everything once.

CREATE VIEW sessions AS
WITH
    parts AS (
        SELECT id AS file, id AS part FROM files WHERE NOT is_subagent
        UNION ALL
        SELECT f.id, g.id FROM files f JOIN files g ON g.session = f.session AND g.store = f.store
        WHERE g.is_subagent AND NOT f.is_subagent
    ),
    figures AS (
        SELECT
            file, sum(turns) AS turns, sum(seconds) AS seconds, sum(messages) AS messages,
            sum(tokens) AS tokens, sum(cost) AS cost, sum(calls) AS calls, sum(errors) AS errors
        FROM work GROUP BY file
    )
SELECT
    f.opened_by AS id, f.title, f.tag, f.project, f.started, f.ended,
    coalesce(sum(turns), 0) AS turns, coalesce(sum(seconds), 0) AS seconds,
    coalesce(sum(messages), 0) AS messages, coalesce(sum(tokens), 0) AS tokens,
    sum(cost) AS cost, coalesce(sum(calls), 0) AS calls, coalesce(sum(errors), 0) AS errors,
    count(*) - 1 AS subagents, f.path, f.store, f.slug, f.is_gone, f.id AS file
FROM files f JOIN parts ON parts.file = f.id LEFT JOIN figures ON figures.file = parts.part
GROUP BY f.id;

CREATE VIEW subagents AS
SELECT opened_by AS id, session, project, started, ended, path, store, is_gone, id AS file
FROM files WHERE is_subagent;

CREATE VIEW turns AS
SELECT
    p.id, f.opened_by AS session, f.project, p.line, p.at, p.ended, p.text AS prompt, p.kind,
    p.model, p.branch, coalesce(p.working, p.ended - p.at) AS seconds,
    coalesce(m.messages, 0) AS messages, coalesce(m.tokens, 0) AS tokens, m.cost,
    coalesce(c.calls, 0) AS calls, coalesce(c.errors, 0) AS errors, p.file
FROM prompts p JOIN files f ON f.id = p.file
LEFT JOIN (
    SELECT
        prompt, count(*) AS messages, sum(cost) AS cost,
        sum(input + output + cache_write_5m + cache_write_1h + cache_read) AS tokens
    FROM messages WHERE counts = 1 GROUP BY prompt
) m ON m.prompt = p.id
LEFT JOIN (
    SELECT prompt, count(*) AS calls, coalesce(sum(is_error AND NOT is_rejected), 0) AS errors
    FROM calls WHERE counts = 1 GROUP BY prompt
) c ON c.prompt = p.id
WHERE p.counts = 1 AND (p.model IS NOT NULL OR p.kind NOT IN ('command', 'bash_input'));

CREATE VIEW projects AS
SELECT
    project, count(*) AS sessions, min(started) AS started, max(ended) AS ended,
    sum(turns) AS turns, sum(tokens) AS tokens, sum(cost) AS cost, sum(calls) AS calls,
    sum(errors) AS errors
FROM sessions GROUP BY project;
