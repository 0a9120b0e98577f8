-- Calls on one file in all sessions, each once, the newest first.
SELECT
    {{iso_time(c.at)}} AS time,
    coalesce(f.session, f.opened_by) AS session,
    coalesce(
        (SELECT s.title FROM files s WHERE s.session = f.session AND NOT s.is_subagent), f.title
    ) AS title,
    f.project AS project,
    c.branch AS branch,
    c.tool AS name,
    NOT c.is_error AS ok, -- null while there is no result
    c.error AS error,
    c.ended - c.at AS seconds,
    c.added AS added,
    c.removed AS removed,
    c.is_subagent AS is_subagent,
    c.line AS line,
    c.result_line AS result_line
FROM calls c JOIN files f ON f.id = c.file
WHERE c.counts = 1 AND c.path = :path
ORDER BY c.at DESC, c.id DESC LIMIT :limit;
