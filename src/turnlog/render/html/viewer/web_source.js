// A source that asks the web app. `base` is the address of one session: `/api/sessions/{key}`.

/** Return the source of a session's viewer; `opening` is the address of what is shown first. */
export function webSource(base, { hasEvents = false, opening = null } = {}) {
  const get = (path, query = {}) => {
    const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
    const search = new URLSearchParams(given).toString();
    return read(`${base}/${path}${search ? `?${search}` : ""}`);
  };
  // What the page shows first is requested by the page itself, under exactly this address.
  let preloaded = opening;
  const source = {
    opening: ({ leaf, turn, line }) => {
      const address = preloaded;
      preloaded = null;
      return address ? read(address) : get("opening", { leaf, turn, line });
    },
    head: (leaf, since) => get("head", { leaf, since }),
    turns: (first, last, leaf) => get("turns", { first, last, leaf }),
    rows: (n, first, last, leaf, isWhole) => get("rows", { n, first, last, leaf, whole: isWhole ? 1 : null }),
    outline: (first, last, leaf) => get("outline", { first, last, leaf }),
    labelled: (text, leaf) => get("labelled", { q: text, leaf }),
    raw: (line) => get(`raw/${line}`),
    context: (line) => get(`context/${line}`),
    lost: (line) => get(`lost/${line}`),
    find: (text, leaf) => get("find", { q: text, leaf }),
    agent: (id, first, last) => get(`agents/${encodeURIComponent(id)}`, { first, last }),
    lanes: (leaf) => get("lanes", { leaf }),
    findings: () => get("findings"),
    related: () => get("related"),
    reading: () => get("reading"),
    files: (line) => get("files", { line }),
    file: (file, line, version) => get("file", { file, line, version }),
    fileByPath: (path, line) => get("file", { path, line }),
    commands,
  };
  if (hasEvents) source.onGrow = (callback) => follow(`${base}/events`, callback);
  return source;
}

/** The commands on a session, or on one of its lines, for a shell of whoever runs the web app. */
function commands({ id, resume }, line) {
  const about = line
    ? [`turnlog show ${id} --line ${line}`, `turnlog raw ${id} --line ${line}`]
    : [`turnlog show ${id}`, `turnlog check ${id}`, `turnlog cost ${id} --carrying`, `turnlog export ${id} -o session.html`];
  return resume ? [...about, resume] : about;
}

async function read(address) {
  const answer = await fetch(address, { credentials: "same-origin" });
  if (!answer.ok) throw new Error((await message(answer)) ?? `${answer.status} ${answer.statusText}`);
  return answer.json();
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
