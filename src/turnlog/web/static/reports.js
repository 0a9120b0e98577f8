// Filters and commands of the report pages.

// The policy forbids form submissions, so that no form in a page can send data anywhere: filters are
// turned into an address of this app instead.
for (const form of document.querySelectorAll("form[data-navigate]")) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const url = new URL(form.getAttribute("action"), location.origin);
    for (const [name, value] of new FormData(form)) if (value) url.searchParams.set(name, value);
    location.assign(url.href);
  });
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(button.parentElement.querySelector("code").textContent);
  button.textContent = "copied";
  setTimeout(() => { button.textContent = "copy"; }, 1500);
});
