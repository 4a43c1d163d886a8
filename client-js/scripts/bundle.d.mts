export function browserBundle(code: string): Promise<{
  readonly text: string;
  readonly bytes: number;
  readonly gzipped: number;
  readonly inputs: readonly string[];
}>;
