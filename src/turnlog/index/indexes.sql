-- Indexes that the first build does without: it adds them at its end, when that takes a fraction of
-- the time. Until then no copy of a thing is settled to count (see `database.is_built`).

CREATE INDEX IF NOT EXISTS prompts_by_key ON prompts (key);
CREATE INDEX IF NOT EXISTS messages_by_key ON messages (key);
CREATE INDEX IF NOT EXISTS messages_by_time ON messages (counts, quarter, at, cost);
CREATE INDEX IF NOT EXISTS messages_at_work ON messages (
    counts, file, quarter, model, branch, is_subagent, input, output, cache_write_5m, cache_write_1h,
    cache_read, cost, is_understated
);
CREATE INDEX IF NOT EXISTS calls_by_key ON calls (key);
CREATE INDEX IF NOT EXISTS calls_at_work ON calls (
    counts, file, quarter, model, branch, is_subagent, is_error, added, removed
);
