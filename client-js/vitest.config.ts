import { fileURLToPath } from "node:url";

import { defineConfig } from "vitest/config";

const dist = (file: string) => fileURLToPath(new URL(`dist/${file}`, import.meta.url));
const react18 = (name: string) => fileURLToPath(new URL(`test/react18/node_modules/${name}`, import.meta.url));

/** Tests name the package as its users do, and get what is built. */
const alias = [
  { find: /^memlane$/, replacement: dist("index.js") },
  { find: /^memlane\/(react|server)$/, replacement: `${dist("")}$1.js` },
];

export default defineConfig({
  test: {
    testTimeout: 30_000,
    hookTimeout: 60_000,
    maxWorkers: 2,
    projects: [
      {
        extends: true,
        resolve: { alias },
        test: { name: "unit", include: ["test/{reducer,realtime,socket,server,package}.test.ts"] },
      },
      {
        extends: true,
        resolve: { alias },
        test: {
          name: "live",
          include: ["test/live/*.test.ts"],
          globalSetup: ["test/support/service.ts"],
          testTimeout: 60_000,
        },
      },
      {
        extends: true,
        resolve: { alias },
        test: {
          name: "browser",
          include: ["test/browser/*.test.ts"],
          globalSetup: ["test/support/service.ts"],
          testTimeout: 60_000,
        },
      },
      {
        extends: true,
        resolve: { alias },
        test: {
          name: "react 19",
          include: ["test/react.test.tsx"],
          environment: "happy-dom",
          env: { REACT_MAJOR: "19" },
        },
      },
      {
        extends: true,
        resolve: {
          alias: [
            ...alias,
            { find: /^react$/, replacement: react18("react") },
            { find: /^react\/(.*)$/, replacement: `${react18("react")}/$1` },
            { find: /^react-dom\/(.*)$/, replacement: `${react18("react-dom")}/$1` },
          ],
        },
        test: {
          name: "react 18",
          include: ["test/react.test.tsx"],
          environment: "happy-dom",
          env: { REACT_MAJOR: "18" },
        },
      },
    ],
  },
});
