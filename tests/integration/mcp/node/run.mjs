// One run of an agent under the published middleware. Reads {url, headers, serverId, calls: [{name, arguments}]} on
// standard input; the agent "decides" on one call after the other. Prints the tools that it was offered and the text
// that each call came back with, as the model would read it.
import { AbstractAgent, EventType } from "@ag-ui/client";
import { MCPMiddleware } from "@ag-ui/mcp-middleware";
import { Observable, lastValueFrom, toArray } from "rxjs";

let text = "";
for await (const chunk of process.stdin) text += chunk;
const { url, headers, serverId, calls } = JSON.parse(text);
const offered = [];
let runs = 0;

class Scripted extends AbstractAgent {
  run(input) {
    return new Observable((out) => {
      if (runs === 0) offered.push(...input.tools);
      const call = calls[runs++];
      out.next({ type: EventType.RUN_STARTED, threadId: input.threadId, runId: input.runId });
      if (call) {
        const toolCallId = `call-${runs}`;
        const toolCallName = `mcp__${serverId}__${call.name}`;
        out.next({ type: EventType.TOOL_CALL_START, toolCallId, toolCallName, parentMessageId: `message-${runs}` });
        out.next({ type: EventType.TOOL_CALL_ARGS, toolCallId, delta: JSON.stringify(call.arguments) });
        out.next({ type: EventType.TOOL_CALL_END, toolCallId });
      }
      out.next({ type: EventType.RUN_FINISHED, threadId: input.threadId, runId: input.runId });
      out.complete();
    });
  }
}

const agent = new Scripted();
const middleware = new MCPMiddleware([{ type: "http", url, headers, serverId }]);
const input = { threadId: "t1", runId: "r1", messages: [], tools: [], context: [], state: {}, forwardedProps: {} };
const events = await lastValueFrom(middleware.run(input, agent).pipe(toArray()));
const results = events.filter((event) => event.type === EventType.TOOL_CALL_RESULT).map((event) => event.content);
process.stdout.write(JSON.stringify({ tools: offered, results }));
