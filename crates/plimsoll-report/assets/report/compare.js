// The interactive half of a comparison: the runs of a group on one time axis, aligned by their start or by a mark, and one
// layer of them compared. Without it the page shows static drawings, of one alignment and one layer.
(function () {
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const root = document.documentElement;
const byId = id => document.getElementById(id);
const { KIB, element, swatch, forgetColours, decode, unstack, stackUp, columnsOf, nearest } = chart;

// Columns that all runs are drawn on.
const COLUMNS = 800;
const MOST_BUTTONS = 24;
const START = "start";

// ---------------------------------------------------------------- data

// The runs of each group. A group is unpacked when it is first shown.
const groups = data.groups.map(group => {
  let runs = null;
  return { ...group, runs: () => runs ??= group.runs.map(unpack) };
});

function unpack(run) {
  const layers = run.layers.map(one => ({ ...one, dash: [], drawn: decode(one.v, KIB) }));
  unstack(layers);
  return { ...run, t: decode(run.t, 0.001), layers };
}

const hasMark = (group, label) => group.runs.every(run => run.marks.some(mark => mark.label === label));
const isAligned = (group, alignment) => alignment === START || hasMark(group, alignment);
const ALIGNMENTS = [START, "1", "2", "3", "4"].filter(alignment => data.groups.some(group => isAligned(group, alignment)));

// The time of a run that is 0 on the axis.
function originOf(run, alignment) {
  return alignment === START ? run.t[0] : run.marks.find(mark => mark.label === alignment).t;
}

// The row at each time: the nearest one, and null where that is farther than a column and than a row of the run.
function rowsAt(rows, times, column) {
  const reach = Math.max(column, (rows[rows.length - 1] - rows[0]) / rows.length);
  return times.map(time => {
    const row = nearest(rows, time);
    return Math.abs(rows[row] - time) <= reach ? row : null;
  });
}

// Puts the runs of the chosen group on one time axis.
function arrange() {
  const runs = groups[state.group].runs();
  const origins = runs.map(run => originOf(run, state.alignment));
  const from = Math.min(...runs.map((run, at) => run.t[0] - origins[at]));
  const to = Math.max(from + 0.001, ...runs.map((run, at) => run.t[run.t.length - 1] - origins[at]));
  const column = (to - from) / (COLUMNS - 1);
  const t = Array.from({ length: COLUMNS }, (_, at) => from + column * at);
  shown = { t, from, to, runs: runs.map((run, at) => placed(run, origins[at], t, column)) };
  const tops = shown.runs.flatMap(run => run.moved.length > 0 ? run.moved[run.moved.length - 1].drawn : []);
  shown.top = tops.reduce((top, value) => Math.max(top, value ?? 0), 0) * 1.06;
  [state.from, state.to, state.at] = [from, to, null];
}

// A run at the times of the axis.
function placed(run, origin, t, column) {
  const rows = rowsAt(run.t, t.map(time => time + origin), column);
  const layers = run.layers.map(one => ({ ...one, own: rows.map(row => row === null ? null : one.own[row]) }));
  const moved = layers.filter(one => one.moves);
  stackUp(moved, true);
  const marks = run.marks.map(mark => ({ t: mark.t - origin, label: mark.label, since: `${run.letter}: ${mark.label}`, words: `${run.letter}: ${mark.label} ${mark.name}` }));
  return { ...run, layers, moved, marks };
}

// ---------------------------------------------------------------- state

const state = { group: 0, alignment: START, layer: data.layer, from: 0, to: 1, at: null };
let shown = null;
let plots = [];

const panels = chart.timeline({
  view: state, zoom, reset,
  t: () => shown.t, bounds: () => [shown.from, shown.to], least: () => (shown.to - shown.from) / COLUMNS * 3,
  // The crosshair counts from the marks of the baseline. Lines of two runs have no marks.
  marks: panel => panel === undefined ? shown.runs[0].marks : shown.runs[panel.run]?.marks ?? [],
  clock: t => `${t.toFixed(2)} s`, memTotal: () => 0,
  top: panel => panel.run === undefined ? 0 : shown.top,
  data: (panel, list) => columnsOf(panel, shown.t, list),
});

// ---------------------------------------------------------------- panels

function panelsShown() {
  const { label } = data.layers.find(one => one.ink === state.layer);
  const lines = { unit: "bytes", stack: false, height: 110, least: data.panel.least };
  return [
    ...shown.runs.map((run, at) => ({ ...data.panel, title: run.title, heading: run.letter, run: at, ownMarks: true })),
    { ...lines, id: "overlay", title: label, heading: label },
    { ...lines, id: "difference", title: `${label}: difference from ${shown.runs[0].letter}`, heading: "Difference", signed: true },
  ];
}

const lineOf = (run, label, own) => ({ ...run.line, label, hatched: false, own, drawn: own });
const valuesOf = run => run.layers.find(one => one.ink === state.layer).own;

function listOf(panel) {
  if (panel.run !== undefined) return shown.runs[panel.run].moved;
  if (panel.id === "overlay") return shown.runs.map(run => lineOf(run, run.letter, valuesOf(run)));
  const [first, ...others] = shown.runs, base = valuesOf(first);
  const minus = (value, at) => value === null || base[at] === null ? null : value - base[at];
  return others.map(run => lineOf(run, `${run.letter} \u2212 ${first.letter}`, valuesOf(run).map(minus)));
}

function zoom(from, to) {
  panels.stretch(from, to);
  // A batch, so that the new scale is in force when the crosshair is placed.
  for (const plot of plots) {
    const { min, max } = plot.scales.x;
    if (min !== state.from || max !== state.to) plot.batch(() => plot.setScale("x", { min: state.from, max: state.to }));
  }
  byId("reset").disabled = state.from <= shown.from && state.to >= shown.to;
  byId("range").textContent = `${state.from.toFixed(2)}\u2013${state.to.toFixed(2)} s`;
  panels.point(state.at ?? state.to);
}

function reset() {
  zoom(shown.from, shown.to);
}

function draw() {
  const list = panelsShown();
  plots = panels.build(byId("plots"), list, listOf);
  panels.buildReadout(byId("readout-holder"), list, listOf);
  press("groups", String(state.group));
  press("alignments", state.alignment);
  press("layers", state.layer);
  for (const button of byId("alignments").querySelectorAll("button")) button.disabled = !isAligned(data.groups[state.group], button.value);
  zoom(state.from, state.to);
}

// ---------------------------------------------------------------- choices

function press(bar, value) {
  for (const button of byId(bar).querySelectorAll("button")) button.setAttribute("aria-pressed", String(button.value === value));
  for (const list of byId(bar).querySelectorAll("select")) list.value = value;
}

function chooseGroup(at) {
  state.group = at;
  if (!isAligned(data.groups[at], state.alignment)) state.alignment = START;
  arrange();
  draw();
}

function chooseAlignment(alignment) {
  state.alignment = alignment;
  arrange();
  draw();
}

function chooseLayer(layer) {
  state.layer = layer;
  draw();
}

const toggle = (value, action, ...words) => element("button", { type: "button", value, on: { click: action } }, ...words);

// A button for each group or, where these would fill the screen, a list to choose from.
function groupChoices() {
  if (data.groups.length <= MOST_BUTTONS) return data.groups.map((group, at) => toggle(String(at), () => chooseGroup(at), group.label));
  return [element("select", { "aria-label": "Group", on: { change: event => chooseGroup(+event.target.value) } },
    ...data.groups.map((group, at) => element("option", { value: String(at) }, group.label)))];
}

function bar(id, label, choices) {
  return element("div", { class: "bar", id, role: "group", "aria-label": label }, element("span", { class: "what" }, label), ...choices);
}

function buildExplorer() {
  const holder = byId("explorer");
  holder.append(
    bar("groups", "Group", groupChoices()),
    bar("alignments", "Aligned by", ALIGNMENTS.map(one => toggle(one, () => chooseAlignment(one), one === START ? START : `mark ${one}`))),
    bar("layers", "Layer compared", data.layers.map(one => toggle(one.ink, () => chooseLayer(one.ink), swatch(one, false), one.label))),
    element("div", { class: "bar" },
      element("span", { class: "gap" }),
      element("span", { class: "what", id: "range" }),
      element("button", { type: "button", id: "reset", on: { click: reset } }, "Reset zoom")),
    element("div", { class: "explorer" },
      element("div", { class: "plots", id: "plots", tabindex: "0", role: "application", "aria-label": "Timeline panels. Arrow keys move the crosshair, brackets jump between marks, plus and minus zoom, Escape resets.", on: { keydown: panels.keys } }),
      element("div", { class: "readout", id: "readout-holder", role: "region", "aria-label": "Values at the crosshair", tabindex: "0" })),
    element("p", { class: "hint" }, "Drag over a panel to zoom, double-click to see all. With the panels in focus: \u2190 \u2192 move the crosshair, [ ] jump between marks, + \u2212 zoom, Esc resets."));
  holder.hidden = false;
  chooseGroup(0);
  // The static drawings go once the charts are there.
  root.classList.add("js");
  let width = holder.clientWidth;
  new ResizeObserver(() => {
    if (holder.clientWidth === width || holder.clientWidth === 0) return;
    width = holder.clientWidth;
    const inner = byId("plots").clientWidth;
    for (const plot of plots) plot.setSize({ width: inner, height: plot.height });
  }).observe(holder);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { forgetColours(); draw(); });
}

if (data.groups.length > 0) buildExplorer();
})();
