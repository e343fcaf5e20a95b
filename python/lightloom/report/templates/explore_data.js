// The rows of a data set: columns, filters, what is better, the front.
"use strict";
lightloom.rows = (() => {
  const { columns, count } = lightloom.data;
  const byName = new Map(columns.map((column) => [column.name, column]));
  const isNumber = (name) => byName.get(name)?.kind === "number";
  const values = new Map();

  // columns are one compressed text: numbers, or places in a list of texts
  const load = async () => {
    const bytes = Uint8Array.from(atob(lightloom.data.packed), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    const all = JSON.parse(await new Response(stream).text());
    columns.forEach((column, place) => values.set(column.name, all[place]));
  };

  const raw = (name, row) => values.get(name)[row];
  const value = (name, row) => {
    const found = raw(name, row);
    return isNumber(name) || found === null ? found : byName.get(name).levels[found];
  };
  const text = (name, row) => {
    const found = value(name, row);
    return found === null ? "-" : typeof found === "number" ? String(+found.toPrecision(6)) : found;
  };

  // what the reader lets through: a range of each number, a set of each text
  const filters = new Map();
  const passes = (row) => {
    for (const [name, filter] of filters) {
      const found = raw(name, row);
      if (filter.off ? filter.off.has(found)
        : found === null || found < filter.low || found > filter.high) return false;
    }
    return true;
  };
  let kept = [];
  const apply = () => { kept = []; for (let row = 0; row < count; row++) if (passes(row)) kept.push(row); };

  const distinct = (name, rows = kept) => {
    const found = [...new Set(rows.map((row) => raw(name, row)))].filter((v) => v !== null);
    return found.sort((a, b) => isNumber(name) ? a - b
      : byName.get(name).levels[a].localeCompare(byName.get(name).levels[b], "en", { numeric: true }));
  };
  const label = (name, found) => isNumber(name) ? String(+found.toPrecision(6)) : byName.get(name).levels[found];

  // rows that no other row beats in both numbers; signs are -1 where less is better
  const front = (rows, x, y, signX, signY) => {
    const found = rows.filter((row) => raw(x, row) !== null && raw(y, row) !== null);
    found.sort((a, b) => signX * (raw(x, b) - raw(x, a)) || signY * (raw(y, b) - raw(y, a)));
    const best = [];
    let limit = -Infinity;
    for (const row of found) {
      if (signY * raw(y, row) > limit) { limit = signY * raw(y, row); best.push(row); }
    }
    return best;
  };

  const csv = () => {
    const cell = (found) => found === null ? "" : /[",\n]/.test(found) ? `"${String(found).replaceAll('"', '""')}"` : found;
    const lines = kept.map((row) => columns.map((c) => cell(value(c.name, row))).join());
    return [columns.map((c) => cell(c.name)).join(), ...lines].join("\n") + "\n";
  };

  return { columns, byName, isNumber, load, raw, value, text, filters, apply, distinct, label, front, csv,
    count, kept: () => kept };
})();
