import { buildApps } from "./apps.js";

/** Once for all tests. */
export default async function setup(): Promise<void> {
  const began = Date.now();
  await buildApps();
  console.log(`The apps of docs/ are built in ${((Date.now() - began) / 1000).toFixed(1)} s.`);
}
