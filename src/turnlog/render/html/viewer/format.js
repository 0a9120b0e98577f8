// Counts, money, durations and times as people read them; the same forms as in the terminal.

export function money(amount) {
  if (amount === null || amount === undefined) return "?";
  if (amount > 0 && amount < 0.00005) return "<$0.0001";
  return amount < 1 ? `$${amount.toFixed(4)}` : `$${amount.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
}

export function tokens(count) {
  for (const [size, unit] of [[1e9, "B"], [1e6, "M"], [1e3, "k"]])
    if (count >= size) return `${(count / size).toFixed(1).replace(/\.0$/, "")}${unit}`;
  return String(count ?? 0);
}

export function count(number) {
  return (number ?? 0).toLocaleString("en-US");
}

export function plural(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}

export function bytes(size) {
  for (const unit of ["B", "kB", "MB", "GB"]) {
    if (size < 1000 || unit === "GB") return `${unit === "B" || size >= 100 ? Math.round(size) : size.toFixed(1)} ${unit}`;
    size /= 1000;
  }
  return "";
}

export function duration(milliseconds) {
  if (milliseconds === null || milliseconds === undefined) return "";
  const seconds = milliseconds / 1000;
  if (seconds < 9.95) return `${seconds.toFixed(1)}s`;
  if (seconds < 59.5) return `${Math.round(seconds)}s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${Math.floor(seconds / 60)}m ${Math.floor(seconds % 60)}s`;
  if (minutes < 2880) return `${Math.floor(minutes / 60)}h ${minutes % 60}m`;
  return `${Math.floor(minutes / 1440)}d ${Math.floor((minutes % 1440) / 60)}h`;
}

export function percent(share) {
  return share > 0 && share < 0.005 ? "<1%" : `${Math.round(share * 100)}%`;
}

const two = (number) => String(number).padStart(2, "0");

export function clock(time) {
  const at = new Date(time);
  return time && !Number.isNaN(at.getTime()) ? `${two(at.getHours())}:${two(at.getMinutes())}` : "";
}

export function dateTime(time) {
  const at = new Date(time);
  if (!time || Number.isNaN(at.getTime())) return "";
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}
