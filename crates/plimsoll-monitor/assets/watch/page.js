// The live page: receives events of the monitor, draws panels with a common time axis, and sends the user's actions.
// Received text goes into text nodes only.
(function () {
"use strict";

const { UNITS, element, swatch, forgetColours, seriesFor, stackUp, columnsOf, nearest } = chart;
const byId = id => document.getElementById(id);
const token = new URLSearchParams(location.search).get("token") ?? "";

// Above this many rows, the older half is thinned to half, so that a page that stays open needs little memory.
const MOST_ROWS = 4000;
const WIDTHS = [["1 min", 60], ["5 min", 300], ["30 min", 1800], ["all", Infinity]];
// The panel of all RAM replaces two panels of the report, so it is higher.
const HEIGHT_OF_RAM = 210;
// Gauges of the table without a line: they have another meaning or scale than their panel.
const NOT_DRAWN = ["swap-total", "compressed-holds"];

// ---------------------------------------------------------------- state

const known = { hello: null, target: null, devices: [], marks: [], status: {}, messages: [] };
// Columns of rows: seconds, then one column per series; null means unknown.
const rows = { t: [], columns: [], step: [] };
let series = [];
let panelsDrawn = [];
// Whether a value of a pager is known: then its panel is drawn.
let hasPager = false;
let lastId = null;
let stale = true;

// Builds the series from the hello event: their values and how to draw them.
function describe(hello) {
  series = hello.layers.map(one => ({ ...one, panel: "whole", unit: "bytes", dash: [] }))
    .concat(hello.gauges.map(one => ({ ...one, hatched: false, optional: one.panel === "target" || one.panel === "pager" })));
  rows.columns = series.map((_, at) => rows.columns[at] ?? []);
  series.forEach((one, at) => { one.own = rows.columns[at]; one.drawn = one.own; });
}

// Chooses the panels, and the series with a line in one.
function arrange() {
  panelsDrawn = known.hello.panels.filter(panel => panel.height > 0 && panel.id !== "moved" && (panel.id !== "pager" || hasPager))
    .map(panel => panel.id === "whole" ? { ...panel, height: HEIGHT_OF_RAM } : panel);
  for (const one of series) one.bare = !panelsDrawn.some(panel => panel.id === one.panel) || NOT_DRAWN.includes(one.key);
}

const ofPanel = panel => series.filter(one => one.panel === panel.id && isThere(one));
const drawnOf = panel => ofPanel(panel).filter(one => !one.bare);

// Only slots with a swap device.
function isThere(one) {
  return !/^device\d$/.test(one.key) || known.devices[+one.key.slice(6)] !== undefined || one.key === "device0";
}

function nameDevices() {
  for (const one of series) {
    if (/^device\d$/.test(one.key)) one.label = known.devices[+one.key.slice(6)] ?? "no swap device";
  }
}

function forget() {
  rows.t.length = 0;
  rows.step.length = 0;
  for (const column of rows.columns) column.length = 0;
  hasPager = false;
}

function push(time, values, step) {
  rows.t.push(time);
  rows.step.push(step);
  rows.columns.forEach((column, at) => column.push(values === null ? null : values[at + 1]));
}

// An interval without samples becomes a row without values: a gap without a line across it.
function take(list, step) {
  for (const values of list) {
    const time = values[0] / 1000, last = rows.t[rows.t.length - 1];
    if (last !== undefined && time <= last) continue;
    const usual = Math.max(step, rows.step[rows.step.length - 1] ?? 0);
    if (last !== undefined && time - last > usual * 2.5) push((last + time) / 2, null, step);
    push(time, values, step);
  }
  if (rows.t.length > MOST_ROWS) thin();
  stale = true;
  hasPager ||= series.some(one => one.panel === "pager" && one.own.slice(-list.length).some(value => value !== null));
  if (hasPager !== panelsDrawn.some(panel => panel.id === "pager")) build();
}

// Each two rows of the older half become their mean, except beside a gap.
function thin() {
  const half = rows.t.length >> 1;
  const keep = { t: [], step: [], columns: rows.columns.map(() => []) };
  for (let at = 0; at < half; at++) {
    const paired = at + 1 < half && !gapAt(at) && !gapAt(at + 1);
    const mean = column => paired && column[at] !== null && column[at + 1] !== null ? (column[at] + column[at + 1]) / 2 : column[at] ?? (paired ? column[at + 1] : null);
    keep.t.push(paired ? (rows.t[at] + rows.t[at + 1]) / 2 : rows.t[at]);
    keep.step.push(paired ? rows.step[at] + rows.step[at + 1] : rows.step[at]);
    rows.columns.forEach((column, index) => keep.columns[index].push(mean(column)));
    if (paired) at++;
  }
  const replace = (old, head) => { const tail = old.slice(half); old.length = 0; old.push(...head, ...tail); };
  replace(rows.t, keep.t);
  replace(rows.step, keep.step);
  rows.columns.forEach((column, index) => replace(column, keep.columns[index]));
}

// ---------------------------------------------------------------- events

const handlers = {
  hello: hello => {
    known.hello = hello;
    describe(hello);
    byId("actions").hidden = byId("action-keys").hidden = !hello.actions;
    build();
  },
  history: history => { forget(); take(history.rows, history.step / 1000); },
  frames: frames => take(frames.rows, 1 / (known.hello?.hz ?? 10)),
  target: target => { known.target = target; showHead(); },
  devices: devices => {
    known.devices = devices;
    nameDevices();
    build();
  },
  marks: marks => { known.marks = marks.map(mark => ({ t: mark.t / 1000, label: mark.symbol, words: wordsOf(mark) })); stale = true; },
  status: status => { known.status = status; showHead(); },
  messages: messages => { known.messages = messages; showMessages(); },
  end: end => { connection("ended", "ended: " + end.reason); },
};

function connection(state, words) {
  const shown = byId("connection");
  if (shown.dataset.state === "ended" && state !== "live") return;
  shown.dataset.state = state;
  shown.textContent = words;
  if (state === "live") return;
  stale = true;
}

// Reads the event stream itself: the browser's EventSource cannot send the token in a header.
async function listen() {
  const headers = { "X-Plimsoll": token };
  if (lastId !== null) headers["Last-Event-ID"] = lastId;
  const giveUp = new AbortController();
  let silence = 0;
  const alive = () => { clearTimeout(silence); silence = setTimeout(() => giveUp.abort(), 12000); };
  alive();
  try {
    const response = await fetch("events", { headers, signal: giveUp.signal, cache: "no-store" });
    if (response.status === 403) return "gone";
    if (!response.ok) return response.status === 503 ? "full" : "broken";
    connection("live", "connected");
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return "broken";
      alive();
      const events = (text + value).split("\n\n");
      text = events.pop();
      for (const event of events) handle(event);
    }
  } catch {
    return "broken";
  } finally {
    clearTimeout(silence);
    giveUp.abort();
  }
}

function handle(text) {
  const fields = {};
  for (const line of text.split("\n")) {
    const colon = line.indexOf(": ");
    if (colon > 0) fields[line.slice(0, colon)] = line.slice(colon + 2);
  }
  if (fields.id !== undefined) lastId = fields.id;
  if (handlers[fields.event]) handlers[fields.event](JSON.parse(fields.data));
}

async function stayConnected() {
  let wait = 500;
  for (;;) {
    const began = performance.now();
    const outcome = await listen();
    if (byId("connection").dataset.state === "ended") return;
    if (outcome === "gone") return connection("gone", "another run: open the address that it printed");
    connection("reconnecting", outcome === "full" ? "reconnecting: too many pages are open" : "reconnecting");
    if (performance.now() - began > 5000) wait = 500;
    await new Promise(resolve => setTimeout(resolve, wait));
    wait = Math.min(wait * 1.6, 5000);
  }
}

// ---------------------------------------------------------------- view

const view = { follow: true, frozen: false, width: 60, from: 0, to: 60, at: null };
// Minor faults are far more frequent than major faults and would hide them.
const hidden = new Set(["minor"]);
let plots = [];

function bounds() {
  const first = rows.t[0] ?? 0;
  return [first, Math.max(rows.t[rows.t.length - 1] ?? 1, first + 1)];
}

function follow() {
  const [first, last] = bounds();
  view.to = last;
  view.from = Math.max(first, last - view.width);
}

function showView() {
  byId("live").setAttribute("aria-pressed", String(view.follow));
  byId("freeze").setAttribute("aria-pressed", String(view.frozen));
  byId("reset").disabled = view.follow;
  for (const button of byId("widths").children) button.setAttribute("aria-pressed", String(view.follow && +button.value === view.width));
  byId("range").textContent = `${clock(view.from)}\u2013${clock(view.to)}`;
}

function zoom(from, to) {
  view.follow = false;
  panels.stretch(from, to);
  draw();
}

function reset() {
  view.follow = true;
  view.frozen = false;
  view.at = null;
  draw();
}

// Seconds since the start as h:mm:ss, with decimals only if they are not zero.
function clock(seconds) {
  const sign = seconds < -0.0005 ? "\u2212" : "", whole = Math.abs(seconds);
  const rest = (whole % 60).toFixed(1).replace(/\.0$/, ""), minutes = Math.floor(whole / 60);
  const padded = (rest.split(".")[0].length < 2 ? "0" : "") + rest;
  return sign + (minutes >= 60 ? `${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, "0")}` : minutes) + ":" + padded;
}

// ---------------------------------------------------------------- panels

const gapAt = at => rows.columns.every(column => column[at] === null);

function dataFor(panel, list) {
  if (panel.stack) stackUp(list);
  return columnsOf(panel, rows.t, list);
}

function newest(key) {
  const one = series.find(one => one.key === key);
  return one?.own[one.own.length - 1] ?? null;
}

const panels = chart.timeline({
  view, zoom, reset, clock, axisTime: clock, bounds, rowAt,
  t: () => rows.t, marks: () => known.marks, memTotal: () => known.hello.memTotal,
  least: () => 3 / (known.hello?.hz ?? 10),
  data: dataFor,
  series: (panel, list) => seriesFor(panel, list).map((one, at) => at > 0 && !panel.stack ? { ...one, show: !hidden.has(list[at - 1].key) } : one),
  // From a quarter of swap in use, the scale shows all of swap.
  top: (panel, high) => { const size = panel.id === "swap" ? newest("swap-total") ?? 0 : 0; return high > size / 4 ? size : 0; },
  ready: plot => plot.over.addEventListener("mouseleave", () => { if (view.follow) { view.at = null; panels.fillReadout(); } }),
  key: (one, panel, index, at) => panel.stack ? element("span", { class: "key" }, swatch(one, false), one.label) : element("button", {
    class: "key", type: "button", "aria-pressed": String(!hidden.has(one.key)), title: "show or hide",
    on: { click: event => toggleSeries(event.currentTarget, index, at, one.key) },
  }, swatch(one, true), one.label),
});
const { point, step } = panels;

const KINDS = { "number": "mark", "note": "note", "trim": "trim", "release": "release", "target": "target", "page-flags": "page flags", "event": "event" };
const wordsOf = mark => `${KINDS[mark.kind] ?? mark.kind} ${mark.kind === "number" ? mark.symbol : ""} ${mark.text}`.trim().replace(/ +/g, " ");

function build() {
  if (!known.hello) return;
  nameDevices();
  arrange();
  plots = panels.build(byId("plots"), panelsDrawn, drawnOf);
  panels.buildReadout(byId("readout-holder"), known.hello.panels, ofPanel);
  showHead();
  draw();
}

function toggleSeries(button, panel, at, key) {
  const show = hidden.delete(key) || !hidden.add(key);
  button.setAttribute("aria-pressed", String(show));
  plots[panel].setSeries(at + 1, { show });
}

function draw() {
  stale = false;
  if (!known.hello || plots.length === 0) return;
  if (view.follow) follow();
  panelsDrawn.forEach((panel, index) => plots[index].batch(() => {
    plots[index].setData(dataFor(panel, drawnOf(panel)), false);
    plots[index].setScale("x", { min: view.from, max: view.to });
    // New rows in a fixed window change no scale, so uPlot would not redraw.
    if (!view.follow) plots[index].redraw();
  }));
  if (view.at !== null) {
    point(view.at);
  } else {
    for (const plot of plots) plot.setCursor({ left: -10, top: -10 }, false);
    panels.fillReadout();
  }
  showView();
  showValues();
}

// ---------------------------------------------------------------- crosshair and table

// The row with values at or next to a time.
function rowAt(time) {
  let at = nearest(rows.t, time);
  if (gapAt(at) && Math.abs(rows.t[at] - time) > rows.step[at] * 1.5) return at;
  while (at > 0 && gapAt(at)) at--;
  return at;
}

function toMark(direction) {
  const next = panels.nextMark(direction);
  if (next !== undefined) show(next);
}

// Scrolls the view to a time and moves the crosshair there.
function show(time) {
  const width = view.to - view.from;
  if (time < view.from || time > view.to) zoom(time - width / 2, time + width / 2);
  view.follow = false;
  point(time);
  showView();
}

function toPeak() {
  const pressure = series.find(one => one.key === "memory-some");
  let best = null;
  rows.t.forEach((t, at) => {
    if (t < view.from || t > view.to || pressure.own[at] === null) return;
    if (best === null || pressure.own[at] > pressure.own[best]) best = at;
  });
  if (best !== null) show(rows.t[best]);
}

// ---------------------------------------------------------------- head and messages

function showHead() {
  const { hello, target, status } = known;
  byId("target").textContent = target ? target.title + (target.ended ? ` (${target.ended})` : "") : "whole machine";
  document.title = `${target ? target.title : "Plimsoll watch"} \u2013 ${hello?.hostname ?? ""}`;
  byId("trim").disabled = !target || target.ended !== null;
  byId("mode").textContent = status.replay ? "REPLAY" : "LIVE";
  const notices = [target?.error, target?.unread ? `${target.unread} more processes are not sampled` : null, status.busy ? status.busy + "\u2026" : null,
    status.ended, status.unlocked ? `memory not locked: ${status.unlocked}` : null];
  byId("notices").textContent = notices.filter(Boolean).join(" \u00b7 ");
  showValues();
}

function showValues() {
  const { hello, status } = known;
  if (!hello) return;
  const percent = key => { const value = newest(key); return value === null ? "\u2013" : UNITS.percent.text(value); };
  const values = [
    [hello.hostname, hello.kernel.split(" ")[0]], ["rate", `${hello.hz} Hz`], ["monitor", percent("self")],
    ["PSI memory", `some ${percent("memory-some")} full ${percent("memory-full")}`],
    ["RAM", UNITS.bytes.text(hello.memTotal)],
  ];
  if (status.recording) values.push(["REC", status.recording]);
  byId("values").replaceChildren(...values.map(([name, value]) => element("span", {}, name + " ", element("b", {}, value))));
}

function showMessages() {
  const newestFirst = [...known.messages].reverse();
  byId("messages").replaceChildren(...newestFirst.map(one => element("li", { class: one.level }, `${clock(one.t / 1000)} ${one.text}`)));
}

// ---------------------------------------------------------------- actions

async function act(name, body = "") {
  const answer = byId("answer");
  try {
    const response = await fetch("actions/" + name, { method: "POST", headers: { "X-Plimsoll": token, "Content-Type": "text/plain" }, body });
    const text = await response.text();
    answer.textContent = response.ok ? "" : text.trim() || `refused (${response.status})`;
    return response.ok ? text : null;
  } catch {
    answer.textContent = "not connected";
    return null;
  }
}

let confirmed = () => {};

// Asks for confirmation before an action on the memory of other programs.
function ask(title, lines, word, then) {
  confirmed = then;
  byId("confirm-title").textContent = title;
  byId("plan").replaceChildren(...lines.map(line => element("li", {}, line)));
  byId("confirmed").textContent = word;
  byId("confirm").showModal();
}

async function release() {
  const plan = await act("release-plan");
  if (plan !== null) ask("Release reclaimable cache?", JSON.parse(plan), "Release", () => act("release"));
}

function trim() {
  if (byId("trim").disabled) return;
  const title = known.target.title;
  const lines = ["The kernel moves its pages from RAM to swap or to their files.", "Its next accesses to them take page faults, which slow it down."];
  // The server refuses if the target has changed meanwhile.
  ask(`Trim ${title}?`, lines, "Trim", () => act("trim", title));
}

function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA)$/.test(event.target.tagName) || byId("confirm").open) return;
  if (event.key === " " && event.target.tagName === "BUTTON") return;
  const width = view.to - view.from, middle = view.at ?? (view.from + view.to) / 2;
  const views = {
    f: () => byId("live").click(), " ": () => byId("freeze").click(), Escape: reset, p: toPeak,
    ArrowLeft: () => step(event.shiftKey ? -10 : -1), ArrowRight: () => step(event.shiftKey ? 10 : 1),
    "[": () => toMark(-1), "]": () => toMark(1),
    "+": () => zoom(middle - width / 4, middle + width / 4), "-": () => zoom(middle - width, middle + width),
  };
  const actions = { m: () => byId("note").focus(), T: trim, e: release, k: () => act("page-flags") };
  for (const number of "1234") actions[number] = () => act("mark", number);
  // In the terminal, t chooses a target: only T trims.
  const key = event.key.length === 1 && event.key !== "T" ? event.key.toLowerCase() : event.key;
  const action = views[key] ?? (known.hello?.actions ? actions[key] : undefined);
  if (action) { event.preventDefault(); action(); }
}

