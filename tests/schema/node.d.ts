// The little of Node that the program uses; its whole declarations would be one more dependency.
declare module "node:fs" {
  export function readdirSync(folder: string): string[];
  export function readFileSync(file: string, encoding: "utf8"): string;
}

declare module "node:path" {
  export function join(...parts: string[]): string;
}

declare const process: { argv: string[]; stdout: { write(text: string): boolean } };
