// A source that reads the documents of an exported page: compressed chunks in inert elements.

const KEPT = 12;

/** The parts of the page of one kind: `head`, `lock`, `pages`. */
function elements(kind) {
  return document.querySelectorAll(`script[type="application/x-turnlog-${kind}"]`);
}

/** Whether the page needs a password. */
export function isEncrypted() {
  return elements("lock").length > 0;
}

/** Open the documents of this page; throws if the password is wrong. */
export async function openFile(password = null) {
  const unseal = isEncrypted() ? await unlock(password) : (bytes) => bytes;
  const read = async (kind, number) => {
    const bytes = fromBase64(elements(kind)[number].textContent);
    return inflate(await unseal(bytes, `${kind} ${number}`));
  };
  return new FileDocuments(await read("head", 0), read);
}

/** The documents of a page, by number; the chunks used last are kept. */
class FileDocuments {
  constructor(head, read) {
    this.head = head;
    this.starts = head.starts.pages;
    this.read = read;
    this.chunks = new Map();
  }

  async document(number) {
    const chunk = this.chunkOf(number);
    return (await this.chunk(chunk))[number - this.starts[chunk]];
  }

  documents(numbers) {
    return Promise.all(numbers.map((number) => this.document(number)));
  }

  chunkOf(number) {
    let low = 0;
    let high = this.starts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.starts[middle] <= number) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  chunk(number) {
    const found = this.chunks.get(number) ?? this.read("pages", number);
    this.chunks.delete(number);
    this.chunks.set(number, found);
    if (this.chunks.size > KEPT) this.chunks.delete(this.chunks.keys().next().value);
    return found;
  }
}

/** Return the source of the viewer for opened documents. */
export function fileSource(file) {
  const main = { head: file.head.head, pages: file.head.pages, outlines: file.head.outlines };
  const branch = (leaf) => file.head.branches[leaf] ?? main;
  return {
    head: async (leaf) => {
      const { head } = branch(leaf);
      return typeof head === "number" ? file.document(head) : head;
    },
    turns: async (first, last, leaf) => {
      const pages = await file.documents(branch(leaf).pages.slice(first - 1, last));
      // The only turn of an export of one turn has its own number, but is the first in this file.
      return pages.map((page, place) => ({ ...page, n: first + place }));
    },
    outline: async (first, last, leaf) => {
      const { outlines, head } = branch(leaf);
      const { size } = (typeof head === "number" ? await file.document(head) : head).blocks;
      return file.document(outlines[Math.floor((first - 1) / size)]);
    },
    agent: async (id) => {
      const numbers = file.head.agents[id];
      if (!numbers) throw new Error("This sub-agent left no file.");
      return joined(await file.documents(numbers));
    },
  };
}

/** The rows of several pages as one page; messages are numbered within a page. */
function joined(pages) {
  const messages = [];
  const rows = [];
  for (const page of pages) {
    const before = messages.length;
    messages.push(...page.messages);
    for (const row of page.rows)
      rows.push(row.message === undefined ? row : { ...row, message: row.message + before });
  }
  return { first: 0, total: rows.length, rows, messages };
}

async function unlock(password) {
  const lock = JSON.parse(atob(elements("lock")[0].textContent));
  const secret = new TextEncoder().encode(password);
  const material = await crypto.subtle.importKey("raw", secret, "PBKDF2", false, ["deriveKey"]);
  const key = await crypto.subtle.deriveKey(
    { name: "PBKDF2", hash: "SHA-256", salt: fromBase64(lock.salt), iterations: lock.iterations },
    material,
    { name: "AES-GCM", length: 256 },
    false,
    ["decrypt"],
  );
  const page = fromBase64(lock.page);
  // The page's id and the part's name are authenticated: a part moved to another place, or taken
  // from another file with the same password, does not decrypt.
  return (bytes, part) => {
    const name = new TextEncoder().encode(part);
    const additionalData = new Uint8Array(page.length + name.length);
    additionalData.set(page);
    additionalData.set(name, page.length);
    const algorithm = { name: "AES-GCM", iv: bytes.subarray(0, 12), additionalData };
    return crypto.subtle.decrypt(algorithm, key, bytes.subarray(12));
  };
}

async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).json();
}

function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}
