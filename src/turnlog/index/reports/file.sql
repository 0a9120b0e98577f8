-- The files that were changed and read most often. Failed calls are excluded.
SELECT
    c.path AS path,
    count(DISTINCT coalesce(f.session, f.path)) AS sessions,
    sum(c.tool IN ('Edit', 'MultiEdit', 'NotebookEdit', 'Write')) AS changes,
    sum(c.tool NOT IN ('Edit', 'MultiEdit', 'NotebookEdit', 'Write')) AS reads,
    sum(c.added) AS added,
    sum(c.removed) AS removed,
    strftime('%Y-%m-%dT%H:%M:%SZ', max(c.at), 'unixepoch') AS last
FROM calls c JOIN files f ON f.id = c.file
WHERE c.counts = 1
    AND (:since IS NULL OR c.at >= :since)
    AND (:until IS NULL OR c.at < :until)
    AND (:project IS NULL OR instr(lower(f.project), lower(:project)))
    AND (:model IS NULL OR instr(lower(c.model), lower(:model)))
    AND c.path IS NOT NULL AND c.is_error IS NOT 1
GROUP BY c.path ORDER BY changes DESC, reads DESC, path;
