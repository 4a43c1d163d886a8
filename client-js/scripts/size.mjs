// Prints what the entry points cost a page, and fails when memlane/react is over its limit.
import { browserBundle } from "./bundle.mjs";

const LIMIT_BYTES = 20 * 1024;

for (const entry of ["memlane", "memlane/react"]) {
  const { bytes, gzipped } = await browserBundle(`export * from "${entry}";`);
  console.log(`${entry.padEnd(14)} ${kib(gzipped)} gzipped, ${kib(bytes)} minified, with phoenix, without react`);
  if (entry === "memlane/react" && gzipped > LIMIT_BYTES) {
    console.error(`memlane/react is over its limit of ${kib(LIMIT_BYTES)} gzipped.`);
    process.exitCode = 1;
  }
}

function kib(bytes) {
  return `${(bytes / 1024).toFixed(1)} KiB`;
}
