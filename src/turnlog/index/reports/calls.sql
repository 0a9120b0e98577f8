-- Every tool call, each once, the oldest first.
SELECT
    c.key AS id,
    {{iso_milliseconds(c.at)}} AS time,
    coalesce(f.session, f.opened_by) AS session,
    f.project AS project,
    c.branch AS branch,
    c.model AS model,
    c.tool AS name,
    1 - c.is_error AS ok, -- null while there is no result
    c.error AS error,
    c.path AS path,
    c.command AS command,
    c.ended - c.at AS seconds,
    c.added AS added,
    c.removed AS removed,
    c.is_subagent AS is_subagent,
    c.line AS line,
    f.store AS store,
    c.is_rejected AS rejected
FROM calls c JOIN files f ON f.id = c.file
WHERE c.counts = 1 AND {{filters(c)}}
ORDER BY c.at, f.opened_by, c.line, c.key;
