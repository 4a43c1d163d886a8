import { fileURLToPath } from "node:url";

/** The packages are two folders up. */
export default { turbopack: { root: fileURLToPath(new URL("../..", import.meta.url)) } };
