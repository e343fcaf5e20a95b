// The step of one fabric: a lane per pipeline stage, circuits below. Zoomed out it shows passes of
// micro-batches, zoomed in every span.
"use strict";
(() => {
  const MAX_VISIBLE = 4000;
  const element = document.querySelector("[data-chart=timeline]");
  if (!element) return;
  const { charts, data, color, unpack, theme, base, axis, slider, escape, seconds, draw, chartOf } = lightloom;
  const all = data.timelines, words = Object.entries(data.words);
  const select = document.getElementById("timeline-fabric");
  const legend = document.getElementById("timeline-legend");
  const off = new Set(), decoded = new Map();
  let view = all[0], now = null, range = null, coarse = true;

  const decode = async (timeline) => {
    if (decoded.has(timeline.name)) return decoded.get(timeline.name);
    const open = async (columns) => {
      const entries = Object.entries(columns).filter(([, text]) => typeof text === "string");
      const found = Object.fromEntries(await Promise.all(
        entries.map(async ([name, text]) => [name, await unpack(text)])));
      // starts are kept as pauses since the end before
      found.start = found.pause;
      for (let i = 1; i < found.start.length; i++) {
        found.start[i] += found.start[i - 1] + found.length[i - 1];
      }
      return found;
    };
    const found = {
      spans: await open(timeline.spans), passes: await open(timeline.passes),
      circuits: timeline.circuits ? await open(timeline.circuits) : null,
    };
    decoded.set(timeline.name, found);
    return found;
  };

  // a fill of stripes in a color, for time that is waited
  const hatch = (ink, paper) => {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 6;
    const pen = tile.getContext("2d");
    pen.fillStyle = paper; pen.fillRect(0, 0, 6, 6);
    pen.strokeStyle = ink; pen.lineWidth = 1.6;
    for (const shift of [-6, 0, 6]) {
      pen.beginPath(); pen.moveTo(shift, 6); pen.lineTo(shift + 6, 0); pen.stroke();
    }
    return { image: tile, repeat: "repeat" };
  };
  const style = (name) => color(`--${name.replace("_", "-")}`);

  // rectangles of the visible part: [lane, start, end, kind, number, share of the lane's height]
  const rectangles = () => {
    const { spans, passes, circuits } = now, unit = view.unit_s;
    const [from, to] = range, tiny = (to - from) / 3000, rows = [];
    const visible = [];
    const has = spans.start.length;
    for (let i = 0; i < has; i++) {
      const start = spans.start[i] * unit, end = start + spans.length[i] * unit;
      if (end > from && start < to && end - start > tiny) visible.push(i);
    }
    const first = has ? Math.min(...view.kept) : 0, last = has ? Math.max(...view.kept) : 0;
    const whole = from >= first - 1e-12 && to <= last + 1e-12;
    coarse = visible.length > MAX_VISIBLE || (!whole && passes.start.length > 0 && to - from > last - first);
    if (coarse) {
      for (let i = 0; i < passes.start.length; i++) {
        const start = passes.start[i] * unit, end = start + passes.length[i] * unit;
        if (end > from && start < to && !off.has(passes.backward[i] ? "backward" : "forward")) {
          rows.push([passes.lane[i], start, end, 1, i]);
        }
      }
    }
    for (const i of visible) {
      const outside = spans.micro_batch[i] < 0 && spans.stream[i] === 0;
      const name = words[spans.category[i]][0];
      if ((coarse && (!outside || name === "bubble")) || off.has(name)) continue;
      const start = spans.start[i] * unit, end = start + spans.length[i] * unit;
      const together = start + spans.waited[i] * unit;
      const own = spans.stream[i] ? 2 : 0;
      if (name === "ep" && together > start) {
        if (!off.has("waited")) rows.push([spans.lane[i], start, together, 3 + own / 2, i]);
        if (end > together) rows.push([spans.lane[i], together, end, own, i]);
      } else rows.push([spans.lane[i], start, end, own, i]);
    }
    if (circuits) {
      for (let i = 0; i < circuits.start.length; i++) {
        const start = circuits.start[i] * unit, end = start + circuits.length[i] * unit;
        if (end > from && start < to) rows.push([view.lanes.length + circuits.row[i], start, end, 5, i]);
      }
    }
    return rows;
  };

  const describe = ([, start, end, kind, i]) => {
    const span = `${seconds(end - start)}, from ${seconds(start)}`;
    if (kind === 1) {
      const direction = now.passes.backward[i] ? "backward" : "forward";
      return `<b>micro-batch ${now.passes.micro_batch[i]}, ${direction}</b><br>${span}`;
    }
    if (kind === 5) {
      const count = now.circuits.count[i];
      return `<b>servers ${escape(view.circuits.pairs[now.circuits.row[i]])}</b><br>`
        + `${count} circuit${count > 1 ? "s" : ""} up for ${span}`;
    }
    const { spans } = now;
    const title = kind >= 3 ? data.waited : words[spans.category[i]][1];
    const where = [];
    if (spans.layer[i] >= 0) where.push(`layer ${spans.layer[i]}`);
    if (spans.micro_batch[i] >= 0) where.push(`micro-batch ${spans.micro_batch[i]}`);
    if (spans.stream[i]) where.push("alongside");
    return `<b>${escape(title)}</b><br>${span}${where.length ? `<br>${where.join(", ")}` : ""}`;
  };

  const render = (fills, widest) => (params, api) => {
    const row = params.data ?? [0, 1, 2, 3, 4].map((k) => api.value(k));
    const [lane, start, end, kind, i] = row;
    const a = api.coord([start, lane]), b = api.coord([end, lane]);
    const band = api.size([0, 1])[1];
    const thin = kind === 2 || kind === 4;
    // passes that overlap share the height of their lane
    const half = kind === 1 && view.passes.overlap;
    const low = thin ? 0.58 : half && now.passes.backward[i] ? 0.4 : 0;
    const height = band * (thin ? 0.2 : half ? 0.38 : kind === 5 ? 0.72 : coarse ? 0.78 : 0.56);
    const top = a[1] - band * 0.39 + band * low;
    const area = params.coordSys;
    const shape = echarts.graphic.clipRectByRect(
      { x: a[0], y: top, width: Math.max(b[0] - a[0], 0.6), height },
      { x: area.x, y: area.y, width: area.width, height: area.height });
    if (!shape) return null;
    let fill, opacity = 1;
    if (kind === 1) {
      const odd = now.passes.micro_batch[i] % 2 ? "-odd" : "";
      fill = fills(now.passes.backward[i] ? `backward${odd}` : `forward${odd}`);
    } else if (kind === 5) {
      fill = fills("circuit");
      opacity = 0.25 + 0.75 * now.circuits.count[i] / widest;
    } else if (kind >= 3) fill = fills("waited");
    else fill = fills(words[now.spans.category[i]][0]);
    const text = kind === 1 && shape.width > 7 * String(now.passes.micro_batch[i]).length + 2
      ? String(now.passes.micro_batch[i]) : "";
    return {
      type: "rect", shape, style: { fill, opacity },
      ...(text ? { textContent: { style: { text, fill: "#10131a", fontSize: 10.5 } },
        textConfig: { position: "inside" } } : {}),
    };
  };

  // passes and spans are series of their own, so that none takes over what another has drawn
  const series = (renderItem) => {
    const rows = rectangles();
    return [{ id: coarse ? "passes" : "spans", type: "custom", data: rows, encode: { x: [1, 2], y: 0 },
      clip: true, renderItem, progressive: 0 }];
  };

  const makeFills = () => {
    const cache = new Map(), paper = color("--paper");
    return (name) => {
      if (!cache.has(name)) {
        cache.set(name, name === "waited" ? hatch(style("ep"), paper)
          : name === "straggler" ? hatch(style("bubble-ink"), paper)
          : name === "circuit" ? color(`--f${view.color}`) : style(name));
      }
      return cache.get(name);
    };
  };

  const time = () => {
    const wide = range[1] - range[0];
    const [unit, name] = wide > 2 ? [1, "s"] : wide > 2e-3 ? [1e-3, "ms"] : [1e-6, "us"];
    return { unit, name };
  };

  charts.timeline = (chart) => {
    if (!now) return;
    const t = theme(), fills = makeFills(), { unit, name } = time();
    const lanes = [...view.lanes, ...(view.circuits?.pairs ?? [])];
    const widest = now.circuits ? Math.max(1, ...now.circuits.count) : 1;
    const narrow = element.offsetWidth < 560;
    const digits = Math.max(0, Math.min(6, 2 - Math.floor(Math.log10((range[1] - range[0]) / unit))));
    chart.setOption({
      ...base(),
      grid: { left: narrow ? 56 : 72, right: 12, top: 8, bottom: 84 },
      tooltip: { ...base().tooltip, trigger: "item", formatter: (item) => describe(item.data) },
      xAxis: { ...axis(`time in the step [${name}]`), type: "value", min: 0, max: view.step_s,
        axisLabel: { color: t.soft, hideOverlap: true, formatter: (v) =>
          (v / unit).toLocaleString("en", { maximumFractionDigits: digits }) } },
      yAxis: { type: "category", data: lanes, inverse: true, axisTick: { show: false },
        axisLine: { show: false }, axisLabel: { color: t.soft, interval: 0,
          fontSize: lanes.length > 24 ? 10 : 12 } },
      dataZoom: [
        { type: "inside", xAxisIndex: 0, filterMode: "none", startValue: range[0], endValue: range[1],
          minValueSpan: view.step_s / 1e5, zoomOnMouseWheel: "ctrl", moveOnMouseMove: true,
          preventDefaultMouseMove: false },
        { type: "slider", xAxisIndex: 0, filterMode: "none", startValue: range[0], endValue: range[1],
          minValueSpan: view.step_s / 1e5, height: 22, bottom: 8, brushSelect: true, ...slider(),
          labelFormatter: (v) => seconds(v), textStyle: { color: t.soft },
          borderColor: t.line, fillerColor: "rgba(120,150,190,.18)" },
      ],
      series: series(render(fills, widest)),
    }, { notMerge: true });
    chart.off("datazoom");
    chart.on("datazoom", () => {
      const zoom = chart.getOption().dataZoom[0];
      range = [zoom.startValue ?? 0, zoom.endValue ?? view.step_s];
      cancelAnimationFrame(charts.timeline.waiting);
      charts.timeline.waiting = requestAnimationFrame(() => {
        const was = coarse;
        chart.setOption({ series: series(render(fills, widest)) }, { replaceMerge: ["series"] });
        if (was !== coarse) showLegend();
        element.dataset.detail = coarse ? "passes" : "spans";
      });
    });
    element.dataset.detail = coarse ? "passes" : "spans";
    element.dataset.fabric = view.name;
  };

  // keys switch what they name off and on
  const showLegend = () => {
    const keys = coarse
      ? [["forward", "forward of a micro-batch (its number)"], ["backward", "backward"],
        ...view.categories.filter((k) => ["dp", "optimizer"].includes(k)).map((k) => [k, data.words[k]])]
      : view.categories.map((k) => [k, data.words[k]]);
    if (!coarse && now.spans.waited.some((w) => w > 0)) {
      const place = keys.findIndex(([k]) => k === "ep") + 1;
      keys.splice(place, 0, ["waited", data.waited]);
    }
    legend.replaceChildren(...keys.map(([key, text]) => {
      const button = document.createElement("button");
      button.type = "button";
      button.setAttribute("aria-pressed", String(!off.has(key)));
      const swatch = document.createElement("i");
      swatch.className = `swatch ${key === "forward" || key === "backward" ? `pass ${key}` : `cat-${key}`}`;
      button.append(swatch, text);
      button.addEventListener("click", () => {
        if (!off.delete(key)) off.add(key);
        draw(element);
        showLegend();
        legend.querySelectorAll("button")[keys.findIndex(([k]) => k === key)].focus();
      });
      return button;
    }));
  };

  const zoom = (from, to) => {
    const wide = Math.min(to - from, view.step_s);
    const start = Math.max(0, Math.min(from, view.step_s - wide));
    range = [start, start + wide];
    draw(element);
    showLegend();
  };

  const show = async (name) => {
    const found = all.find((timeline) => timeline.name === name) ?? all[0];
    const keep = range && found !== view ? range.map((s) => s / view.step_s * found.step_s) : range;
    const columns = await decode(found);
    chartOf(element)?.clear();
    now = columns;
    view = found;
    const { start, length } = now.spans;
    view.kept = start.length ? [start[0] * view.unit_s, 0] : [0, 0];
    for (let i = 0; i < start.length; i++) {
      view.kept[0] = Math.min(view.kept[0], start[i] * view.unit_s);
      view.kept[1] = Math.max(view.kept[1], (start[i] + length[i]) * view.unit_s);
    }
    if (select) select.value = view.name;
    for (const text of document.querySelectorAll("[data-timeline-of]")) {
      text.hidden = text.dataset.timelineOf !== view.name;
    }
    element.style.height = `${view.lanes.length * 34 + (view.circuits?.pairs.length ?? 0) * 15 + 100}px`;
    chartOf(element)?.resize();
    range = keep ?? view.window_s ?? [0, view.step_s];
    draw(element);
    showLegend();
  };

  lightloom.timeline = { show, zoom };
  addEventListener("DOMContentLoaded", () => {
    select?.addEventListener("change", () => {
      show(select.value);
      history.replaceState(null, "", `#timeline-${encodeURIComponent(select.value)}`);
    });
    document.getElementById("timeline-whole").addEventListener("click", () => zoom(0, view.step_s));
    document.getElementById("timeline-detail").addEventListener("click", () => zoom(...view.window_s));
    element.tabIndex = 0;
    element.addEventListener("keydown", (event) => {
      const [from, to] = range, wide = to - from;
      const moves = {
        ArrowLeft: [from - wide / 4, to - wide / 4], ArrowRight: [from + wide / 4, to + wide / 4],
        "+": [from + wide / 4, to - wide / 4], "-": [from - wide / 2, to + wide / 2],
        Home: [0, view.step_s],
      };
      if (!moves[event.key]) return;
      event.preventDefault();
      zoom(...moves[event.key]);
    });
    const wanted = /^#timeline-(.+)$/.exec(location.hash);
    show(wanted ? decodeURIComponent(wanted[1]) : data.timelines_first).then(() => {
      document.dispatchEvent(new Event("settled"));
      if (wanted) document.getElementById("timeline").scrollIntoView({ behavior: "instant" });
    });
  });
})();
