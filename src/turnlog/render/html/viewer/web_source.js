// A source that asks the web app. `base` is the address of one session: `/api/sessions/{key}`.

/** Return the source of a session's viewer. */
export function webSource(base, { hasEvents = false } = {}) {
  const get = async (path, query = {}) => {
    const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
    const search = new URLSearchParams(given).toString();
    const answer = await fetch(`${base}/${path}${search ? `?${search}` : ""}`, { credentials: "same-origin" });
    if (!answer.ok) throw new Error((await message(answer)) ?? `${answer.status} ${answer.statusText}`);
    return answer.json();
  };
  const source = {
    head: (leaf, since) => get("head", { leaf, since }),
    turns: (first, last, leaf) => get("turns", { first, last, leaf }),
    rows: (n, first, last, leaf, isWhole) => get("rows", { n, first, last, leaf, whole: isWhole ? 1 : null }),
    labels: (first, last, leaf) => get("labels", { first, last, leaf }),
    raw: (line) => get(`raw/${line}`),
    context: (line) => get(`context/${line}`),
    lost: (line) => get(`lost/${line}`),
    find: (text, leaf) => get("find", { q: text, leaf }),
    agent: (id, first, last) => get(`agents/${encodeURIComponent(id)}`, { first, last }),
    lanes: (leaf) => get("lanes", { leaf }),
    findings: () => get("findings"),
    files: (line) => get("files", { line }),
    file: (file, line, version) => get("file", { file, line, version }),
    fileByPath: (path, line) => get("file", { path, line }),
  };
  if (hasEvents) source.onGrow = (callback) => follow(`${base}/events`, callback);
  return source;
}

async function message(answer) {
  try {
    return (await answer.json()).error;
  } catch {
    return null;
  }
}

/** Call back when the session grows; no connection is held while the page is hidden. */
function follow(address, callback) {
  let events = null;
  const connect = () => {
    if (document.hidden || events) return;
    events = new EventSource(address);
    events.addEventListener("message", (event) => callback(event.data));
  };
  const disconnect = () => {
    events?.close();
    events = null;
  };
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return disconnect();
    connect();
    callback(null);
  });
  connect();
  return disconnect;
}
