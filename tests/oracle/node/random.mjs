// Random numbers from a seed: the same seed and name give the same numbers.

/** A generator of its own for each name, so that one user's steps do not move another's. */
export function randomOf(seed, name) {
  let state = 2166136261 ^ seed;
  for (const character of name) state = Math.imul(state ^ character.codePointAt(0), 16777619);
  const next = () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
  return {
    /** From 0 (with) to 1 (without). */
    next,
    /** A whole number below a bound. */
    below: (bound) => Math.floor(next() * bound),
    /** One of a list; undefined of an empty one. */
    pick: (list) => list[Math.floor(next() * list.length)],
    /** One of a table's names, by its weights. */
    weighted: (table) => {
      const entries = Object.entries(table);
      let left = next() * entries.reduce((sum, [, weight]) => sum + weight, 0);
      for (const [name, weight] of entries) if ((left -= weight) < 0) return name;
      return entries[0][0];
    },
  };
}

export const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
