// Tips, sorting and the theme. The page can be read without any of it.
(() => {
  const tip = document.getElementById("tip");
  let x = -1, y = -1;  // where the pointer was last
  const show = () => {
    const target = document.elementFromPoint(x, y)?.closest("[data-tip]");
    tip.hidden = !target;
    if (!target) return;
    tip.textContent = target.dataset.tip;
    tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - tip.offsetWidth - 8)) + "px";
    tip.style.top = Math.max(4, y - tip.offsetHeight - 12) + "px";
  };
  const point = (event) => { x = event.clientX; y = event.clientY; show(); };
  addEventListener("pointermove", point);
  addEventListener("pointerdown", point);
  addEventListener("scroll", show, { passive: true });

  // what a cell is sorted by: its value, or the number that its text begins with
  const keyOf = (cell) => {
    if (!cell) return "";
    if (cell.dataset.sort !== undefined) return cell.dataset.sort;
    const text = (cell.firstChild?.nodeType === Node.TEXT_NODE ? cell.firstChild : cell).textContent.trim();
    const number = /^[-+]?[\d,]*\.?\d+(e[-+]?\d+)?/i.exec(text);
    return number ? number[0].replaceAll(",", "") : text;
  };
  for (const table of document.querySelectorAll("table")) {
    if (!table.tHead || table.tBodies[0].rows.length < 2) continue;
    table.classList.add("sortable");
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      if (head.classList.contains("plain")) return;
      const sort = () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const key = (row) => keyOf(row.cells[column]);
        const rows = [...table.tBodies[0].rows].sort((a, b) => {
          const x = key(a), y = key(b);
          const order = x === "" || y === "" || isNaN(x) || isNaN(y) ? x.localeCompare(y) : x - y;
          return down ? -order : order;
        });
        table.tBodies[0].append(...rows);
      };
      head.tabIndex = 0;
      head.addEventListener("click", sort);
      head.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        sort();
      });
    });
  }

  // fabrics are left out of tables, bars and plots alike
  for (const button of document.querySelectorAll("[data-filter]")) {
    button.hidden = false;
    button.addEventListener("click", () => {
      const off = lightloom.hidden, name = button.dataset.filter;
      if (!off.delete(name)) off.add(name);
      button.setAttribute("aria-pressed", String(!off.has(name)));
      for (const part of document.querySelectorAll("[data-fabric]")) {
        if (part.dataset.fabric === name && !part.dataset.chart) part.hidden = off.has(name);
      }
      lightloom.drawAll();
    });
  }

  for (const button of document.querySelectorAll("[data-copy]")) {
    button.hidden = !navigator.clipboard;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
      button.textContent = "copied";
    });
  }

  const undim = document.getElementById("undim");
  if (undim) {
    undim.hidden = false;
    undim.addEventListener("click", () => { document.body.classList.remove("misfit"); undim.hidden = true; });
  }

  // a link into closed details opens them
  const openTarget = () => {
    const target = !location.hash ? null : document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const closed = target?.closest("details");
    if (closed) closed.open = true;
    target?.scrollIntoView({ behavior: "instant" });
  };
  // what loads later moves what is below it
  document.addEventListener("settled", openTarget, { once: true });
  addEventListener("hashchange", openTarget);
  openTarget();

  // dollars per year under the reader's own assumptions
  const life = document.getElementById("life-years"), price = document.getElementById("usd-per-kwh");
  const own = () => {
    const years = Number(life.value), perKwh = Number(price.value);
    if (!(years > 0) || !(perKwh >= 0)) return;
    for (const row of document.querySelectorAll("#ownership-table tbody tr")) {
      const { networkUsd, clusterUsd, networkW, clusterW, days } = row.dataset;
      const kwh = (watts) => watts / 1000 * 365.25 * 24;
      const yearly = (usd, watts) => usd / years + kwh(watts) * perKwh;
      const values = [
        kwh(networkW) / 1000, kwh(networkW) * perKwh, yearly(networkUsd, networkW),
        yearly(clusterUsd, clusterW), yearly(clusterUsd, clusterW) * days / 365.25,
      ];
      values.forEach((value, i) => {
        const cell = row.cells[i + 1];
        cell.dataset.sort = value;
        cell.textContent = Math.round(value).toLocaleString("en");
      });
    }
  };
  life?.addEventListener("input", own);
  price?.addEventListener("input", own);

  const themes = ["", "light", "dark"];
  const button = document.getElementById("theme");
  let now = 0;
  const apply = () => {
    if (themes[now]) document.documentElement.dataset.theme = themes[now];
    else delete document.documentElement.dataset.theme;
    button.textContent = "theme: " + (themes[now] || "system");
    document.dispatchEvent(new Event("themechange"));
  };
  button.hidden = false;
  button.addEventListener("click", () => { now = (now + 1) % themes.length; apply(); });
  apply();

  // closed details are opened for paper
  addEventListener("beforeprint", () => {
    for (const part of document.querySelectorAll("details")) part.open = true;
  });
})();
