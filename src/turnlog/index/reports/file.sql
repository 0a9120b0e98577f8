-- The files that were changed and read most often. Failed calls are excluded.
SELECT
    c.path AS path,
    count(DISTINCT coalesce(f.session, f.path)) AS sessions,
    count(CASE WHEN c.tool IN ('Edit', 'MultiEdit', 'NotebookEdit', 'Write') THEN 1 END) AS changes,
    count(CASE WHEN c.tool NOT IN ('Edit', 'MultiEdit', 'NotebookEdit', 'Write') THEN 1 END) AS reads,
    sum(c.added) AS added,
    sum(c.removed) AS removed,
    {{iso_time(max(c.at))}} AS last
FROM calls c JOIN files f ON f.id = c.file
WHERE c.counts = 1 AND {{filters(c)}}
    AND c.path IS NOT NULL AND coalesce(c.is_error, 0) = 0
GROUP BY c.path ORDER BY changes DESC, reads DESC, path;
