// The state of the viewer in the address: `?leaf=&line=&find=` on a server, `#line=` in a file.

const NAMES = ["leaf", "turn", "line", "query"];

function parameterOf(name) {
  return name === "query" ? "find" : name;
}

export function readState() {
  const state = {};
  const parameters = new URLSearchParams(location.search);
  const fragment = new URLSearchParams(location.hash.slice(1));
  for (const name of NAMES) {
    const value = fragment.get(name) ?? parameters.get(parameterOf(name));
    if (value) state[name] = value;
  }
  return state;
}

/** Put the state into the address; `isStep` adds it to the history, so that Back returns to the last one. */
export function writeState(state, options = {}, isStep = false) {
  if (options.onState) return options.onState(state);
  try {
    if (isStep) history.pushState(null, "", address(state));
    else history.replaceState(history.state, "", address(state));
  } catch {
    // A sandboxed page may not change its address, and some browsers limit how often.
  }
}

/** The address of this page with another state. */
export function address(state) {
  const isFile = location.protocol === "file:";
  const parameters = new URLSearchParams(isFile ? location.hash.slice(1) : location.search);
  for (const name of NAMES) {
    if (!(name in state) && name !== "turn") continue;
    const parameter = isFile ? name : parameterOf(name);
    if (state[name]) parameters.set(parameter, state[name]);
    else parameters.delete(parameter);
  }
  const text = parameters.toString();
  return isFile ? `#${text}` : `${location.pathname}${text ? `?${text}` : ""}`;
}
