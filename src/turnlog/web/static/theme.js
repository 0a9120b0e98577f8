// Set the theme before the page is drawn, so that a dark page never flashes white.
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("turnlog-theme");
  } catch {
    // Storage may be forbidden; the system's theme remains.
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
