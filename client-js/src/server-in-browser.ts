// What a bundler for browsers gets in place of `memlane/server`: the project key must never get into a page.
throw new Error("memlane/server holds the project key: import it on a server only.");
export {};
