// Shares of flows that are done after a time, with their median and 99th percentile.
"use strict";
lightloom.charts.distribution = (chart, element) => {
  const { data, theme, base, axis, slider, color } = lightloom;
  const t = theme(), of = element.dataset.of, own = data.distributions[of];
  const { axis: name, quantiles } = own;
  const runs = [data.distributions, ...(data.runs ?? []), ...(data.others ?? [])];
  // the axis ends at the last flow, rounded: a line at its very end might not be drawn
  const [[first], [last]] = [own.points[0], own.points.at(-1)];
  const end = last - 2e-3 * (last - first);
  const marks = Object.entries(quantiles).map(([label, value]) => ({
    xAxis: Math.min(value, end), name: label,
    label: { formatter: `${label} ${value.toPrecision(4)}`, color: t.ink, position: "end", rotate: 0,
      align: label === "p50" ? "center" : "right" },
  }));
  chart.setOption({
    ...base(),
    grid: { left: 56, right: 24, top: runs.length > 1 ? 52 : 26, bottom: 78 },
    tooltip: { ...base().tooltip, trigger: "axis", formatter: (items) => items.map(({ data: [x, y], seriesName, marker }) =>
      `${runs.length > 1 ? `${marker}${lightloom.escape(seriesName)}: ` : ""}${y.toPrecision(4)} % of flows within ${x.toPrecision(5)}`).join("<br>") },
    xAxis: { ...axis(name), type: "value", min: "dataMin", max: "dataMax",
      axisLabel: { color: t.soft, hideOverlap: true, showMinLabel: false, showMaxLabel: false, formatter: (v) => +v.toPrecision(5) } },
    yAxis: { ...axis("flows [%]", { nameGap: 38 }), type: "value", min: 0, max: 100 },
    dataZoom: [{ type: "inside", zoomOnMouseWheel: "ctrl", filterMode: "none" },
      { type: "slider", height: 18, bottom: 8, filterMode: "none", ...slider(),
        textStyle: { color: t.soft }, labelFormatter: (v) => +v.toPrecision(4) }],
    legend: runs.length > 1 ? { top: 0, textStyle: { color: t.soft }, type: "scroll" } : undefined,
    series: runs.map((run, i) => ({
      type: "line", step: "end", symbol: "none", name: run.name,
      data: run[of].points.map(([x, y]) => [x * run[of].unit / own.unit, y]),
      lineStyle: { color: color(`--s${i % 10}`), width: 2 }, itemStyle: { color: color(`--s${i % 10}`) },
      markLine: i || data.runs ? undefined
        : { silent: true, symbol: "none", data: marks, lineStyle: { color: t.soft, type: "dashed" } },
    })),
  }, { notMerge: true });
};

// other runs are read from their pages, which hold the same numbers
document.getElementById("other-runs")?.addEventListener("change", async (event) => {
  const { data, drawAll } = lightloom;
  data.others = [];
  for (const file of event.target.files) {
    const page = new DOMParser().parseFromString(await file.text(), "text/html");
    const found = JSON.parse(page.getElementById("chart-data")?.textContent ?? "{}").distributions;
    event.target.setCustomValidity(found ? "" : `${file.name} is no page of a packet simulation`);
    event.target.reportValidity();
    if (found) data.others.push({ ...found, name: `${file.name}: ${found.name}` });
  }
  drawAll();
});
