// What the console's script keeps at nodes of the page.
interface Element {
  ask?: any;
  drawnFrom?: string;
  known?: Map<string, any>;
  place?: number;
  sourceText?: string;
}
