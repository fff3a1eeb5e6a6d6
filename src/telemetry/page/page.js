"use strict";
// Everything from the daemon is text: it goes into the page as text nodes and never as markup.
(() => {
  const $ = (id) => document.getElementById(id);
  // More servers than this, and those that are well stay folded up until somebody asks.
  const FOLD = 60;
  // Rows of one service drawn at once.
  const ROWS = 200;
  const CHANGES = 15;
  // Longer texts are cut; the whole one is in the tool tip.
  const LONG = 240;
  // Without a word for so long the connection is dead, whatever the browser says.
  const SILENCE = 40000;
  const UNSEEN = 60000;

  // What is known, as of the last message. Ages have become moments of this machine's clock.
  let pools = new Map();
  let facts = { name: "", kernel: {}, broken_checks: 0, dry_run: false, unserved: false, file: null, until: null, frozen: null };
  let recent = [];
  let counted = null;
  let sections = new Map();
  let allChanges = false;

  // As the command line does it: controls, and what has no picture but moves the text around it.
  const clean = (text) => String(text).replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, "?");
  function el(tag, name, ...children) {
    const node = document.createElement(tag);
    if (name) node.className = name;
    node.append(...children.filter((child) => child !== null && child !== ""));
    return node;
  }
  // bdi: right-to-left text from a server must not reorder what stands around it.
  function said(text) {
    const whole = clean(text);
    const node = el("bdi", "", whole.length > LONG ? whole.slice(0, LONG) + "…" : whole);
    if (whole.length > LONG) node.title = whole;
    return node;
  }
  const number = (n) => Number(n).toLocaleString("en");
  const count = (n, one) => number(n) + " " + one + (n === 1 ? "" : "s");
  function span(ms) {
    let left = Math.max(0, Math.round(ms / 1000));
    if (left < 1) return "0s";
    const parts = [];
    for (const [unit, size] of [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]]) {
      if (left >= size || parts.length) parts.push(Math.floor(left / size) + unit);
      left %= size;
      if (parts.length === 2) break;
    }
    return parts.filter((part) => !part.startsWith("0")).join(" ");
  }
  // A span that the clock below keeps up to date.
  function moment(at, kind) {
    const node = el("span", "");
    node.dataset.at = at;
    node.dataset.kind = kind;
    tell(node);
    return node;
  }
  function tell(node) {
    const off = Date.now() - Number(node.dataset.at);
    const text = node.dataset.kind === "left" ? span(-off) + " left" : span(off) + (node.dataset.kind === "ago" ? " ago" : "");
    if (node.textContent !== text) node.textContent = text;
  }
  function latency(us) {
    return us < 1000 ? us + "\u00a0µs" : us < 1e6 ? (us / 1000).toPrecision(us < 1e5 ? 2 : 3) + "\u00a0ms" : (us / 1e6).toFixed(1) + "\u00a0s";
  }
  function bytes(n) {
    const units = ["B", "kB", "MB", "GB", "TB"];
    let at = 0;
    while (n >= 1000 && at < units.length - 1) { n /= 1000; at += 1; }
    return (at && n < 10 ? n.toFixed(1) : Math.round(n)) + "\u00a0" + units[at];
  }
  const perSecond = (n) => (n >= 10 ? number(Math.round(n)) : String(Number(n.toFixed(1))));

  // -- what comes in -----------------------------------------------------------------------

  function datedNote(note, now) {
    if (!note) return;
    note.at = now - note.age_ms;
    note.until = note.left_ms === null || note.left_ms === undefined ? null : now + note.left_ms;
    datedNote(note.weight_note, now);
  }
  function dated(server, pool, now) {
    const { override, age_ms } = server;
    server.at = now - (override && override.order ? Math.min(age_ms, override.age_ms) : age_ms);
    datedNote(server.override, now);
    for (const check of server.checks) if (check.last) check.last.at = now - check.last.age_ms;
    server.state = stateOf(server);
    const over = server.override;
    server.hay = [pool.name, server.address, server.state.word, ...pool.services,
      ...server.checks.map((c) => c.kind + " " + (c.last ? c.last.detail : "")),
      server.kept ? "kept in the table by " + server.kept : "",
      over ? over.by + " " + (over.reason || "") : ""].join("\n").toLowerCase();
    return server;
  }
  // As `lvsd status` says it.
  function stateOf(server) {
    const fails = server.checks.some((c) => c.mode === "enforce" && !c.up);
    const doubts = server.checks.some((c) => !c.up || c.failures > 0);
    const order = server.override && server.override.order;
    const kept = Boolean(fails && server.kept);
    const byChecks = kept ? "DOWN, KEPT" : fails ? "DOWN" : server.missing ? "NOT INSTALLED" : server.installed ? "up" : "standby";
    const ordered = order === "drain" ? "drained" : order === "disable" ? "disabled" : null;
    const word = ordered ? (fails || server.missing ? byChecks + ", " + ordered : ordered) : byChecks;
    const kind = fails || server.missing ? "bad" : ordered || server.override || doubts ? "warn" : "good";
    const symbol = fails ? "✖" : server.missing ? "!" : ordered ? "‖" : doubts ? "~" : word === "up" ? "✔" : "○";
    return { word, kind, symbol, kept, down: fails || server.missing, ordered: Boolean(server.override) };
  }
  function takeIn(document, whole) {
    const now = Date.now();
    const before = pools;
    if (whole) pools = new Map();
    const { name, kernel, broken_checks, dry_run, nothing_served, not_in_force, unconfirmed_ms, frozen } = document;
    const until = unconfirmed_ms === undefined ? null : now + unconfirmed_ms;
    facts = { name, kernel, broken_checks, dry_run, unserved: Boolean(nothing_served), file: not_in_force || null, until, frozen: frozen || null };
    for (const news of document.virtual_servers) {
      const old = whole ? null : pools.get(news.name);
      const servers = old ? old.servers : new Map();
      news.quorum.at = now - news.quorum.age_ms;
      for (const server of news.real_servers) {
        const last = before.get(news.name)?.servers.get(server.address);
        server.base = last ? last.base : null;
        server.rate = last ? last.rate : null;
        servers.set(server.address, dated(server, news, now));
      }
      news.servers = servers;
      delete news.real_servers;
      pools.set(news.name, news);
    }
    const happened = document.recent.map((h) => ({ ...h, at: now - h.age_ms }));
    recent = whole ? happened : happened.concat(recent).slice(0, 100);
    rates(now);
  }
  // Of each server, what was counted between the last two looks at the kernel's counters.
  function rates(now) {
    if (facts.kernel.counted_age_ms === null) return;
    const at = now - facts.kernel.counted_age_ms;
    if (counted !== null && at - counted < 700) return;
    counted = at;
    for (const pool of pools.values()) for (const server of pool.servers.values()) {
      const { base, traffic } = server;
      const seconds = base ? (at - base.at) / 1000 : 0;
      const rate = seconds > 0 && traffic.connections >= base.traffic.connections
        ? { connections: (traffic.connections - base.traffic.connections) / seconds,
          in: Math.max(0, traffic.bytes_in - base.traffic.bytes_in) / seconds,
          out: Math.max(0, traffic.bytes_out - base.traffic.bytes_out) / seconds }
        : null;
      server.base = { at, traffic };
      const same = (a, b) => (a === null || b === null ? a === b : a.connections === b.connections && a.in === b.in && a.out === b.out);
      if (!same(server.rate, rate)) { server.rate = rate; server.drawn = false; }
    }
  }

  // -- what is shown -----------------------------------------------------------------------

  function show() {
    const text = $("filter").value.trim().toLowerCase();
    const state = $("state").value;
    const wanted = (server) => (text === "" || server.hay.includes(text)) && (
      state === "all" || (state === "attention" && server.state.kind !== "good") || (state === "down" && server.state.down) ||
      (state === "ordered" && server.state.ordered) || (state === "up" && server.state.word === "up"));
    const filtered = text !== "" || state !== "all";
    let all = 0;
    for (const pool of pools.values()) all += pool.servers.size;
    let found = 0;
    const shown = [];
    for (const [name, pool] of pools) {
      const section = sections.get(name) || newSection(name);
      const servers = [...pool.servers.values()].filter(wanted);
      found += servers.length;
      const named = text !== "" && state === "all" && (name + "\n" + pool.services.join("\n")).toLowerCase().includes(text);
      if (filtered && !servers.length && !named && !(state === "down" && !pool.quorum.up)) continue;
      const folds = !filtered && all > FOLD && !section.open;
      const listed = folds ? servers.filter((server) => server.state.kind !== "good") : servers;
      if (section.pool !== pool || section.dirty) drawHead(section, pool);
      drawServers(section, listed, folds ? servers.length - listed.length : 0, !filtered && all > FOLD);
      shown.push(section.node);
    }
    for (const name of [...sections.keys()]) if (!pools.has(name)) sections.delete(name);
    replace($("services"), shown);
    $("found").textContent = filtered ? count(found, "server") + " of " + number(all) : "";
    drawTotals(all);
    drawRecent(text);
    $("name").textContent = clean(facts.name);
    document.title = title();
    $("content").hidden = false;
  }
  // Leaves alone what is there already, so that focus and selection stay.
  function replace(parent, nodes) {
    const same = parent.childNodes.length === nodes.length && nodes.every((node, at) => parent.childNodes[at] === node);
    if (!same) parent.replaceChildren(...nodes);
  }
  function tally() {
    const sum = { quorum: 0, lost: 0, up: 0, down: 0, kept: 0, missing: 0, ordered: 0, standby: 0, active: 0, rate: 0 };
    for (const pool of pools.values()) {
      sum[pool.quorum.up ? "quorum" : "lost"] += 1;
      for (const server of pool.servers.values()) {
        const order = server.override && server.override.order;
        const word = server.state.word;
        sum[word.startsWith("DOWN") ? "down" : server.missing ? "missing" : order ? "ordered" : word === "up" ? "up" : "standby"] += 1;
        sum.kept += server.state.kept ? 1 : 0;
        sum.active += server.connections.active;
        sum.rate += server.rate ? server.rate.connections : 0;
      }
    }
    return sum;
  }
  function title() {
    const sum = tally();
    const problems = [sum.lost ? sum.lost + " without quorum" : "", sum.down ? sum.down + " down" : ""].filter(Boolean);
    if (facts.until !== null) problems.push("not confirmed");
    if (facts.frozen) problems.push("verdicts frozen");
    return (problems.length ? "✖ " + problems.join(", ") : "✔ all up") + " – lvsd " + clean(facts.name);
  }
  function drawTotals(all) {
    const sum = tally();
    const item = (name, symbol, n, words) => el("li", "", el("span", name, symbol + " "), el("b", "", number(n)), " " + words);
    const items = [item(sum.quorum ? "good" : "soft", sum.quorum ? "✔" : "○", sum.quorum, (sum.quorum === 1 ? "service" : "services") + " with quorum")];
    if (sum.lost) items.push(item("bad-word", "✖", sum.lost, "WITHOUT QUORUM"));
    items.push(item(sum.up ? "good" : "soft", sum.up ? "✔" : "○", sum.up, "of " + count(all, "server") + " up"));
    if (sum.down) items.push(item("bad-word", "✖", sum.down, "DOWN"));
    if (sum.kept) items.push(item("bad-word", "!", sum.kept, "of them KEPT in the table"));
    if (sum.missing) items.push(item("bad-word", "!", sum.missing, "NOT INSTALLED"));
    if (sum.ordered) items.push(item("warn-word", "‖", sum.ordered, "drained or disabled"));
    if (sum.standby) items.push(item("soft", "○", sum.standby, "on standby"));
    items.push(item("soft", "⇄", sum.active, "active connections" + (counted === null ? "" : ", " + perSecond(sum.rate) + " new/s")));
    $("totals").replaceChildren(...items);
    const remarks = [];
    if (facts.unserved) {
      remarks.push(el("li", "bad", el("span", "bad-word", "! NOTHING IS SERVED: "), "the kernel has refused every service that could serve."));
    }
    if (facts.file) {
      remarks.push(el("li", "bad", el("span", "bad-word", "! THE FILE IS NOT IN FORCE: "), clean(facts.file.text)));
    }
    if (facts.until !== null) {
      remarks.push(el("li", "bad", el("span", "bad-word", "! NOT CONFIRMED: "), "a reload is on trial, and goes back unless ", el("code", "", "lvsd confirm"), " comes; ", moment(facts.until, "left")));
    }
    if (facts.frozen) {
      const { reasons, set_aside } = facts.frozen;
      remarks.push(el("li", "bad", el("span", "bad-word", "! VERDICTS FROZEN: "), "the director itself seems to be sick, and what checks find changes nothing: " + clean(reasons.join("; ")) + "; " + count(set_aside, "result") + " set aside."));
    }
    if (facts.dry_run) remarks.push("Dry run: the table is in memory, the kernel's is not touched.");
    const { operations, failures, drift } = facts.kernel;
    if (failures || drift) remarks.push(`Kernel, since the start: ${number(operations)} changes asked for, ${number(failures)} refused, ${number(drift)} found changed by others.`);
    if (facts.broken_checks) remarks.push(count(facts.broken_checks, "run") + " of checks broke, see the log.");
    $("remarks").replaceChildren(...remarks.map((remark) => typeof remark === "string" ? el("li", "", remark) : remark));
  }
  function newSection(name) {
    const section = { node: el("section", ""), head: el("div", ""), list: el("ul", "servers"), more: el("button", "more"), fold: el("button", "more"),
      rows: new Map(), open: false, limit: ROWS, pool: null, dirty: false };
    section.more.type = section.fold.type = "button";
    section.more.addEventListener("click", () => { section.limit += 5 * ROWS; show(); });
    section.fold.addEventListener("click", () => { section.open = !section.open; section.limit = ROWS; show(); });
    section.list.setAttribute("aria-label", "Servers of " + clean(name));
    const titles = ["State", "Server", "Weight", "Checks", "Connections"].map((text) => el("span", "", text));
    section.titles = el("li", "head", ...titles);
    section.titles.setAttribute("aria-hidden", "true");
    section.node.append(section.head, section.list, section.more, section.fold);
    sections.set(name, section);
    return section;
  }
  function drawHead(section, pool) {
    section.pool = pool;
    const q = pool.quorum;
    section.node.className = q.up ? "" : "bad";
    const word = q.up ? el("span", "good", "✔ quorum up") : el("span", "bad-word", "✖ QUORUM DOWN");
    const relation = `, weight ${number(q.weight)}, ${q.up ? "lost below" : "gained at"} ${number(Math.max(1, q.threshold))}`;
    const services = pool.services.slice(0, 4).map(clean).join(", ") + (pool.services.length > 4 ? ` and ${number(pool.services.length - 4)} more` : "");
    const remarks = [];
    const remark = (name, ...parts) => remarks.push(el("li", name, ...parts));
    for (const { service, refusal } of pool.missing.slice(0, 10)) {
      remark("bad", "! NOT AS WANTED in the kernel: ", said(service), refusal ? ": " : "", refusal ? said(refusal) : "");
    }
    if (pool.missing.length > 10) remark("bad", `and ${number(pool.missing.length - 10)} more services`);
    const rules = new Map();
    for (const { state, kept } of pool.servers.values()) if (state.kept) rules.set(kept, (rules.get(kept) || 0) + 1);
    for (const [rule, n] of rules) remark("bad", "! KEPT in the table although down: ", count(n, "server"), `, by ${rule}`);
    for (const a of pool.announce.slice(0, 10)) {
      const state = a.announced ? "✔ announced on " : a.wanted ? "✖ NOT ANNOUNCED on " : "○ withdrawn from ";
      remark(a.announced ? "plain" : a.wanted ? "bad" : "", said(a.address), " ", state, said(a.interface), a.problem ? ": " : "", a.problem ? said(a.problem) : "");
    }
    for (const { service, reason } of pool.inactive.slice(0, 4)) remark("", "○ not active: ", said(service), ": ", said(reason));
    if (pool.inactive.length > 4) remark("", `○ and ${number(pool.inactive.length - 4)} more services not active`);
    if (pool.sorry_server) {
      const { address, active } = pool.sorry_server;
      remark(active ? "bad" : "plain", active ? "! sorry server SERVING: " : "○ sorry server standing by: ", said(address));
    }
    section.sum = el("span", "soft");
    section.head.replaceChildren(
      el("div", "top", el("h2", "", said(pool.name)), el("span", "", word, " for ", moment(q.at, "span"), relation), section.sum),
      el("span", "soft-line", services + " · " + clean(pool.scheduler)), el("ul", "remarks", ...remarks));
    section.dirty = false;
  }
  function drawServers(section, servers, folded, foldable) {
    const { pool } = section;
    let up = 0, active = 0, rate = 0;
    for (const server of pool.servers.values()) {
      up += server.state.word === "up" ? 1 : 0;
      active += server.connections.active;
      rate += server.rate ? server.rate.connections : 0;
    }
    const sum = `${number(up)} of ${count(pool.servers.size, "server")} up, ${number(active)} active connections` + (rate ? `, ${perSecond(rate)} new/s` : "");
    if (section.sum.textContent !== sum) section.sum.textContent = sum;
    const rows = servers.slice(0, section.limit).map((server) => {
      const row = section.rows.get(server.address) || el("li", "");
      section.rows.set(server.address, row);
      if (row.shows !== server || !server.drawn) { drawRow(row, server); row.shows = server; server.drawn = true; }
      return row;
    });
    if (section.rows.size > 2 * pool.servers.size + ROWS) section.rows.clear();
    replace(section.list, rows.length ? [section.titles, ...rows] : []);
    const left = servers.length - rows.length;
    section.more.hidden = left <= 0;
    section.more.textContent = `Show more (${number(left)} left)`;
    section.fold.hidden = !foldable || (!folded && !section.open);
    section.fold.textContent = section.open ? "Fold up those that are well" : `Show ${count(folded, "server")} that ${folded === 1 ? "is" : "are"} well`;
    section.fold.setAttribute("aria-expanded", String(section.open));
  }
  function drawRow(row, server) {
    const { state, connections: c, rate } = server;
    row.className = state.kind === "good" ? "" : state.kind;
    const name = { good: "good", warn: "warn-word", bad: "bad-word" }[state.kind];
    const weight = server.weight === server.effective_weight ? number(server.weight) : number(server.effective_weight) + "/" + number(server.weight);
    const cells = [
      el("span", "state", el("span", name, state.symbol + " " + state.word), el("span", "soft", " "), moment(server.at, "span")),
      el("span", "address", said(server.address)),
      el("span", "weight number", weight),
      el("span", "checks", ...server.checks.map(drawCheck), server.checks.length ? "" : el("span", "soft", "no checks")),
      el("span", "traffic number", `${number(c.active)} active, ${number(c.inactive)} inactive`, ...drawRate(rate))];
    if (server.weight !== server.effective_weight) cells[2].title = "in force/configured";
    if (server.kept) cells.push(el("span", "wide bad-word", "! kept in the table by " + server.kept));
    if (server.override) cells.push(...drawOverride(server.override));
    row.replaceChildren(...cells);
  }
  function drawRate(rate) {
    if (!rate) return [];
    return [el("span", "soft-line", `${perSecond(rate.connections)} new/s, ${bytes(rate.in)}/s in, ${bytes(rate.out)}/s out`)];
  }
  function drawCheck(check) {
    const line = el("div", "");
    const observed = check.mode === "observe" ? " (observed only)" : "";
    if (!check.last) {
      line.append(el("span", "soft", `… ${check.kind}${observed}: has not run yet`));
      return line;
    }
    const { ok, detail, latency_us, at } = check.last;
    const tries = check.failures ? `, ${count(check.failures, "failure")} in a row` : "";
    line.append(el("span", ok ? "good" : "bad-word", ok ? "✔ " : "✖ "), `${check.kind}${observed}: `, said(detail),
      el("span", "soft", ` · ${latency(latency_us)} · `, moment(at, "ago"), tries));
    return line;
  }
  function drawOverride(over) {
    const line = (what, note) => el("span", "wide warn-word", `${what} by `, said(note.by), " ", moment(note.at, "ago"),
      note.until === null ? "" : ", ", note.until === null ? "" : moment(note.until, "left"), note.reason ? ": " : "", note.reason ? said(note.reason) : "");
    const lines = [];
    if (over.order) lines.push(line("‖ " + over.order, over));
    if (over.weight !== null) lines.push(line("⚖ weight " + number(over.weight), over.weight_note || over));
    return lines;
  }
  // Every kind that there is, by its name: a test holds this against the daemon's list.
  const KINDS = {
    up: ["good", "✔ up"],
    down: ["bad-word", "✖ DOWN"],
    weight: ["soft", "⚖ weight"],
    quorum_up: ["good", "✔ quorum up"],
    quorum_down: ["bad-word", "✖ QUORUM DOWN"],
    gate: ["soft", "○ role"],
    guard_began: ["bad-word", "! KEPT"],
    guard_ended: ["good", "✔ none kept"],
    order: ["warn-word", "‖ order"],
    verdicts_frozen: ["bad-word", "! FROZEN"],
    verdicts_thawed: ["good", "✔ verdicts count"],
    reload: ["soft", "⟳ reload"],
    reload_refused: ["bad-word", "✖ RELOAD REFUSED"],
    trial: ["warn-word", "! trial"],
  };
  function drawRecent(text) {
    const wanted = recent.filter((h) => text === "" || (h.virtual_server + "\n" + (h.real_server || "") + "\n" + h.text).toLowerCase().includes(text));
    const key = text + "\n" + allChanges + "\n" + wanted.map((h) => h.number).join();
    $("older").hidden = allChanges || wanted.length <= CHANGES;
    if ($("recent").dataset.key === key) return;
    $("recent").dataset.key = key;
    const rows = wanted.slice(0, allChanges ? wanted.length : CHANGES).map((h) => {
      const [name, word] = KINDS[h.kind] || ["soft", h.kind];
      const when = moment(h.at, "ago");
      when.title = new Date(h.at).toLocaleString();
      when.className = "soft";
      return el("li", "", when, el("span", name, word), el("span", "whom", h.virtual_server ? said(h.virtual_server) : el("span", "soft", "this director"), h.real_server ? " " : "", h.real_server ? said(h.real_server) : ""),
        el("span", "text", said(h.text)));
    });
    $("recent").replaceChildren(...(rows.length ? rows : [el("li", "soft", "none")]));
  }

  // -- the connection ----------------------------------------------------------------------

  let stream = null;
  let heard = 0;
  let again = null;
  function say(text, lost) {
    $("connection").textContent = text;
    $("connection").className = lost ? "lost" : "";
  }
  const clock = () => new Date().toLocaleTimeString();
  function live() { heard = Date.now(); say("● live", false); }
  function hang() {
    clearTimeout(again);
    if (stream) stream.close();
    stream = null;
  }
  function connect() {
    hang();
    heard = Date.now();
    say("○ connecting", false);
    stream = new EventSource("events");
    stream.addEventListener("whole", (event) => { takeIn(JSON.parse(event.data), true); show(); live(); });
    stream.addEventListener("change", (event) => { takeIn(JSON.parse(event.data), false); show(); live(); });
    stream.addEventListener("beat", live);
    stream.addEventListener("trouble", () => { heard = Date.now(); say("✖ lvsd does not answer; this is old", true); });
    stream.onerror = () => {
      say(`✖ no connection since ${clock()}; this is old`, true);
      // Turned away: the browser itself does not come again.
      if (stream.readyState === EventSource.CLOSED) again = setTimeout(connect, 5000 + Math.random() * 5000);
    };
  }
  let unseen = null;
  document.addEventListener("visibilitychange", () => {
    clearTimeout(unseen);
    if (document.hidden) unseen = setTimeout(() => { hang(); say("○ paused", false); }, UNSEEN);
    else if (!stream) connect();
  });
  setInterval(() => {
    if (document.hidden) return;
    document.querySelectorAll("[data-at]").forEach(tell);
    if (stream && Date.now() - heard > SILENCE) connect();
  }, 1000);
  let typed = null;
  $("filter").addEventListener("input", () => { clearTimeout(typed); typed = setTimeout(show, 80); });
  $("state").addEventListener("change", show);
  $("search").addEventListener("submit", (event) => { event.preventDefault(); show(); });
  $("older").addEventListener("click", () => { allChanges = true; show(); });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !event.target.closest("input, select")) { event.preventDefault(); $("filter").focus(); }
    if (event.key === "Escape" && event.target === $("filter")) { $("filter").value = ""; show(); }
  });
  connect();
})();
