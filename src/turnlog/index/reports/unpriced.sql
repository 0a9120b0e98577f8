-- The models without a price, or with advisors without one: no cost includes their messages.
SELECT DISTINCT w.model AS model
FROM work w JOIN files f ON f.id = w.file
WHERE {{quarter_filters(w)}}
    AND w.unpriced > 0
ORDER BY model;
