// Small programs that use the TypeScript Agent SDK; sdk_javascript.py runs them.
//
//     node programs.mjs                  print the names and the replies of the API
//     node programs.mjs NAME CLIENT      run a program, print its outcome as JSON
//
// MODULES is the node_modules directory with the SDK and zod. An outcome has nothing that differs
// from run to run.
import { mkdirSync, readFileSync, writeFileSync, existsSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const load = (name) => import(pathToFileURL(join(process.env.MODULES, name)).href);
const [name, client] = process.argv.slice(2);
const work = process.cwd();

const text = (content) => ({ content: [{ type: "text", text: content }] });
const call = (id, tool, input) => ({ content: [{ type: "tool_use", id, name: tool, input }] });
const held = (content) => ({ ...text(content), hold_after: 4 });
const failed = (status) => ({ status, content: [] });
const touch = call("t1", "Bash", { command: "touch new" });
const twice = [touch, text("Done.")];

let sdk;
const start = (prompt, options = {}) =>
  sdk.query({
    prompt,
    options: { pathToClaudeCodeExecutable: client, cwd: work, settingSources: [], ...options },
  });

async function collect(query, seen = () => {}) {
  const messages = [];
  try {
    for await (const message of query) {
      messages.push(message);
      await seen(message, query);
    }
  } catch (error) {
    messages.push({ type: "thrown", name: error.name });
  }
  return messages;
}

const run = async (prompt, options, seen) => collect(start(prompt, options), seen);
const last = (messages) => messages.filter((each) => each.type === "result").at(-1);
const ended = (messages) => {
  const result = last(messages);
  return result
    ? {
        subtype: result.subtype,
        result: result.result,
        is_error: result.is_error,
        num_turns: result.num_turns,
        denials: result.permission_denials.map((each) => each.tool_name),
      }
    : messages.filter((each) => each.type === "thrown").map((each) => each.type);
};
const kinds = (messages) =>
  messages
    .map((each) => each.type + (each.subtype ? `/${each.subtype}` : ""))
    .filter((each) => /^(assistant|user|result|system\/init|thrown)/.test(each));
const results = (messages) =>
  messages
    .filter((each) => each.type === "user" && Array.isArray(each.message.content))
    .flatMap((each) => each.message.content)
    .filter((each) => each.type === "tool_result")
    .map((each) => [each.tool_use_id, each.is_error === true]);
const said = (content, extra = {}) => ({
  type: "user",
  message: { role: "user", content },
  parent_tool_use_id: null,
  session_id: "",
  ...extra,
});

/** A stream of prompts to which more can be added. */
function prompts(...given) {
  const queue = [...given];
  let wake = () => {};
  let isOpen = true;
  return {
    push: (each) => (queue.push(each), wake()),
    end: () => ((isOpen = false), wake()),
    async *[Symbol.asyncIterator]() {
      while (isOpen || queue.length) {
        while (queue.length) yield queue.shift();
        if (isOpen) await new Promise((resolve) => (wake = resolve));
      }
    },
  };
}

/** A conversation of several turns; `step` is called with the number of each result. */
async function converse(options, first, step) {
  const input = prompts(said(first));
  const query = start(input, options);
  let turn = 0;
  const messages = await collect(query, async (message) => {
    if (message.type !== "result") return;
    turn += 1;
    const next = await step(turn, query, message);
    if (next) input.push(said(next));
    else input.end();
  });
  return messages;
}

const hook = (event, reply, matcher) => {
  const fired = [];
  const callback = async (input) => {
    fired.push(`${input.hook_event_name}:${input.tool_name ?? ""}`);
    return reply;
  };
  return { fired, hooks: { [event]: [{ ...(matcher && { matcher }), hooks: [callback] }] } };
};

const allow = async (tool, input) => ({ behavior: "allow", updatedInput: input });
const open = { canUseTool: allow };

const PROGRAMS = {
  "simple query": [[text("Hello.")], async () => {
    const messages = await run("hi");
    return [kinds(messages), ended(messages)];
  }],
  "system prompt": [[text("Hello.")], async () => ended(await run("hi", { systemPrompt: "Be brief." }))],
  "preset with more": [[text("Hello.")], async () =>
    ended(await run("hi", { systemPrompt: { type: "preset", preset: "claude_code", append: "Be brief." } }))],
  "streaming input": [[text("One."), text("Two.")], async () => {
    const messages = await converse({}, "first", (turn) => (turn === 1 ? "second" : null));
    return messages.filter((each) => each.type === "result").map((each) => each.result);
  }],
  "image in a prompt": [[text("A dot.")], async () => {
    const data =
      "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    const image = { type: "image", source: { type: "base64", media_type: "image/png", data } };
    const input = prompts(said([{ type: "text", text: "what is it" }, image]));
    const query = start(input);
    return ended(await collect(query, (each) => each.type === "result" && input.end()));
  }],
  "partial messages": [[text("Hello, you.")], async () => {
    const messages = await run("hi", { includePartialMessages: true });
    const events = messages.filter((each) => each.type === "stream_event").map((each) => each.event);
    const pieces = events.filter((each) => each.delta?.type === "text_delta");
    return [pieces.map((each) => each.delta.text).join(""), [...new Set(events.map((each) => each.type))]];
  }],
  "allowed call": [twice, async () => {
    const asked = [];
    const canUseTool = async (tool, input, about) => {
      asked.push([tool, input.command, about.toolUseID, about.signal instanceof AbortSignal]);
      return { behavior: "allow", updatedInput: input };
    };
    const messages = await run("go", { canUseTool });
    return [asked, results(messages), ended(messages), existsSync("new")];
  }],
  "denied call": [twice, async () => {
    const messages = await run("go", { canUseTool: async () => ({ behavior: "deny", message: "no" }) });
    return [results(messages), ended(messages), existsSync("new")];
  }],
  "denied call that ends the turn": [twice, async () => {
    const canUseTool = async () => ({ behavior: "deny", message: "no", interrupt: true });
    const messages = await run("go", { canUseTool });
    return [results(messages), last(messages)?.subtype, existsSync("new")];
  }],
  "changed call": [twice, async () => {
    const canUseTool = async () => ({ behavior: "allow", updatedInput: { command: "touch other" } });
    const messages = await run("go", { canUseTool });
    return [ended(messages), existsSync("new"), existsSync("other")];
  }],
  "rule from an answer": [[touch, call("t2", "Bash", { command: "touch new" }), text("Done.")], async () => {
    let asked = 0;
    const canUseTool = async (tool, input, { suggestions }) => {
      asked += 1;
      const updatedPermissions = suggestions?.map((each) => ({ ...each, destination: "session" }));
      return { behavior: "allow", updatedInput: input, updatedPermissions };
    };
    return [ended(await run("go", { canUseTool })), asked];
  }],
  "allowed tools": [twice, async () => {
    const messages = await run("go", { allowedTools: ["Bash(touch:*)"] });
    return [ended(messages), existsSync("new")];
  }],
  "disallowed tools": [[text("Hello.")], async () => {
    const messages = await run("go", { disallowedTools: ["Bash"] });
    const { tools } = messages.find((each) => each.subtype === "init");
    return [tools.includes("Bash"), tools.includes("Read")];
  }],
  "chosen tools": [[text("Hello.")], async () => {
    const messages = await run("go", { tools: ["Read", "Glob"] });
    return messages.find((each) => each.subtype === "init").tools.sort();
  }],
  "hook that blocks": [twice, async () => {
    const output = { hookEventName: "PreToolUse", permissionDecision: "deny", permissionDecisionReason: "no" };
    const { fired, hooks } = hook("PreToolUse", { hookSpecificOutput: output }, "Bash");
    const messages = await run("go", { hooks, ...open });
    return [fired, results(messages), existsSync("new")];
  }],
  "hook that allows": [twice, async () => {
    const output = { hookEventName: "PreToolUse", permissionDecision: "allow" };
    const { fired, hooks } = hook("PreToolUse", { hookSpecificOutput: output });
    const messages = await run("go", { hooks });
    return [fired, results(messages), existsSync("new")];
  }],
  "hook after a call": [twice, async () => {
    const output = { hookEventName: "PostToolUse", additionalContext: "seen by the hook" };
    const { fired, hooks } = hook("PostToolUse", { hookSpecificOutput: output });
    return [fired, ended(await run("go", { hooks, ...open }))];
  }],
  "hook on a prompt": [[text("Hello.")], async () => {
    const output = { hookEventName: "UserPromptSubmit", additionalContext: "from the hook" };
    const { fired, hooks } = hook("UserPromptSubmit", { hookSpecificOutput: output });
    return [fired, ended(await run("go", { hooks }))];
  }],
  "hook at the end": [[text("One."), text("Two.")], async () => {
    const fired = [];
    const callback = async (input) => {
      fired.push(input.stop_hook_active);
      return fired.length === 1 ? { decision: "block", reason: "once more" } : {};
    };
    const messages = await run("go", { hooks: { Stop: [{ hooks: [callback] }] } });
    return [fired, ended(messages)];
  }],
  "server in the program": [[call("t1", "mcp__shop__add", { a: 1, b: 2 }), text("Three.")], async () => {
    const { z } = await load("zod/index.js");
    const calls = [];
    const add = sdk.tool("add", "Add numbers", { a: z.number(), b: z.number() }, async ({ a, b }) => {
      calls.push([a, b]);
      return { content: [{ type: "text", text: `sum ${a + b}` }] };
    });
    const shop = sdk.createSdkMcpServer({ name: "shop", version: "1.0.0", tools: [add] });
    const messages = await run("go", { mcpServers: { shop }, allowedTools: ["mcp__shop__add"] });
    return [calls, results(messages), ended(messages)];
  }],
  "server in the program that fails": [[call("t1", "mcp__shop__fail", {}), text("Oh.")], async () => {
    const fail = sdk.tool("fail", "Fail", {}, async () => {
      throw new Error("out of stock");
    });
    const shop = sdk.createSdkMcpServer({ name: "shop", tools: [fail] });
    const messages = await run("go", { mcpServers: { shop }, allowedTools: ["mcp__shop"] });
    return [results(messages), ended(messages)];
  }],
  "status of servers": [[text("Hello.")], async () => {
    const shop = sdk.createSdkMcpServer({ name: "shop", tools: [] });
    let states;
    await converse({ mcpServers: { shop } }, "hi", async (turn, query) => {
      states = await query.mcpServerStatus();
      return null;
    });
    return states.map((each) => [each.name, each.status]);
  }],
  "sub-agent": [
    [
      call("a1", "Agent", { description: "look", prompt: "look around", subagent_type: "scout", run_in_background: false }),
      text("Found."),
      text("Done."),
    ],
    async () => {
      const agents = { scout: { description: "Looks", prompt: "You look.", tools: ["Read"] } };
      const messages = await run("go", { agents, ...open });
      return [results(messages), ended(messages)];
    },
  ],
  "structured output": [[call("t1", "StructuredOutput", { name: "a", size: 3 }), text("ok")], async () => {
    const schema = {
      type: "object",
      properties: { name: { type: "string" }, size: { type: "number" } },
      required: ["name", "size"],
      additionalProperties: false,
    };
    const result = last(await run("go", { outputFormat: { type: "json_schema", schema } }));
    return [result.subtype, result.structured_output];
  }],
  "interrupt": [[held("a long answer"), text("Again.")], async () => {
    const input = prompts(said("go"));
    const query = start(input, { includePartialMessages: true });
    let isInterrupted = false;
    const messages = await collect(query, async (message) => {
      if (message.type === "stream_event" && message.event.delta?.type === "text_delta" && !isInterrupted) {
        isInterrupted = true;
        await query.interrupt();
      } else if (message.type === "result") {
        if (message.result === "Again.") input.end();
        else input.push(said("again"));
      }
    });
    return messages.filter((each) => each.type === "result").map((each) => [each.subtype, each.is_error]);
  }],
  "another model": [[text("One."), text("Two.")], async () => {
    const messages = await converse({ model: "claude-opus-5-5" }, "first", async (turn, query) => {
      if (turn === 2) return null;
      await query.setModel("claude-sonnet-5-5");
      return "second";
    });
    return messages.filter((each) => each.subtype === "init").map((each) => each.model);
  }],
  "another mode": [[text("One."), call("t1", "Write", { file_path: join(work, "new"), content: "x" }), text("Two.")], async () => {
    const messages = await converse({}, "first", async (turn, query) => {
      if (turn === 2) return null;
      await query.setPermissionMode("acceptEdits");
      return "second";
    });
    return [results(messages), existsSync("new"), messages.filter((each) => each.subtype === "init").map((each) => each.permissionMode)];
  }],
  "mode that is not allowed": [[text("One.")], async () => {
    let outcome = "allowed";
    await converse({}, "first", async (turn, query) => {
      await query.setPermissionMode("bypassPermissions").catch(() => (outcome = "refused"));
      return null;
    });
    return outcome;
  }],
  "thinking tokens": [[text("One."), text("Two.")], async () => {
    const messages = await converse({ maxThinkingTokens: 0 }, "first", async (turn, query) => {
      if (turn === 2) return null;
      await query.setMaxThinkingTokens(2000);
      return "second";
    });
    return ended(messages);
  }],
  "resume": [[text("One."), text("Two.")], async () => {
    const first = await run("first");
    const { session_id: resume } = last(first);
    const second = await run("second", { resume });
    return [last(second).session_id === resume, ended(second)];
  }],
  "fork": [[text("One."), text("Two.")], async () => {
    const { session_id: resume } = last(await run("first"));
    const second = await run("second", { resume, forkSession: true });
    return [last(second).session_id === resume, ended(second)];
  }],
  "continue": [[text("One."), text("Two.")], async () => {
    const { session_id: id } = last(await run("first"));
    const second = await run("second", { continue: true });
    return [last(second).session_id === id, ended(second)];
  }],
  "resume at a message": [[text("One."), text("Two."), text("Three.")], async () => {
    const first = await run("first");
    const resume = last(first).session_id;
    const at = first.filter((each) => each.type === "assistant").at(-1).uuid;
    await run("second", { resume });
    return ended(await run("third", { resume, resumeSessionAt: at }));
  }],
  "given session id": [[text("One.")], async () => {
    const sessionId = "5e551011-0000-4000-8000-00000000000a";
    return last(await run("hi", { sessionId })).session_id === sessionId;
  }],
  "unknown session": [[text("One.")], async () => {
    const messages = await run("hi", { resume: "5e551011-0000-4000-8000-00000000000b" });
    return [kinds(messages).at(-1), last(messages)?.is_error];
  }],
  "limit of turns": [[call("t1", "Bash", { command: "ls" }), call("t2", "Bash", { command: "ls" })], async () => {
    const messages = await run("go", { maxTurns: 1, ...open });
    return last(messages)?.subtype;
  }],
  "failing API": [[failed(400)], async () => {
    const messages = await run("go");
    return [last(messages)?.subtype, last(messages)?.is_error];
  }],
  "aborted query": [[held("a long answer")], async () => {
    const abortController = new AbortController();
    const seen = (message) => message.type === "stream_event" && message.event.delta && abortController.abort();
    const messages = await run("go", { abortController, includePartialMessages: true }, seen);
    return messages.at(-1).type;
  }],
  "memory of the project": [[text("Hello.")], async () => {
    writeFileSync("CLAUDE.md", "Remember the milk.\n");
    return ended(await run("hi", { settingSources: ["project"] }));
  }],
  "given settings": [[touch, text("Done.")], async () => {
    const settings = { permissions: { allow: ["Bash(touch:*)"] } };
    return [ended(await run("go", { settings })), existsSync("new")];
  }],
  "commands and models": [[text("Hello.")], async () => {
    mkdirSync(".claude/commands", { recursive: true });
    writeFileSync(".claude/commands/mend.md", "---\ndescription: Mend it\n---\nMend $ARGUMENTS thoroughly, please.\n");
    let found;
    await converse({ settingSources: ["project"] }, "/mend it", async (turn, query) => {
      const commands = await query.supportedCommands();
      const models = await query.supportedModels();
      const agents = await query.supportedAgents();
      const mend = commands.find((each) => each.name === "mend");
      const compact = commands.some((each) => each.name === "compact");
      found = [mend?.description?.startsWith("Mend it"), compact, models.length > 0, agents.length > 0];
      return null;
    });
    return found;
  }],
  "usage of the context": [[text("Hello.")], async () => {
    let usage;
    await converse({}, "hi", async (turn, query) => {
      usage = await query.getContextUsage();
      return null;
    });
    return [usage.maxTokens > 0, usage.totalTokens > 0, Array.isArray(usage.categories)];
  }],
  "files of before": [
    [call("t1", "Write", { file_path: join(work, "new"), content: "x" }), text("Done.")],
    async () => {
      const options = { enableFileCheckpointing: true, permissionMode: "acceptEdits", extraArgs: { "replay-user-messages": null } };
      let prompt;
      let answer;
      const input = prompts(said("go"));
      const query = start(input, options);
      await collect(query, async (message) => {
        if (message.type === "user" && message.isReplay) prompt = message.uuid;
        if (message.type === "result") {
          answer = [existsSync("new"), (await query.rewindFiles(prompt)).canRewind];
          input.end();
        }
      });
      return [...answer, existsSync("new")];
    },
  ],
  "recorded sessions": [[text("One."), text("Two.")], async () => {
    const { session_id: id } = last(await run("first"));
    await run("second", { resume: id });
    const listed = await sdk.listSessions({ dir: work });
    const messages = await sdk.getSessionMessages(id, { dir: work });
    const info = await sdk.getSessionInfo(id, { dir: work });
    return [listed.map((each) => each.sessionId === id), messages.map((each) => each.type), info.firstPrompt];
  }],
  "recorded sub-agents": [
    [
      call("a1", "Agent", { description: "look", prompt: "look around", subagent_type: "general-purpose", run_in_background: false }),
      text("Found."),
      text("Done."),
    ],
    async () => {
      const { session_id: id } = last(await run("go", open));
      const agents = await sdk.listSubagents(id, { dir: work });
      const messages = await sdk.getSubagentMessages(id, agents[0], { dir: work });
      return [agents.length, messages.map((each) => each.type)];
    },
  ],
  "renamed session": [[text("One."), text("Two.")], async () => {
    const { session_id: id } = last(await run("first"));
    await sdk.renameSession(id, "a name", { dir: work });
    const second = await run("second", { resume: id });
    const info = await sdk.getSessionInfo(id, { dir: work });
    return [info.customTitle, ended(second)];
  }],
  "mirrored session": [[text("One.")], async () => {
    const kinds = new Set();
    const append = async (key, entries) => entries.forEach((each) => kinds.add(each.type));
    const messages = await run("hi", { sessionStore: { append, load: async () => null } });
    return [ended(messages), kinds.has("user"), kinds.has("assistant")];
  }],
};

if (!name) {
  const scripts = Object.fromEntries(Object.entries(PROGRAMS).map(([key, [replies]]) => [key, replies]));
  console.log(JSON.stringify(scripts));
} else {
  sdk = await load("@anthropic-ai/claude-agent-sdk/sdk.mjs");
  const outcome = await PROGRAMS[name][1]();
  process.stdout.write(`${JSON.stringify(outcome)}\n`, () => process.exit(0));
}
