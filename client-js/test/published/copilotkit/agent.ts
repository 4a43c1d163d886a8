import { BuiltInAgent } from "@copilotkit/runtime/v2";

/** Some agent: a runtime needs one. It is never run. */
export const agent = new BuiltInAgent({ model: "openai/gpt-4o" });
