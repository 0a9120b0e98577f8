-- The number of sessions in which a model answered.
SELECT count(DISTINCT coalesce(f.session, f.path)) AS sessions
FROM files f
WHERE (:project IS NULL OR {{contains(f.project, :project)}})
    AND EXISTS (
        SELECT 1 FROM messages m
        WHERE m.counts = 1 AND m.file = f.id
            AND (:since IS NULL OR m.quarter * 900 > :since - 900)
            AND (:until IS NULL OR m.quarter * 900 < :until)
            AND (:model IS NULL OR {{contains(m.model, :model)}})
    );
