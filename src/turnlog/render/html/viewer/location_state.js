// The state of the viewer in the address: `?leaf=&line=` on a server, `#line=` in a file.

const NAMES = ["leaf", "turn", "line", "query"];

export function readState() {
  const state = {};
  const parameters = new URLSearchParams(location.search);
  const fragment = new URLSearchParams(location.hash.slice(1));
  for (const name of NAMES) {
    const value = fragment.get(name) ?? parameters.get(name === "query" ? "find" : name);
    if (value) state[name] = value;
  }
  return state;
}

/** Put the state into the address, without adding to the history. */
export function writeState(state, options = {}) {
  if (options.onState) return options.onState(state);
  try {
    history.replaceState(history.state, "", address(state));
  } catch {
    // A sandboxed page may not change its address, and some browsers limit how often.
  }
}

/** The address of this page with another state. */
export function address(state) {
  const isFile = location.protocol === "file:";
  const parameters = new URLSearchParams(isFile ? location.hash.slice(1) : location.search);
  for (const name of ["leaf", "turn", "line"]) {
    if (!(name in state) && name !== "turn") continue;
    if (state[name]) parameters.set(name, state[name]);
    else parameters.delete(name);
  }
  const text = parameters.toString();
  return isFile ? `#${text}` : `${location.pathname}${text ? `?${text}` : ""}`;
}