// ---------------------------------------------------------------- start

function wire() {
  for (const [words, seconds] of WIDTHS) {
    byId("widths").append(element("button", { type: "button", value: seconds, "aria-pressed": "false", on: { click: () => { view.width = seconds; reset(); } } }, words));
  }
  for (const number of "1234") {
    byId("numbers").append(element("button", { type: "button", "aria-label": `Set mark ${number}`, on: { click: () => act("mark", number) } }, number));
  }
  byId("live").addEventListener("click", () => { view.follow = !view.follow; if (view.follow) view.at = null; draw(); });
  byId("freeze").addEventListener("click", () => { view.frozen = !view.frozen; if (view.frozen) showView(); else draw(); });
  byId("reset").addEventListener("click", reset);
  byId("previous").addEventListener("click", () => toMark(-1));
  byId("next").addEventListener("click", () => toMark(1));
  byId("peak").addEventListener("click", toPeak);
  byId("actions").addEventListener("submit", async event => {
    event.preventDefault();
    const note = byId("note");
    if (note.value.trim() && await act("note", note.value) !== null) { note.value = ""; note.blur(); }
  });
  for (const button of document.querySelectorAll("[data-action]")) button.addEventListener("click", () => act(button.dataset.action));
  byId("release").addEventListener("click", release);
  byId("trim").addEventListener("click", trim);
  byId("confirmed").addEventListener("click", () => { byId("confirm").close(); confirmed(); });
  byId("cancelled").addEventListener("click", () => byId("confirm").close());
  document.addEventListener("keydown", keys);
  new ResizeObserver(() => {
    const width = byId("plots").clientWidth;
    for (const plot of plots) if (width > 0 && plot.width !== width) plot.setSize({ width, height: plot.height });
  }).observe(byId("plots"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { forgetColours(); build(); });
  // Draws if the page is visible and has new data, at most four times a second.
  setInterval(() => { if (stale && !view.frozen && !document.hidden) draw(); }, 250);
}

wire();
stayConnected();
})();
