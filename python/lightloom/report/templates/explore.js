// The controls of the explorer: which columns are where, filters, the chosen point, files.
"use strict";
(() => {
  const rows = lightloom.rows, at = (id) => document.getElementById(id);
  const given = lightloom.data.start;
  const state = { ...given, logX: false, logY: false, front: false, selected: null, ready: false };

  const numbers = rows.columns.filter((c) => c.kind === "number");
  const option = (value, text) => Object.assign(document.createElement("option"), { value, textContent: text });
  const fill = (id, columns, none) => {
    const select = at(id);
    if (none) select.append(option("", "none"));
    for (const column of columns) select.append(option(column.name, column.label));
    select.value = state[id] ?? "";
    select.addEventListener("change", () => { state[id] = select.value; betters(); draw(); });
  };
  // whether less or more of a column is better, until the reader says otherwise
  const betters = () => {
    for (const axis of ["x", "y"]) {
      const column = rows.byName.get(state[axis]);
      at(`better-${axis}`).value = column?.better || "less";
    }
    signs();
  };
  const signs = () => {
    state.signX = at("better-x").value === "more" ? 1 : -1;
    state.signY = at("better-y").value === "more" ? 1 : -1;
  };

  const draw = () => {
    state.view = at("view").value;
    lightloom.draw(at("plot"));
    at("count").textContent = `${rows.kept().length.toLocaleString("en")} of ${rows.count.toLocaleString("en")} rows`;
  };
  lightloom.charts.explore = (chart, element) => {
    if (!state.ready) return;
    lightloom.views[state.view](chart, element, state);
    if (element.dataset.bound) return;
    element.dataset.bound = "yes";
    chart.on("click", (p) => { if (p.seriesType === "scatter") choose(p.value[3]); });
  };

  const choose = (row) => {
    state.selected = row;
    at("point").hidden = row === null;
    if (row !== null) {
      const name = rows.byName.has("fabric") ? `, ${rows.text("fabric", row)}` : "";
      const number = rows.byName.has("point") ? rows.text("point", row) : String(row);
      at("point-title").textContent = `Point ${number}${name}`;
      at("point-command").hidden = !lightloom.data.command;
      at("command").textContent = `${lightloom.data.command} ${number}`;
      at("point-values").replaceChildren(...rows.columns.map((column) => {
        const item = document.createElement("div");
        item.append(Object.assign(document.createElement("dt"), { textContent: column.label }),
          Object.assign(document.createElement("dd"), { textContent: rows.text(column.name, row) }));
        return item;
      }));
    }
    draw();
  };

  const filterOf = (column) => {
    const box = document.createElement("fieldset"), legend = document.createElement("legend");
    legend.textContent = column.label;
    box.append(legend);
    if (column.kind === "number") {
      const found = rows.distinct(column.name, rows.all);
      const filter = { low: -Infinity, high: Infinity };
      for (const [end, text, most] of [["low", "from", found[0]], ["high", "to", found.at(-1)]]) {
        const input = Object.assign(document.createElement("input"), { type: "number", step: "any", placeholder: most });
        input.setAttribute("aria-label", `${column.label} ${text}`);
        input.addEventListener("input", () => {
          filter[end] = input.value === "" ? (end === "low" ? -Infinity : Infinity) : Number(input.value);
          if (filter.low === -Infinity && filter.high === Infinity) rows.filters.delete(column.name);
          else rows.filters.set(column.name, filter);
          rows.apply(); draw();
        });
        const label = document.createElement("label");
        label.append(text, input);
        label.className = "range";
        box.append(label);
      }
    } else {
      const off = new Set();
      for (const found of rows.distinct(column.name, rows.all)) {
        const input = Object.assign(document.createElement("input"), { type: "checkbox", checked: true });
        input.addEventListener("change", () => {
          if (input.checked) off.delete(found); else off.add(found);
          if (off.size) rows.filters.set(column.name, { off }); else rows.filters.delete(column.name);
          rows.apply(); draw();
        });
        const label = document.createElement("label");
        label.append(input, rows.label(column.name, found));
        box.append(label);
      }
    }
    return box;
  };

  const save = (name, address) => {
    const link = Object.assign(document.createElement("a"), { href: address, download: name });
    link.click();
  };

  const begin = async () => {
    await rows.load();
    rows.all = [...Array(rows.count).keys()];
    rows.apply();
    fill("x", rows.columns); fill("y", rows.columns);
    fill("color", rows.columns, true);
    fill("facet", rows.columns.filter((c) => rows.distinct(c.name, rows.all).length <= 12), true);
    state.measure = given.y || numbers[0]?.name;
    betters();
    state.logX = at("log-x").checked = Boolean(given.log_x);
    for (const [id, key] of [["log-x", "logX"], ["log-y", "logY"], ["front", "front"]]) {
      at(id).addEventListener("change", () => { state[key] = at(id).checked; draw(); });
    }
    for (const id of ["better-x", "better-y"]) at(id).addEventListener("change", () => { signs(); draw(); });
    at("view").addEventListener("change", draw);
    // filters of the inputs first, then of the rest
    const order = [...rows.columns.filter((c) => c.input), ...rows.columns.filter((c) => !c.input)];
    at("ranges").classList.add("controls");
    at("ranges").append(...order.filter((c) => c.kind === "number" || c.levels.length <= 40).map(filterOf));
    at("save-rows").addEventListener("click", () =>
      save("rows.csv", URL.createObjectURL(new Blob([rows.csv()], { type: "text/csv" }))));
    at("save-picture").addEventListener("click", () =>
      save("picture.png", lightloom.chartOf(at("plot")).getDataURL({ pixelRatio: 2, backgroundColor: lightloom.color("--paper") })));
    at("plot").addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (event.key === "Escape") choose(null);
      if (!step || !rows.kept().length) return;
      event.preventDefault();
      const order = rows.kept().slice().sort((a, b) => rows.raw(state.x, a) - rows.raw(state.x, b) || a - b);
      const place = order.indexOf(state.selected);
      choose(order[place < 0 ? 0 : (place + step + order.length) % order.length]);
    });
    state.ready = true;
    draw();
    at("plot").dataset.ready = "yes";
  };
  addEventListener("DOMContentLoaded", begin);
})();
