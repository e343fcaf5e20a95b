// Three views of the rows: points (in facets), a heat map, parallel coordinates.
"use strict";
lightloom.views = (() => {
  const { theme, base, axis, escape, color } = lightloom, rows = lightloom.rows;
  const MOST_FACETS = 12, MOST_LINES = 1500, MOST_CELLS = 40, LARGE = 4000;
  const scale = ["--f9", "--f0", "--f2", "--f3"];

  const tip = (row) => {
    const parts = rows.columns.filter((c) => c.input || c.shown);
    return parts.map((c) => `${escape(c.label)}: <b>${escape(rows.text(c.name, row))}</b>`).join("<br>");
  };

  // colors of what a column tells apart: those of fabrics are the same on every page
  const colorOf = (name, found) => {
    const column = rows.byName.get(name);
    const known = column.colors?.[found];
    if (known !== undefined) return color(`--f${known}`);
    return color(`--s${rows.distinct(name, rows.all).indexOf(found) % 10}`);
  };

  const visual = (name, dimension, t) => {
    const found = rows.kept().map((row) => rows.raw(name, row)).filter((v) => v !== null);
    const low = found.reduce((a, b) => Math.min(a, b), Infinity);
    const high = found.reduce((a, b) => Math.max(a, b), -Infinity);
    return {
      type: "continuous", dimension, min: found.length ? low : 0, max: high > low ? high : low + 1,
      calculable: true, orient: "horizontal", left: "center", bottom: 4, itemHeight: 160, itemWidth: 12,
      precision: 4, inRange: { color: scale.map(color) }, textStyle: { color: t.soft },
      formatter: (v) => String(+v.toPrecision(4)),
    };
  };

  const line = (name, isLog, t) => {
    const column = rows.byName.get(name);
    if (rows.isNumber(name)) {
      return axis(column.label, { type: isLog ? "log" : "value", scale: true, nameGap: 32,
        axisLabel: { color: t.soft, hideOverlap: true, formatter: (v) => String(+v.toPrecision(4)) } });
    }
    const names = rows.distinct(name).map((found) => rows.label(name, found));
    return axis(column.label, { type: "category", data: names, nameGap: 32 });
  };

  const scatter = (chart, element, s) => {
    const t = theme(), facets = s.facet ? rows.distinct(s.facet).slice(0, MOST_FACETS) : [null];
    const narrow = element.offsetWidth < 560;
    const across = facets.length === 1 ? 1 : narrow ? 1 : Math.ceil(Math.sqrt(facets.length));
    const down = Math.ceil(facets.length / across);
    const byNumber = s.color && rows.isNumber(s.color);
    const option = { ...base(), grid: [], xAxis: [], yAxis: [], title: [], series: [] };
    const legend = new Set(), top = 34, below = byNumber ? 64 : 40;
    facets.forEach((facet, place) => {
      const width = 100 / across, high = (element.offsetHeight - top - below) / down;
      const left = `${(place % across) * width}%`;
      option.grid.push({ left: `${(place % across) * width + (narrow ? 16 : 100 / across > 60 ? 7 : 5)}%`,
        top: top + Math.floor(place / across) * high + 20, width: `${width - (narrow ? 20 : across > 1 ? 7 : 10)}%`,
        height: Math.max(40, high - 70) });
      option.xAxis.push({ ...line(s.x, s.logX, t), gridIndex: place });
      option.yAxis.push({ ...line(s.y, s.logY, t), gridIndex: place, nameGap: 46 });
      if (facet !== null) {
        option.title.push({ text: `${rows.byName.get(s.facet).label} ${rows.label(s.facet, facet)}`, left,
          top: top + Math.floor(place / across) * high - 6, textStyle: { color: t.ink, fontSize: 12.5 } });
      }
      const mine = rows.kept().filter((row) => (facet === null || rows.raw(s.facet, row) === facet)
        && rows.raw(s.x, row) !== null && rows.raw(s.y, row) !== null
        && (!s.logX || rows.raw(s.x, row) > 0) && (!s.logY || rows.raw(s.y, row) > 0));
      const at = (row) => [rows.value(s.x, row), rows.value(s.y, row),
        byNumber ? rows.raw(s.color, row) : null, row];
      const groups = !s.color || byNumber ? [null] : rows.distinct(s.color);
      for (const group of groups) {
        const own = group === null ? mine : mine.filter((row) => rows.raw(s.color, row) === group);
        const name = group === null ? "rows" : rows.label(s.color, group);
        if (group !== null) legend.add(name);
        option.series.push({
          type: "scatter", name, xAxisIndex: place, yAxisIndex: place, data: own.map(at),
          symbolSize: own.length > 1000 ? 5 : 8, large: own.length > LARGE, largeThreshold: LARGE,
          itemStyle: { opacity: own.length > 1000 ? 0.6 : 0.85,
            ...(byNumber ? {} : { color: group === null ? color("--f0") : colorOf(s.color, group) }) },
          tooltip: { formatter: (p) => tip(p.value[3]) },
        });
      }
      if (s.front && rows.isNumber(s.x) && rows.isNumber(s.y)) {
        const best = rows.front(mine, s.x, s.y, s.signX, s.signY);
        option.series.push({ type: "line", name: "front", xAxisIndex: place, yAxisIndex: place, z: 1,
          symbol: "circle", symbolSize: 12, silent: true, step: s.signX * s.signY < 0 ? "end" : "start",
          itemStyle: { color: "transparent", borderColor: t.ink, borderWidth: 1.5 },
          lineStyle: { color: t.soft, type: "dashed", width: 1.5 }, data: best.map(at) });
        element.dataset.front = String(best.length);
      }
      if (s.selected !== null && mine.includes(s.selected)) {
        option.series.push({ type: "scatter", name: "selected", xAxisIndex: place, yAxisIndex: place, z: 9,
          silent: true, symbolSize: 18, data: [at(s.selected)],
          itemStyle: { color: "transparent", borderColor: color("--accent"), borderWidth: 3 } });
      }
    });
    if (byNumber) {
      option.visualMap = { ...visual(s.color, 2, t), seriesIndex: option.series
        .map((series, i) => series.name === "rows" ? i : -1).filter((i) => i >= 0) };
    }
    option.legend = { show: legend.size > 0, type: "scroll", top: 0, data: [...legend],
      textStyle: { color: t.soft }, inactiveColor: t.faint };
    option.tooltip = { ...option.tooltip, trigger: "item" };
    chart.setOption(option, { notMerge: true });
  };

  // numbers that are too many for cells are put into as many bins
  const cells = (name) => {
    const found = rows.distinct(name);
    if (!rows.isNumber(name) || found.length <= MOST_CELLS) {
      const place = new Map(found.map((v, i) => [v, i]));
      return { names: found.map((v) => rows.label(name, v)), of: (row) => place.get(rows.raw(name, row)) };
    }
    const low = found[0], wide = (found.at(-1) - low) / 24;
    const names = [...Array(24).keys()].map((i) => String(+(low + (i + 0.5) * wide).toPrecision(3)));
    return { names, of: (row) => Math.min(23, Math.floor((rows.raw(name, row) - low) / wide)) };
  };

  const heat = (chart, element, s) => {
    const t = theme(), x = cells(s.x), y = cells(s.y);
    const of = s.color && rows.isNumber(s.color) ? s.color : s.measure;
    const sums = new Map();
    for (const row of rows.kept()) {
      const found = rows.raw(of, row), i = x.of(row), j = y.of(row);
      if (found === null || i === undefined || j === undefined) continue;
      const key = `${i},${j}`, sum = sums.get(key) || [i, j, 0, 0];
      sum[2] += found; sum[3] += 1; sums.set(key, sum);
    }
    const data = [...sums.values()].map(([i, j, sum, count]) => [i, j, sum / count, count]);
    const found = data.map((d) => d[2]);
    const low = Math.min(...found), high = Math.max(...found);
    element.dataset.cells = String(data.length);
    chart.setOption({
      ...base(), grid: { left: 90, right: 24, top: 34, bottom: 96 },
      title: { text: `mean ${rows.byName.get(of).label}`, left: 0, textStyle: { color: t.ink, fontSize: 13 } },
      xAxis: { ...axis(rows.byName.get(s.x).label), type: "category", data: x.names },
      yAxis: { ...axis(rows.byName.get(s.y).label, { nameGap: 66 }), type: "category", data: y.names },
      visualMap: { ...visual(of, 2, t), min: data.length ? low : 0, max: high > low ? high : low + 1 },
      series: [{ type: "heatmap", data, itemStyle: { borderColor: t.paper, borderWidth: 1 },
        tooltip: { formatter: (p) => `${escape(x.names[p.value[0]])}, ${escape(y.names[p.value[1]])}<br>`
          + `mean ${escape(rows.byName.get(of).label)}: <b>${+p.value[2].toPrecision(5)}</b> of ${p.value[3]} rows` } }],
    }, { notMerge: true });
  };

  const parallel = (chart, element, s) => {
    const t = theme(), narrow = element.offsetWidth < 560;
    const names = [...new Set([...rows.columns.filter((c) => c.input).map((c) => c.name), s.y])]
      .filter((name) => rows.distinct(name, rows.all).length > 1).slice(-(narrow ? 5 : 10));
    const step = Math.max(1, Math.ceil(rows.kept().length / MOST_LINES));
    const drawn = rows.kept().filter((_, i) => i % step === 0);
    const byNumber = s.color && rows.isNumber(s.color);
    const groups = !s.color || byNumber ? [null] : rows.distinct(s.color);
    const option = {
      ...base(), legend: { show: groups[0] !== null, top: 0, type: "scroll", textStyle: { color: t.soft } },
      parallel: { left: 50, right: 70, top: 70, bottom: byNumber ? 70 : 30 },
      parallelAxis: names.map((name, dim) => ({
        dim, name: rows.byName.get(name).label, nameTextStyle: { color: t.ink, fontSize: 11 },
        nameRotate: narrow ? 30 : 0, nameTruncate: { maxWidth: 130 },
        ...(rows.isNumber(name) ? { type: "value", scale: true }
          : { type: "category", data: rows.distinct(name).map((v) => rows.label(name, v)) }),
        axisLine: { lineStyle: { color: t.faint } }, axisLabel: { color: t.soft, hideOverlap: true },
      })),
      series: groups.map((group) => ({
        type: "parallel", name: group === null ? "rows" : rows.label(s.color, group), smooth: false,
        lineStyle: { width: 1, opacity: drawn.length > 300 ? 0.25 : 0.6,
          ...(byNumber ? {} : { color: group === null ? color("--f0") : colorOf(s.color, group) }) },
        data: drawn.filter((row) => group === null || rows.raw(s.color, row) === group)
          .map((row) => [...names.map((name) => rows.value(name, row)), byNumber ? rows.raw(s.color, row) : null]),
      })),
    };
    if (byNumber) option.visualMap = visual(s.color, names.length, t);
    element.dataset.axes = names.join();
    chart.setOption(option, { notMerge: true });
  };

  return { scatter, heat, parallel };
})();
