import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

import { build } from "esbuild";

/**
 * Bundles a piece of code for a browser, as an app would, from the built package.
 *
 * @param {string} code
 * @returns {Promise<{ text: string, bytes: number, gzipped: number, inputs: string[] }>}
 */
export async function browserBundle(code) {
  const { outputFiles, metafile } = await build({
    stdin: { contents: code, resolveDir: fileURLToPath(new URL("..", import.meta.url)) },
    bundle: true,
    minify: true,
    format: "esm",
    platform: "browser",
    target: "es2022",
    external: ["react"],
    write: false,
    metafile: true,
    logLevel: "error",
  });
  const [file] = outputFiles;
  return {
    text: file.text,
    bytes: file.contents.byteLength,
    gzipped: gzipSync(file.contents, { level: 9 }).byteLength,
    inputs: Object.keys(metafile.inputs),
  };
}
