// Resolves the published packages of this folder.
export * from "@copilotkit/core";
