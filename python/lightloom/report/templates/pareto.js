// Cost against speed: intervals, lines of equal speed per dollar, the front.
"use strict";
lightloom.charts.pareto = (chart, element) => {
  const { data, theme, base, axis, escape, shown, color } = lightloom;
  const t = theme(), of = element.dataset.of || "network";
  const all = data.pareto.points.filter((p) => shown(p.name));
  const cost = (p) => p[of] / data.pareto.usd_unit[of];
  const speed = (v) => v / data.pareto.speed_unit;
  const range = (values, room) => {
    const low = Math.min(...values), high = Math.max(...values);
    const wide = (high - low) * room || high * 0.1 || 1;
    return [Math.max(0, low - wide), high + wide];
  };
  const narrow = element.offsetWidth < 460;
  if (!all.length) { chart.clear(); return; }
  const [x0, x1] = range(all.map(cost), 0.22);
  const [y0, y1] = range(all.flatMap((p) => [speed(p.low), speed(p.high)]), 0.14);

  // slopes of the lines: round numbers of speed per k$ that cross the plot
  const perDollar = data.pareto.speed_unit / data.pareto.usd_unit[of] * 1000;
  const least = y0 / x1 * perDollar, most = y1 / Math.max(x0, x1 * 1e-3) * perDollar;
  const steps = [];
  for (let power = Math.floor(Math.log10(Math.max(least, 1e-9))); 10 ** power <= most; power++) {
    for (const m of [1, 1.5, 2, 3, 5, 7]) {
      const value = m * 10 ** power;
      if (value > least && value < most) steps.push(value);
    }
  }
  let lines = steps;
  if (lines.length < 2) {
    lines = [1, 2, 3].map((i) => +(least + (most - least) * i / 4).toPrecision(3));
  }
  while (lines.length > 5) lines = lines.filter((_, i) => i % 2 === 0);
  const iso = lines.map((value) => {
    const slope = value / perDollar;
    // a hair inside the plot, so that rounding does not put the number outside
    const start = [Math.max(x0, y0 / slope), 0];
    const end = [Math.min(x1 - (x1 - x0) / 1e4, (y1 - (y1 - y0) / 1e4) / slope), 0];
    start[1] = slope * start[0]; end[1] = slope * end[0];
    const top = end[0] < x1 - (x1 - x0) / 5e3;
    return {
      type: "line", silent: true, symbol: "none", z: 1, data: [start, end],
      lineStyle: { color: t.faint, width: 1, type: "dotted", opacity: 0.8 },
      endLabel: { show: false },
      markPoint: {
        silent: true, symbol: "circle", symbolSize: 0.01, data: [{ coord: end }],
        label: {
          show: true, formatter: `${value.toLocaleString("en", { maximumSignificantDigits: 3 })}`,
          position: top ? "top" : "right", distance: 3, color: t.soft, fontSize: 11,
        },
      },
    };
  });

  const front = all.slice().sort((a, b) => cost(a) - cost(b) || b.speed - a.speed);
  const corners = [];
  let best = -Infinity;
  for (const p of front) {
    if (p.speed <= best) continue;
    best = p.speed;
    corners.push([cost(p), speed(p.speed)]);
  }
  corners.push([x1, corners.at(-1)[1]]);
  const onFront = new Set(corners.map((c) => c.join()));

  const tip = (p) => {
    const value = 1000 * p.speed / p[of];
    const share = (p.speed / Math.max(...all.map((q) => q.speed)) - 1) * 100;
    return `<b>${escape(p.name)}</b><br>${Math.round(p.speed).toLocaleString("en")} ${data.pareto.pace_unit}`
      + ` (${Math.round(p.low).toLocaleString("en")} to ${Math.round(p.high).toLocaleString("en")})`
      + `${share < -0.05 ? `, ${share.toFixed(1)} %` : ""}<br>`
      + `$${Math.round(p[of]).toLocaleString("en")} of ${of}<br>`
      + `${value.toLocaleString("en", { maximumSignificantDigits: 4 })} ${data.pareto.pace_unit} per k$`
      + `${onFront.has([cost(p), speed(p.speed)].join()) ? "<br>on the Pareto front" : ""}`;
  };
  const whiskers = {
    type: "custom", silent: true, z: 2,
    data: all.map((p, i) => [cost(p), speed(p.low), speed(p.high), i]),
    encode: { x: 0, y: [1, 2] },
    renderItem: (_, api) => {
      const a = api.coord([api.value(0), api.value(1)]), b = api.coord([api.value(0), api.value(2)]);
      return { type: "line", shape: { x1: a[0], y1: a[1], x2: b[0], y2: b[1] },
        style: { stroke: color(`--f${all[api.value(3)].color}`), lineWidth: 2, opacity: 0.5 } };
    },
  };
  // names go where they hide neither another name nor a mark, tried from the nearest place on
  const room = { left: 56, right: 46, top: 26, bottom: 46 };
  const wide = element.offsetWidth - room.left - room.right;
  const high = element.offsetHeight - room.top - room.bottom;
  const at = (p) => [room.left + (cost(p) - x0) / (x1 - x0) * wide,
    room.top + (y1 - speed(p.speed)) / (y1 - y0) * high];
  const marks = all.map(at), placed = [];
  const overlap = (a, b) => Math.max(0, Math.min(a[2], b[2]) - Math.max(a[0], b[0]))
    * Math.max(0, Math.min(a[3], b[3]) - Math.max(a[1], b[1]));
  const places = [];
  for (const far of [0, 18, 36, 54, 72, 90]) {
    for (const rise of far ? [-far, far] : [0]) for (const side of [1, -1]) places.push([side, rise]);
  }
  const labels = all.map((p, i) => {
    const long = 7.4 * p.name.length + 4, [mx, my] = marks[i];
    let chosen = null, cheapest = Infinity;
    for (const [order, [side, rise]] of places.entries()) {
      const left = side > 0 ? mx + 11 : mx - 11 - long;
      const box = [left, my + rise - 8, left + long, my + rise + 8];
      let bad = order;
      for (const other of placed) bad += 50 * overlap(box, other);
      for (const m of marks) bad += 50 * overlap(box, [m[0] - 8, m[1] - 8, m[0] + 8, m[1] + 8]);
      if (box[0] < 2 || box[2] > element.offsetWidth - 2) bad += 5000;
      if (box[1] < 2 || box[3] > element.offsetHeight - room.bottom) bad += 2000;
      if (bad < cheapest) { cheapest = bad; chosen = { box, side, rise }; }
    }
    placed.push(chosen.box);
    return chosen;
  });
  const points = all.map((p, i) => ({
    type: "scatter", name: p.name, z: 4, symbol: `path://${p.mark}`, symbolSize: 15,
    itemStyle: { color: color(`--f${p.color}`), borderColor: t.paper, borderWidth: 1, opacity: 1 },
    data: [[cost(p), speed(p.speed)]],
    tooltip: { formatter: () => tip(p) },
    label: {
      show: true, formatter: p.name, color: t.ink, fontWeight: 600, fontSize: 13,
      textBorderColor: t.paper, textBorderWidth: 3, position: labels[i].side > 0 ? "right" : "left",
      offset: [0, labels[i].rise], distance: 5,
    },
  }));
  const leaders = {
    type: "custom", silent: true, z: 3, data: all.map((p, i) => [cost(p), speed(p.speed), i]),
    renderItem: (_, api) => {
      const label = labels[api.value(2)], a = api.coord([api.value(0), api.value(1)]);
      if (Math.abs(label.rise) < 24) return null;
      return { type: "line", style: { stroke: t.faint, lineWidth: 1 },
        shape: { x1: a[0], y1: a[1], x2: a[0] + label.side * 9, y2: a[1] + label.rise } };
    },
  };
  chart.setOption({
    ...base(),
    grid: room,
    xAxis: { ...axis(`cost of the ${of} [${data.pareto.usd_name[of]}]`), type: "value", min: x0, max: x1,
      axisLabel: { color: t.soft, hideOverlap: true, showMinLabel: false, showMaxLabel: false },
      splitNumber: narrow ? 3 : 5, splitLine: { show: false } },
    yAxis: { ...axis(data.pareto.speed_name, { nameGap: 42 }), type: "value", min: y0, max: y1,
      axisLabel: { color: t.soft, showMinLabel: false, showMaxLabel: false },
      splitLine: { show: false } },
    series: [
      ...iso,
      { type: "line", step: "end", silent: true, symbol: "none", z: 1, data: corners,
        lineStyle: { color: t.soft, type: "dashed", width: 1.5 } },
      whiskers, leaders, ...points,
    ],
  }, { notMerge: true });
};

addEventListener("DOMContentLoaded", () => {
  for (const choice of document.querySelectorAll("[data-pareto-of]")) {
    choice.addEventListener("change", () => {
      const element = document.querySelector("[data-chart=pareto]");
      element.dataset.of = choice.value;
      lightloom.draw(element);
    });
  }
});
