// The script of an exported page: open its documents, with a password if need be, and show them.

import { el, textElement } from "./dom.js";
import { fileSource, isEncrypted, openFile } from "./file_source.js";
import { mountViewer } from "./viewer.js";

const DEPTHS = {
  prompts: "prompts only",
  answers: "prompts and answers",
  calls: "calls without their outputs",
};

function show(element, file) {
  const { session, masked } = file.head.head;
  document.title = `${session.title} · turnlog`;
  const secrets = masked === 1 ? "1 secret is masked" : `${masked} secrets are masked`;
  const note = [secrets, DEPTHS[file.head.depth], "exported by turnlog"].filter(Boolean).join(" · ");
  document.body.append(textElement("footer", "tl-file-note", note));
  return mountViewer(element, fileSource(file));
}

/** Ask for the password until it opens the page. */
function ask(element) {
  const input = el("input", { type: "password", id: "password", autocomplete: "off" });
  const button = el("button", { class: "tl-button", text: "Open" });
  const alert = el("p", { role: "alert" });
  const form = el("form", { class: "tl-file-lock" });
  form.append(
    textElement("h1", "", "This session is encrypted"),
    el("label", { for: "password", text: "Password" }),
    input,
    button,
    alert,
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    alert.textContent = "";
    try {
      const file = await openFile(input.value);
      form.remove();
      await show(element, file).ready;
    } catch (error) {
      // WebCrypto reports a wrong key and changed data alike, as an OperationError.
      const isWrong = error.name === "OperationError";
      alert.textContent = isWrong ? "The password is wrong, or the file was changed." : String(error);
      button.disabled = false;
      input.select();
    }
  });
  element.replaceChildren(form);
  input.focus();
}

async function start() {
  const element = document.getElementById("viewer");
  if (isEncrypted()) ask(element);
  else await show(element, await openFile()).ready;
}

start().catch((error) => {
  document.getElementById("viewer").textContent = `This page cannot be shown: ${error.message}`;
});
