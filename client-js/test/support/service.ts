import type { TestProject } from "vitest/node";

import { DevServer, type Deployment } from "./dev-server.js";

declare module "vitest" {
  interface ProvidedContext {
    deployment: Deployment;
  }
}

/** One service for all live tests: each takes users of its own. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const server = await DevServer.create();
  project.provide("deployment", await server.deployment());
  return () => server.dispose();
}
