// Reads region.json again and again. What it says is put in as text, never as markup.
(() => {
  const everyMs = JSON.parse(document.getElementById("data").textContent).every_s * 1000;
  const patienceMs = 4 * everyMs;
  const shown = document.getElementById("warnings");
  let last = null, lastAt = 0, failed = "", timer = 0;

  const element = (name, text = "", className = "") => {
    const made = document.createElement(name);
    if (text instanceof Node) made.append(text);
    else made.textContent = text;
    if (className) made.className = className;
    return made;
  };
  const time = (at) => new Date(at * 1000).toISOString().slice(0, 19).replace("T", " ");
  const age = (s) => {
    if (s < 0) return "0 s";
    for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60]]) {
      if (s >= 2 * size) return `${Math.floor(s / size)} ${unit}`;
    }
    return `${Math.floor(s)} s`;
  };
  const bytes = (number) => {
    const units = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    let place = 0;
    while (number >= 1000 && place < units.length - 1) { number /= 1000; place++; }
    return `${place ? number.toPrecision(3) : number} ${units[place]}`;
  };
  const things = (number, name) => `${number} ${name}${number === 1 ? "" : "s"}`;
  const cause = (reason) => [
    reason.job === null ? "" : `job ${reason.job}`, reason.step === null ? "" : `step ${reason.step}`,
    reason.layer === null ? "" : `layer ${reason.layer}`, reason.why,
  ].filter(Boolean).join("; ");

  // columns are [name, class]; cells are texts, or [text, class]
  const table = (columns, rows) => {
    const made = element("table"), head = made.createTHead().insertRow(), body = made.createTBody();
    for (const [name, className] of columns) {
      const cell = element("th", name, className);
      cell.scope = "col";
      head.append(cell);
    }
    for (const cells of rows) {
      const row = body.insertRow();
      cells.forEach((cell, number) => {
        const [text, className] = Array.isArray(cell) ? cell : [cell, columns[number][1]];
        row.append(element(number ? "td" : "th", text, className));
      });
    }
    const scroll = element("div", made, "scroll");
    scroll.tabIndex = 0;
    return scroll;
  };
  const fill = (id, ...parts) => {
    const section = document.getElementById(id);
    const scroll = section.querySelector(".scroll")?.scrollLeft ?? 0;
    section.hidden = false;
    section.querySelector(".body").replaceChildren(...parts);
    const now = section.querySelector(".scroll");
    if (now) now.scrollLeft = scroll;
  };
  const note = (text) => element("p", text, "note");

  const circuits = (region) => {
    const rows = [...region.circuits].sort((a, b) => (a.state === "lit") - (b.state === "lit"));
    if (!rows.length) return fill("circuits", note("No circuits."));
    fill("circuits", table(
      [["circuit", "place"], ["state", ""], ["NICs", ""], ["switch ports", "place"],
        ["since", "time"], ["change", "number"], ["loss", "number"], ["grown by", "number"], ["light", ""]],
      rows.map((circuit) => {
        const losses = circuit.light.map((light) => light.loss_db).filter((loss) => loss !== null);
        const grown = circuit.light.map((light) => light.growth_db).filter((growth) => growth !== null);
        const poor = circuit.light.find((light) => ["dark", "lossy", "weak"].includes(light.verdict));
        return [
          circuit.circuit,
          [circuit.state, circuit.state === "lit" ? "good" : "bad"],
          circuit.ends.map((end) => `${end.server} NIC ${end.nic}`).join(" – "),
          circuit.light.map((light) => light.cross_connect).join(", "),
          circuit.since === null ? "not known" : `${time(circuit.since)} (${age(region.at - circuit.since)})`,
          circuit.change === null ? "" : String(circuit.change),
          losses.length ? `${Math.max(...losses).toFixed(1)} dB` : "not measured",
          grown.length ? `${Math.max(...grown).toFixed(1)} dB` : "",
          poor ? [poor.verdict, "bad"] : (circuit.state === "lit" && circuit.light.at(-1)?.verdict) || "",
        ];
      }),
    ));
  };
  const demand = (region) => {
    const seen = region.demand;
    if (!seen) return fill("demand", note("No demand since the service began."));
    const facts = [
      `${time(seen.at)} (${age(region.at - seen.at)} ago)`, seen.who, cause(seen),
      things(seen.all_to_alls, "all-to-all"), seen.bytes === null ? "" : bytes(seen.bytes),
      seen.result || "is being served",
    ];
    const rows = seen.pairs.map((pair) => [
      pair.servers.join(" – "), bytes(pair.bytes), String(pair.circuits),
    ]);
    const parts = [element("p", facts.filter(Boolean).join("; "))];
    if (rows.length) {
      parts.push(table([["servers", ""], ["both directions", "number"], ["circuits now", "number"]], rows));
    }
    fill("demand", ...parts);
  };
  const changes = (region) => {
    if (!region.changes.length) return fill("changes", note("No change so far."));
    fill("changes", table(
      [["change", "place"], ["result", ""], ["why", "why"], ["at", "time"], ["by", ""], ["kind", ""],
        ["created", "number"], ["deleted", "number"], ["took", "number"]],
      region.changes.map((change) => [
        String(change.change),
        [change.result, ["done", "unchanged", "recovered-done"].includes(change.result) ? "" : "bad"],
        [cause(change), ...Object.entries(change.failed).map(([place, text]) => `${place}: ${text}`)]
          .filter(Boolean).join("; "),
        time(change.at), change.who, change.kind, String(change.created), String(change.deleted),
        `${(change.seconds * 1000).toFixed(1)} ms`,
      ]),
    ));
  };
  const rest = (region) => {
    fill("alarms", region.alarms.length
      ? table([["where", ""], ["what", ""]], region.alarms.map((alarm) => [alarm.place, [alarm.text, "bad"]]))
      : note("None."));
    fill("switches", table(
      [["switch", ""], ["model", ""], ["ports", "place"], ["serial", ""], ["software", ""], ["power and fans", ""], ["answers", ""]],
      region.switches.map((ocs) => [
        ocs.name, ocs.model, ocs.size ? ocs.size.join("x") : "", ocs.serial, ocs.software,
        [ocs.equipment.map((part) => part.says).join(", ") || "not said",
          ocs.equipment.some((part) => part.problem) ? "bad" : ""],
        ocs.problem ? [ocs.problem, "bad"] : "yes",
      ]),
    ));
    fill("members", region.members.length
      ? table(
        [["client", "place"], ["name", ""], ["role", ""], ["from", ""], ["server", "number"], ["answers", ""]],
        region.members.map((client) => [
          String(client.number), client.client, client.role, client.peer, client.server === null ? "" : String(client.server),
          client.hung ? ["no", "bad"] : "yes",
        ]))
      : note("Nobody is connected."));
  };

  const warningsOf = (region) => {
    const { drift, state, unreachable } = region.region;
    const lines = [];
    if (state === "unknown") lines.push(["State unknown", "nobody knows what the switches hold; the job uses the packet network"]);
    if (region.is_old) lines.push(["Old reading", `the switches were last read ${age(region.age_s)} ago`]);
    for (const [name, problem] of Object.entries(unreachable)) lines.push([`${name} does not answer`, problem]);
    for (const [words, list] of [["missing", drift.missing], ["of somebody else", [...drift.extra, ...drift.strangers]]]) {
      if (list.length) lines.push(["Drift", `${things(list.length, "circuit")} ${words}: ${list.slice(0, 6).join(", ")}`]);
    }
    if (region.paused) lines.push(["Paused", `by ${region.paused}`]);
    if (region.drained.length) lines.push(["Out of service", region.drained.join(", ")]);
    if (region.journal_problem) lines.push(["Journal", region.journal_problem]);
    return lines;
  };
  const show = () => {
    const lines = last ? warningsOf(last) : [];
    if (failed) {
      const since = last ? ` What is shown is ${age((Date.now() - lastAt) / 1000)} old.` : "";
      lines.unshift(["The service does not answer", `${failed}.${since}`]);
    }
    document.body.classList.toggle("stale", Boolean(failed));
    const text = JSON.stringify(lines);
    if (shown.dataset.text !== text) {
      shown.dataset.text = text;
      shown.replaceChildren(...lines.map(([head, rest]) => {
        const line = element("p", element("b", head));
        line.append(rest);
        return element("div", line, "warning");
      }));
    }
    if (!last) return;
    const lit = last.circuits.filter((circuit) => circuit.state === "lit").length;
    const state = failed ? "does not answer" : last.region.state;
    const alarms = last.alarms.length ? `, ${things(last.alarms.length, "alarm")}` : "";
    document.getElementById("state").textContent =
      `${last.region.name}: ${state}; ${lit} of ${things(last.circuits.length, "circuit")} lit${alarms}`;
    document.title = `${failed || lines.length || alarms ? "! " : ""}${last.region.name}: ${state}`;
    document.getElementById("read").textContent = failed ? "" :
      `switches read ${last.age_s < 1 ? "less than 1 s" : age(last.age_s)} before ${time(last.at)}`;
  };
  const draw = () => {
    // what somebody is copying stays as it is
    if (getSelection().isCollapsed) [rest, circuits, demand, changes].forEach((part) => part(last));
    show();
  };
  const poll = async () => {
    clearTimeout(timer);
    try {
      const response = await fetch("region.json", { cache: "no-store", signal: AbortSignal.timeout(patienceMs) });
      failed = response.ok ? "" : `it says ${response.status}`;
      if (response.ok) {
        last = await response.json();
        lastAt = Date.now();
      }
    } catch (error) {
      failed = error.name === "TimeoutError" ? `no reply within ${patienceMs / 1000} s` : "no connection";
    }
    timer = setTimeout(poll, everyMs);
    if (!failed) draw();
    else show();
  };
  document.addEventListener("visibilitychange", () => document.hidden || poll());
  poll();
})();
