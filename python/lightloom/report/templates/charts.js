// What all charts share: data, colors, and when to draw again. A chart is an element with
// data-chart="name" whose function is lightloom.charts[name]; without scripts it shows what stands
// inside it.
"use strict";
const lightloom = (() => {
  const charts = {}, drawn = new Map();
  const store = document.getElementById("chart-data");
  const data = store ? JSON.parse(store.textContent) : {};

  const color = (name) =>
    getComputedStyle(document.documentElement).getPropertyValue(name).trim() || "#888";

  // numbers as page_template.packed writes them
  const unpack = async (text) => {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    const parts = new Uint8Array(await new Response(stream).arrayBuffer());
    const count = parts.length / 4, values = new Int32Array(count);
    for (let i = 0; i < count; i++) {
      values[i] = parts[i] | parts[count + i] << 8 | parts[2 * count + i] << 16 | parts[3 * count + i] << 24;
    }
    return values;
  };

  // fabrics that the reader has switched off, on the whole page
  const hidden = new Set();
  const shown = (name) => !hidden.has(name);

  const theme = () => ({
    ink: color("--ink"), soft: color("--soft"), faint: color("--faint"), line: color("--line"),
    grid: color("--grid"), paper: color("--paper"),
    font: getComputedStyle(document.body).fontFamily,
  });

  // settings that every chart begins with
  const base = () => {
    const t = theme();
    return {
      animation: false,
      textStyle: { fontFamily: t.font, color: t.soft, fontSize: 12.5 },
      tooltip: {
        confine: true, backgroundColor: t.ink, borderWidth: 0, padding: [5, 10],
        textStyle: { color: t.paper, fontSize: 13 }, extraCssText: "white-space: normal; max-width: 340px;",
      },
    };
  };

  const axis = (name, more = {}) => {
    const t = theme();
    return {
      name, nameLocation: "middle", nameGap: 30, nameTextStyle: { color: t.soft },
      axisLine: { show: true, lineStyle: { color: t.faint } },
      axisLabel: { color: t.soft, hideOverlap: true },
      splitLine: { lineStyle: { color: t.grid } }, ...more,
    };
  };

  // a slider below a chart, in the colors of the page
  const slider = () => {
    const t = theme(), accent = color("--accent");
    const shape = { areaStyle: { color: t.faint, opacity: 0.15 }, lineStyle: { color: t.faint, opacity: 0.5 } };
    return {
      borderColor: t.line, backgroundColor: "transparent", fillerColor: `${accent}26`,
      dataBackground: shape, selectedDataBackground: shape,
      handleStyle: { color: t.paper, borderColor: accent }, moveHandleStyle: { color: accent, opacity: 0.45 },
      emphasis: { handleStyle: { color: t.paper, borderColor: accent }, moveHandleStyle: { color: accent } },
      brushStyle: { color: accent, opacity: 0.2 },
    };
  };

  // text for tips: what comes from outside is escaped
  const escape = (text) => String(text).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

  // four digits, zeros at the end included; fewer if the number is exact with fewer, as in Python
  const digits = (value) => {
    const text = value.toPrecision(4);
    const number = Number(text);
    const exact = Math.abs(number - value) <= 1e-12 * Math.abs(value);
    return exact || text.includes("e") ? String(number) : text;
  };

  const seconds = (value) => {
    const size = Math.abs(value);
    const [unit, name] = size >= 1 ? [1, "s"] : size >= 1e-3 ? [1e-3, "ms"]
      : size >= 1e-6 ? [1e-6, "us"] : [1e-9, "ns"];
    return `${digits(value / unit)} ${name}`;
  };

  const draw = (element) => {
    const make = charts[element.dataset.chart];
    if (!make || !element.offsetWidth) return;
    let chart = drawn.get(element);
    if (!chart) {
      element.replaceChildren();
      chart = echarts.init(element, null, { renderer: element.dataset.renderer || "svg" });
      drawn.set(element, chart);
    }
    make(chart, element);
    element.dataset.drawn = "yes";
  };
  const drawAll = () => document.querySelectorAll("[data-chart]").forEach(draw);

  const resize = (width) => {
    for (const chart of drawn.values()) chart.resize(width ? { width } : undefined);
  };
  let waiting = 0;
  addEventListener("resize", () => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => { resize(); drawAll(); });
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  document.addEventListener("themechange", drawAll);
  // a chart in closed details has no size until they open
  document.addEventListener("toggle", drawAll, true);
  addEventListener("DOMContentLoaded", drawAll);
  addEventListener("beforeprint", () => resize(600));
  addEventListener("afterprint", () => resize());

  const chartOf = (element) => drawn.get(element);
  return { charts, data, color, unpack, hidden, shown, theme, base, axis, slider, escape, seconds, draw,
    drawAll, chartOf };
})();
