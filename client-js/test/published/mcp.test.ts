/** The published runtime gives an agent the tools of `<apiUrl>/mcp`, with its own credentials and grant. */
import { AbstractAgent, EventType, type BaseEvent, type RunAgentInput } from "@ag-ui/client";
import { CopilotKitIntelligence, CopilotRuntime } from "@copilotkit/runtime/v2";
import { Observable } from "rxjs";
import { afterAll, beforeAll, expect, test } from "vitest";

import { serverAdd, serverList } from "../support/app.js";
import { DevServer, type Deployment } from "../support/dev-server.js";

type Attach = (run: { runtime: unknown; request: Request; agent: AbstractAgent }) => Promise<Response | undefined>;
type Grant = { user: "none" | "read" | "read-write"; project: "none" | "read" | "read-write" };

let server: DevServer;
let deployment: Deployment;
let attach: Attach;
let users = 0;

beforeAll(async () => {
  server = await DevServer.create();
  deployment = await server.deployment();
  // What the runtime calls at the start of each run; it is not among the package's exports.
  const file = "node_modules/@copilotkit/runtime/dist/v2/runtime/handlers/shared/agent-utils.mjs";
  const shared = (await import(new URL(file, import.meta.url).href)) as {
    attachIntelligenceEnterpriseLearning: Attach;
  };
  attach = shared.attachIntelligenceEnterpriseLearning;
});
afterAll(async () => server?.dispose());

type ToolCall = { name: string; arguments: object };

/** Decides on one call after the other, and notes what it was offered. */
class Scripted extends AbstractAgent {
  readonly offered: string[] = [];
  readonly #calls: ToolCall[];
  #runs = 0;

  constructor(calls: ToolCall[]) {
    super({ threadId: "t1" });
    this.#calls = calls;
  }

  run({ threadId, runId, tools }: RunAgentInput): Observable<BaseEvent> {
    if (this.#runs === 0) this.offered.push(...tools.map((tool) => tool.name));
    const call = this.#calls[this.#runs++];
    const toolCallId = `call-${this.#runs}`;
    return new Observable((out) => {
      out.next({ type: EventType.RUN_STARTED, threadId, runId } as BaseEvent);
      if (call !== undefined) {
        const toolCallName = `mcp__intelligence__${call.name}`;
        out.next({ type: EventType.TOOL_CALL_START, toolCallId, toolCallName } as BaseEvent);
        out.next({ type: EventType.TOOL_CALL_ARGS, toolCallId, delta: JSON.stringify(call.arguments) } as BaseEvent);
        out.next({ type: EventType.TOOL_CALL_END, toolCallId } as BaseEvent);
      }
      out.next({ type: EventType.RUN_FINISHED, threadId, runId } as BaseEvent);
      out.complete();
    });
  }
}

/** One run of an agent behind the runtime, as the user of this id. */
async function run(user: string, grant: Grant, calls: ToolCall[]): Promise<{ offered: string[]; results: string[] }> {
  const { apiUrl, wsUrl, apiKey } = deployment;
  const agent = new Scripted(calls);
  const runtime = new CopilotRuntime({
    agents: { default: agent },
    intelligence: new CopilotKitIntelligence({ apiUrl, wsUrl, apiKey }),
    identifyUser: () => ({ id: user, name: user }),
    memory: { access: () => grant },
  });
  const request = new Request("http://app/api/copilotkit/agent/default/run", { method: "POST" });
  expect(await attach({ runtime, request, agent })).toBeUndefined();
  const results: string[] = [];
  await agent.runAgent({}, { onToolCallResultEvent: ({ event }) => void results.push(event.content) });
  return { offered: agent.offered, results };
}

test("an agent behind the runtime saves and recalls as the user whom the runtime names", async () => {
  const user = `agent-${++users}`;
  await serverAdd(deployment, user, "Lives in Oslo.");
  const { offered, results } = await run(user, { user: "read-write", project: "none" }, [
    { name: "recall_memory", arguments: { query: "where does the user live" } },
    { name: "save_memory", arguments: { content: "Prefers tea.", kind: "topical" } },
  ]);
  expect(offered.sort()).toEqual(
    ["forget_memory", "recall_memory", "save_memory"].map((name) => `mcp__intelligence__${name}`),
  );
  expect(results[0]).toContain("Lives in Oslo.");
  expect((await serverList(deployment, user)).map(({ content }) => content)).toEqual([
    "Prefers tea.",
    "Lives in Oslo.",
  ]);
  expect(await serverList(deployment, `agent-${++users}`)).toEqual([]);
});

test("the runtime's grant decides which tools there are", async () => {
  const { offered } = await run(`agent-${++users}`, { user: "read", project: "none" }, []);
  expect(offered).toEqual(["mcp__intelligence__recall_memory"]);
});
