// Shares of flows that are done after a time, with their median and 99th percentile.
"use strict";
lightloom.charts.distribution = (chart, element) => {
  const { data, theme, base, axis, color } = lightloom;
  const t = theme(), { axis: name, points, quantiles } = data.distributions[element.dataset.of];
  const marks = Object.entries(quantiles).map(([label, value]) => ({
    xAxis: value, name: label,
    label: { formatter: `${label} ${value.toPrecision(4)}`, color: t.ink, position: "end", rotate: 0,
      align: label === "p50" ? "center" : "right" },
  }));
  chart.setOption({
    ...base(),
    grid: { left: 56, right: 24, top: 26, bottom: 78 },
    tooltip: { ...base().tooltip, trigger: "axis", formatter: ([item]) =>
      `${item.data[1].toPrecision(4)} % of flows within ${item.data[0].toPrecision(5)}` },
    xAxis: { ...axis(name), type: "value", min: "dataMin", max: "dataMax",
      axisLabel: { color: t.soft, hideOverlap: true, formatter: (v) => +v.toPrecision(5) } },
    yAxis: { ...axis("flows [%]", { nameGap: 38 }), type: "value", min: 0, max: 100 },
    dataZoom: [{ type: "inside", zoomOnMouseWheel: "ctrl", filterMode: "none" },
      { type: "slider", height: 18, bottom: 8, filterMode: "none", borderColor: t.line,
        textStyle: { color: t.soft }, labelFormatter: (v) => +v.toPrecision(4) }],
    series: [{
      type: "line", step: "end", symbol: "none", data: points, lineStyle: { color: color("--f0"), width: 2 },
      itemStyle: { color: color("--f0") },
      markLine: { silent: true, symbol: "none", data: marks, lineStyle: { color: t.soft, type: "dashed" } },
    }],
  }, { notMerge: true });
};
