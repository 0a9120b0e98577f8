// Charts are drawn by the server. This adds a tooltip, arrow keys between marks, and zooming: dragging
// over the bars of a chart in [data-zoom] opens the page again with ?since= and ?until=.

const SVG = "http://www.w3.org/2000/svg";
const DAY_MS = 86_400_000;
const LEAST_DRAG = 8;
const FEW_LINKS = 8;
const KEYS = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 };

/** Enhance all charts below an element. */
export function mountCharts(root = document) {
  const tip = document.createElement("div");
  tip.className = "tl-tip";
  tip.hidden = true;
  document.body.append(tip);
  for (const chart of root.querySelectorAll("svg.tl-chart")) {
    moveTitles(chart);
    addTooltip(chart, tip);
    addArrowKeys(chart);
  }
  // A year that does not fit shows its end first.
  for (const area of root.querySelectorAll(".tl-scroll")) area.scrollLeft = area.scrollWidth;
  for (const area of root.querySelectorAll("[data-zoom]")) {
    const chart = area.querySelector("svg.tl-bars");
    if (chart) addZoom(chart, area.dataset.zoom);
  }
}

/** Replace titles by data-tip: the browser would show its own tooltip over ours. */
function moveTitles(chart) {
  for (const title of chart.querySelectorAll(".tl-mark > title, .tl-idle > title, .tl-event > title")) {
    const mark = title.parentElement;
    mark.dataset.tip = title.textContent;
    mark.closest("a")?.setAttribute("aria-label", title.textContent);
    title.remove();
  }
}

function addTooltip(chart, tip) {
  const show = (event) => {
    const mark = event.target.closest?.("[data-tip]") ?? event.target.querySelector?.("[data-tip]");
    tip.hidden = !mark;
    if (!mark) return;
    tip.textContent = mark.dataset.tip;
    const box = mark.getBoundingClientRect();
    const size = tip.getBoundingClientRect();
    const left = Math.min(Math.max(4, box.left + box.width / 2 - size.width / 2), innerWidth - size.width - 4);
    const above = box.top - size.height - 6;
    // Through the CSSOM, which a policy without 'unsafe-inline' allows.
    tip.style.left = `${left}px`;
    tip.style.top = `${above > 4 ? above : box.bottom + 6}px`;
  };
  const hide = () => { tip.hidden = true; };
  chart.addEventListener("pointerover", show);
  chart.addEventListener("focusin", show);
  chart.addEventListener("pointerleave", hide);
  chart.addEventListener("focusout", hide);
  addEventListener("scroll", hide, { passive: true, capture: true });
}

/** Make a chart one stop of the Tab key; arrows move between its links. */
function addArrowKeys(chart) {
  const links = [...chart.querySelectorAll("a.tl-link")];
  if (links.length <= FEW_LINKS) return;
  links.forEach((link, place) => link.setAttribute("tabindex", place === links.length - 1 ? "0" : "-1"));
  chart.addEventListener("keydown", (event) => {
    const place = links.indexOf(document.activeElement);
    const next = links[place + (KEYS[event.key] ?? 0)];
    if (place < 0 || !next || !(event.key in KEYS)) return;
    event.preventDefault();
    links[place].setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  });
}

/** The address of this page for a range of periods, which are named by their start. */
export function zoomAddress(address, unit, first, last) {
  const url = new URL(address);
  url.searchParams.set("since", unit === "month" ? `${first}-01` : first);
  url.searchParams.set("until", endOf(unit, last));
  return url.href;
}

/** The last day of a period, or the end of a five-hour block. */
function endOf(unit, start) {
  const [year, month] = start.split("-").map(Number);
  if (unit === "month") return new Date(Date.UTC(year, month, 0)).toISOString().slice(0, 10);
  if (unit === "week") return new Date(Date.parse(start) + 6 * DAY_MS).toISOString().slice(0, 10);
  if (unit === "block") return new Date(Date.parse(start) + (5 * DAY_MS) / 24).toISOString();
  return start;
}

function addZoom(chart, unit) {
  const view = chart.viewBox.baseVal;
  let brush = null;
  let from = 0;
  const place = (event) => new DOMPoint(event.clientX, event.clientY).matrixTransform(chart.getScreenCTM().inverse()).x;
  const stop = () => { brush?.remove(); brush = null; };

  chart.addEventListener("pointerdown", (event) => {
    // A finger that moves sideways scrolls the page.
    if (event.pointerType === "touch" || event.button !== 0) return;
    event.preventDefault();
    from = place(event);
    brush = document.createElementNS(SVG, "rect");
    brush.setAttribute("class", "tl-brush");
    brush.setAttribute("y", "0");
    brush.setAttribute("height", String(view.height));
    chart.append(brush);
    chart.setPointerCapture(event.pointerId);
  });
  chart.addEventListener("pointermove", (event) => {
    if (!brush) return;
    const to = place(event);
    brush.setAttribute("x", String(Math.min(from, to)));
    brush.setAttribute("width", String(Math.abs(to - from)));
  });
  chart.addEventListener("pointerup", (event) => {
    if (!brush) return;
    const [left, right] = [from, place(event)].sort((a, b) => a - b);
    stop();
    if (right - left < LEAST_DRAG) return;
    const keys = marksBetween(chart, left, right);
    if (keys.length) location.assign(zoomAddress(location.href, unit, keys[0], keys.at(-1)));
  });
  chart.addEventListener("pointercancel", stop);
  addEventListener("keydown", (event) => { if (event.key === "Escape") stop(); });
}

/** The periods of bars that a range touches, sorted: their names are dates. */
function marksBetween(chart, left, right) {
  const keys = new Set();
  for (const mark of chart.querySelectorAll("rect.tl-mark")) {
    const x = Number(mark.getAttribute("x"));
    if (x + Number(mark.getAttribute("width")) >= left && x <= right) keys.add(mark.dataset.key);
  }
  return [...keys].sort();
}

mountCharts();
