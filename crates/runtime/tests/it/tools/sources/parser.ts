import { readFile } from "fs";

export const MOST = 10;
export const table = { a: 1, b: [2] };
const hidden = 3;
const helper = (a: number): number => a + 1;
export type Token = { kind: string; text: string };
export interface Visitor<T> {
  visit(token: Token): T;
}
export enum Kind { Word, End }
enum Hidden { A }

/** Parses. */
@sealed
export class Parser<T extends Token> implements Visitor<T> {
  private tokens: T[] = [];
  onEnd = () => { this.tokens = []; };

  constructor(readonly text: string) {}

  // Takes one.
  @logged()
  async push(token: T, strict = false): Promise<void> {
    this.tokens.push(token);
  }
  get size(): number { return this.tokens.length; }
  static of(text: string) { return new Parser(text); }
}
export abstract class Base {
  abstract visit(token: Token): void;
}
export default function main(args: string[]): void {}
function overload(a: string): void;
function overload(a: unknown): void {}
export function* walk(): Generator<number> { yield 1; }
namespace Deep {
  export function push() {}
}
declare function declared(a: number): string;
