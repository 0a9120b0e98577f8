-- The models without a price, or with advisors without one: no cost includes their messages.
SELECT DISTINCT w.model AS model
FROM work w JOIN files f ON f.id = w.file
WHERE (:since IS NULL OR w.quarter * 900 > :since - 900)
    AND (:until IS NULL OR w.quarter * 900 < :until)
    AND (:project IS NULL OR {{contains(f.project, :project)}})
    AND (:model IS NULL OR {{contains(w.model, :model)}})
    AND w.unpriced > 0
ORDER BY model;
