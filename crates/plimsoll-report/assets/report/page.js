// The interactive half of the page: puts panels that zoom, with one crosshair, in the place of the static drawings,
// and tables in tabs. Without it the report shows the same values, without interaction.
(function () {
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const root = document.documentElement;
const { KIB, UNITS, element, forgetColours, decode, unstack, stackUp, columnsOf } = chart;

// ---------------------------------------------------------------- data

for (const mark of data.marks) mark.words = `${mark.label} ${mark.name}`;

// Each panel of a timeline gets `drawn` (what uPlot draws, stacks summed) and `own` (each series' own value).
function unpack(packed) {
  const timeline = { trial: packed.trial, t: decode(packed.t, 0.001), panels: {} };
  for (const panel of data.panels) {
    const list = packed.panels[panel.id === "moved" ? "whole" : panel.id];
    const scale = UNITS[panel.unit].scale;
    let series = list.map(one => ({ ...one, drawn: decode(one.v, scale), tops: one.peaks?.length ? decode(one.peaks, scale) : null }));
    if (panel.stack) unstack(series); else for (const one of series) one.own = one.drawn;
    if (panel.id === "moved") {
      series = series.filter(one => one.moves);
      stackUp(series, true);
    }
    timeline.panels[panel.id] = series;
  }
  return timeline;
}

const timelines = data.timelines.map(packed => {
  let unpacked = null;
  return { trial: packed.trial, get: () => unpacked ??= unpack(packed) };
});
const timelineOf = trial => timelines.find(one => one.trial === trial) ?? timelines[0];
const groupOf = trial => data.groups.find(group => group.trials.includes(trial));
const shortName = id => "#" + (id.includes("#") ? id.slice(id.lastIndexOf("#") + 1) : id);

// ---------------------------------------------------------------- state

const state = { group: null, trial: null, view: "both", from: 0, to: 1, at: null };
let brush = null;
let syncing = false;
const shown = () => timelineOf(state.trial).get();
const marksShown = () => state.trial === null ? data.marks : data.marks.filter(mark => mark.trial === state.trial);

function spanOf(trial) {
  const t = timelineOf(trial).get().t;
  return [t[0] ?? 0, Math.max(t[t.length - 1] ?? 1, (t[0] ?? 0) + 0.001)];
}

// ---------------------------------------------------------------- panels

let plots = [];
const panels = chart.timeline({
  view: state, zoom, reset,
  t: () => shown().t, marks: marksShown, bounds: () => spanOf(state.trial), memTotal: () => data.memTotal * KIB,
  least: () => { const t = shown().t; return t.length > 1 ? (t[t.length - 1] - t[0]) / (t.length - 1) * 3 : 0.01; },
  clock: t => `${t.toFixed(2)} s`,
  data: (panel, list) => columnsOf(panel, shown().t, list),
  marked: list => { document.getElementById("crowded").hidden = list.length > 0 || marksShown().length === 0; },
});
const { point, toMark } = panels;

// ---------------------------------------------------------------- zoom

function zoom(from, to) {
  panels.stretch(from, to);
  // A batch, so that the new scale is in force when the crosshair is placed.
  for (const plot of plots) {
    const { min, max } = plot.scales.x;
    if (min !== state.from || max !== state.to) plot.batch(() => plot.setScale("x", { min: state.from, max: state.to }));
  }
  showWindow();
  const [first, last] = spanOf(state.trial);
  const full = state.from <= first && state.to >= last;
  document.getElementById("reset").disabled = full;
  document.getElementById("range").textContent = `${state.from.toFixed(2)}\u2013${state.to.toFixed(2)} s`;
  if (state.at === null || state.at < state.from || state.at > state.to) restingPoint(); else point(state.at);
}

function reset() {
  zoom(...spanOf(state.trial));
}

// Where the reader most wants to look: the pages are out, and nothing has been read back yet.
function restingPoint() {
  const restore = marksShown().find(mark => mark.label === "3" && mark.t > state.from && mark.t <= state.to);
  point(restore ? restore.t - 0.05 : state.to);
}

// ---------------------------------------------------------------- overview brush

function buildBrush(holder) {
  const timeline = timelines[0].get();
  const list = timeline.panels.moved;
  const panel = data.panels.find(one => one.id === "moved");
  const settings = panels.options({ ...panel, height: 46 }, list, holder.clientWidth, true, false);
  const [from, to] = spanOf(null);
  settings.scales.x = { time: false, range: () => [from, to] };
  settings.axes[1].space = 60;
  settings.axes[1].values = (_, splits) => splits.map(() => "");
  settings.select = { show: true };
  settings.hooks = {
    setSelect: [plot => {
      if (syncing || plot.select.width < 3) return;
      const low = plot.posToVal(plot.select.left, "x"), high = plot.posToVal(plot.select.left + plot.select.width, "x");
      if (state.trial !== null) { const [first, last] = spanOf(state.trial); if (low < first || high > last) choose(null, null, [low, high]); else zoom(low, high); }
      else zoom(low, high);
    }],
    ready: [nameTrials],
    setSize: [nameTrials],
  };
  settings.cursor = { x: true, y: false, points: { show: false }, drag: { x: true, y: false, setScale: false } };
  settings.cursor.bind = { dblclick: () => () => { choose(null, null); return null; } };
  brush = new uPlot(settings, columnsOf(panel, timeline.t, list), holder);
}

// Trials by name over their stretch of the run.
function nameTrials(plot) {
  for (const old of plot.over.querySelectorAll(".trial-name")) old.remove();
  for (const trial of data.trials) {
    const left = plot.valToPos(trial.from, "x"), width = plot.valToPos(trial.to, "x") - left;
    if (width < 28 || left > plot.over.clientWidth - 28) continue;
    const group = groupOf(trial.id);
    const made = element("span", { class: "trial-name" }, `${group ? group.label.split(" ").pop() : ""} ${shortName(trial.id)}`);
    made.style.left = left + "px";
    made.style.maxWidth = width - 2 + "px";
    plot.over.append(made);
  }
}

function showWindow() {
  if (!brush) return;
  syncing = true;
  const left = brush.valToPos(state.from, "x"), right = brush.valToPos(state.to, "x");
  brush.setSelect({ left, top: 0, width: Math.max(2, right - left), height: brush.over.clientHeight }, false);
  syncing = false;
}

// ---------------------------------------------------------------- explorer

const MOST_BUTTONS = 24;

function panelsShown() {
  return data.panels.filter(panel => !(state.view === "whole" && panel.id === "moved") && !(state.view === "moved" && panel.id === "whole"));
}

const listOf = panel => shown().panels[panel.id];

// With the sum of the layers below them.
function valuesOf(panel) {
  const list = listOf(panel);
  return panel.id === "whole" && list.length > 0 ? [{ label: "sum = MemTotal", own: list[list.length - 1].drawn, bare: true }, ...list] : list;
}

function redraw() {
  plots = panels.build(document.getElementById("plots"), panelsShown(), listOf);
  zoom(state.from, state.to);
}

function choose(group, trial, range) {
  state.group = group;
  state.trial = trial;
  state.at = null;
  [state.from, state.to] = range ?? spanOf(trial);
  for (const button of document.querySelectorAll("#groups button")) button.setAttribute("aria-pressed", String(button.value === (group ?? "")));
  for (const list of document.querySelectorAll("#groups select")) list.value = group ?? "";
  const buttons = document.getElementById("trials");
  const ids = data.groups.find(one => one.label === group)?.trials ?? [];
  buttons.hidden = ids.length === 0;
  buttons.replaceChildren(element("span", { class: "what" }, "Trial"), ...ids.map(id =>
    element("button", { type: "button", value: id, title: id, "aria-pressed": String(id === trial), disabled: timelineOf(id).trial !== id, on: { click: () => choose(group, id) } }, shortName(id))));
  for (const table of document.querySelectorAll(".event-table")) table.classList.toggle("chosen", table.dataset.group === (group ?? ""));
  plots = panels.build(document.getElementById("plots"), panelsShown(), listOf);
  panels.buildReadout(document.getElementById("readout-holder"), data.panels, valuesOf);
  zoom(state.from, state.to);
}

function chooseGroup(label) {
  const group = data.groups.find(one => one.label === label);
  if (!group) return choose(null, null);
  choose(label, group.trial);
}

function chooseView(view) {
  state.view = view;
  for (const button of document.querySelectorAll("#views button")) button.setAttribute("aria-pressed", String(button.value === view));
  redraw();
}

// A button for each group or, where these would fill the screen, a list to choose from.
function groupChoices(toggle) {
  if (data.groups.length <= MOST_BUTTONS) return data.groups.map(group => toggle(group.label, group.label, false, () => chooseGroup(group.label)));
  const list = element("select", { "aria-label": "Group", on: { change: event => event.target.value === "" ? choose(null, null) : chooseGroup(event.target.value) } },
    element("option", { value: "" }, `${data.groups.length} groups`),
    ...data.groups.map(group => element("option", { value: group.label }, group.label)));
  return [list];
}

function buildExplorer() {
  if (data.timelines[0].t.length === 0) return false;
  const holder = document.getElementById("explorer");
  const toggle = (value, words, pressed, action) => element("button", { type: "button", value, "aria-pressed": String(pressed), on: { click: action } }, words);
  holder.append(
    element("div", { class: "bar", id: "groups", role: "group", "aria-label": "Visible layers" },
      toggle("", "Whole run", true, () => choose(null, null)),
      ...groupChoices(toggle)),
    element("div", { class: "bar", id: "trials", role: "group", "aria-label": "Trials of this group", hidden: true }),
    element("div", { class: "plot brush", id: "brush", title: "Drag to choose a stretch of the run" }),
    element("div", { class: "bar" },
      element("span", { class: "bar", id: "views", role: "group", "aria-label": "Scale of the memory panels" },
        element("span", { class: "what" }, "Scale"),
        toggle("both", "Both", true, () => chooseView("both")),
        toggle("whole", "Whole RAM", false, () => chooseView("whole")),
        toggle("moved", "Moving layers", false, () => chooseView("moved"))),
      element("span", { class: "gap" }),
      element("span", { class: "what", id: "crowded", hidden: true }, "too many events to mark: zoom in or choose a trial"),
      element("span", { class: "what", id: "range" }),
      element("button", { type: "button", id: "previous", title: "previous event ([)", "aria-label": "Previous event", on: { click: () => toMark(-1) } }, "\u2039 event"),
      element("button", { type: "button", id: "next", title: "next event (])", "aria-label": "Next event", on: { click: () => toMark(1) } }, "event \u203a"),
      element("button", { type: "button", id: "reset", on: { click: reset } }, "Reset zoom")),
    element("div", { class: "explorer" },
      element("div", { class: "plots", id: "plots", tabindex: "0", role: "application", "aria-label": "Timeline panels. Arrow keys move the crosshair, brackets jump between events, plus and minus zoom, Escape resets.", on: { keydown: panels.keys } }),
      element("div", { class: "readout", id: "readout-holder", role: "region", "aria-label": "Values at the crosshair", tabindex: "0" })),
    element("p", { class: "hint" }, "Drag over a panel to zoom, double-click to see all. With the panels in focus: \u2190 \u2192 move the crosshair, [ ] jump between events, + \u2212 zoom, Esc resets."));
  holder.hidden = false;
  root.classList.add("js");
  buildBrush(document.getElementById("brush"));
  choose(null, null);
  let width = holder.clientWidth;
  new ResizeObserver(() => {
    if (holder.clientWidth === width || holder.clientWidth === 0) return;
    width = holder.clientWidth;
    brush.setSize({ width: document.getElementById("brush").clientWidth, height: brush.height });
    const inner = document.getElementById("plots").clientWidth;
    for (const plot of plots) plot.setSize({ width: inner, height: plot.height });
    showWindow();
  }).observe(holder);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { forgetColours(); redraw(); brush.redraw(); });
  return true;
}

// ---------------------------------------------------------------- tables

function tabs() {
  const bodies = [...document.querySelectorAll("#tables .panel")];
  const bar = element("div", { class: "tabs", role: "tablist", "aria-label": "Tables" });
  const buttons = bodies.map(panel => element("button", { type: "button", role: "tab", id: "tab-" + panel.id, "aria-controls": panel.id }, panel.dataset.title));
  const open = at => {
    buttons.forEach((button, index) => { button.setAttribute("aria-selected", String(index === at)); button.tabIndex = index === at ? 0 : -1; });
    bodies.forEach((panel, index) => { panel.hidden = index !== at; });
  };
  buttons.forEach((button, at) => {
    bodies[at].setAttribute("role", "tabpanel");
    bodies[at].setAttribute("aria-labelledby", button.id);
    button.addEventListener("click", () => open(at));
    button.addEventListener("keydown", event => {
      const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!move) return;
      const next = (at + move + buttons.length) % buttons.length;
      open(next);
      buttons[next].focus();
    });
  });
  bar.append(...buttons);
  bodies[0]?.before(bar);
  open(0);
}

if (!buildExplorer()) root.classList.remove("js");
tabs();
})();
