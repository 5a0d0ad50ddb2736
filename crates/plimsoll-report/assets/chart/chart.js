// What the pages draw with, whether a report or the monitor: quantities as text, elements, colours and hatches, and
// what uPlot needs to draw stacks and lines. A series is { ink, label, dash, hatched, own, drawn }: `own` are its own
// values and `drawn` what is drawn, which is the sum with those below in a stack; null is a gap.
const chart = (function () {
"use strict";

const root = document.documentElement;
const AXIS_WIDTH = 64;
const KIB = 1024;

// ---------------------------------------------------------------- quantities

function significant(value) {
  const size = Math.abs(value);
  return value.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}

// As plimsoll_model::quantity::bytes: a page computes values and axes after it left the program, which cannot format them.
function bytes(value) {
  if (value === 0) return "0";
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let size = Math.abs(value), unit = 0;
  while (size >= 999.5 && unit < 5) { size /= 1024; unit++; }
  return (value < 0 ? "\u2212" : "") + significant(size) + " " + units[unit];
}

const UNITS = {
  "bytes": { scale: KIB, text: bytes, steps: powersOfTwo() },
  "bytes-per-second": { scale: KIB, text: v => v === 0 ? "0" : bytes(v) + "/s", steps: powersOfTwo() },
  "per-second": { scale: 1, text: v => Math.abs(v) >= 9999.5 ? significant(v / 1e3) + "k/s" : Math.round(v) + "/s" },
  "percent": { scale: 0.01, text: v => (v === 0 ? "0" : Math.abs(v) < 10 ? v.toFixed(1) : v.toFixed(0)) + "%" },
  "cpus": { scale: 0.01, text: v => v.toFixed(2) + " CPUs" },
  "milliseconds": { scale: 0.01, text: v => (v === 0 ? "0" : significant(v)) + " ms" },
  "number": { scale: 1, text: v => String(Math.round(v)) },
};

function powersOfTwo() {
  return Array.from({ length: 40 }, (_, n) => 2 ** (n + 10));
}

function change(unit, value) {
  const text = UNITS[unit].text(Math.abs(value));
  if (/^0(%|\/s)?$/.test(text) || /^0\.0+%?$/.test(text)) return "0";
  return (value > 0 ? "+" : "\u2212") + text;
}

// ---------------------------------------------------------------- elements

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (key === "on") for (const [event, action] of Object.entries(value)) made.addEventListener(event, action);
    else if (value !== undefined && value !== null && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

// Kept until the colour scheme changes: asking the browser makes it compute the style of the page.
const colours = new Map();
function colour(name) {
  if (!colours.has(name)) colours.set(name, getComputedStyle(root).getPropertyValue("--" + name).trim() || "#888");
  return colours.get(name);
}

function swatch(one, line) {
  const made = element("span", { class: "swatch" + (one.hatched ? " hatched" : "") + (line ? " stroke" : "") });
  made.style.setProperty("--c", `var(--${one.ink})`);
  if (line && one.dash.length) made.style.borderTopStyle = one.dash[0] > 3 ? "dashed" : "dotted";
  return made;
}

// A hatch over a colour, the same as in the static drawings: colour is never all that tells two layers apart.
const hatches = new Map();
function fillOf(context, one) {
  const base = colour(one.ink);
  if (!one.hatched) return base;
  const key = base + devicePixelRatio;
  if (!hatches.has(key)) {
    const size = Math.round(7 * devicePixelRatio);
    const tile = element("canvas", { width: size, height: size });
    const brush = tile.getContext("2d");
    brush.fillStyle = base;
    brush.fillRect(0, 0, size, size);
    brush.strokeStyle = "rgba(255,255,255,.5)";
    brush.lineWidth = size / 4;
    brush.beginPath();
    for (const shift of [-size, 0, size]) { brush.moveTo(shift, size); brush.lineTo(shift + size, 0); }
    brush.stroke();
    hatches.set(key, context.createPattern(tile, "repeat"));
  }
  return hatches.get(key);
}

// To be called when the colour scheme changes.
function forgetColours() {
  colours.clear();
  hatches.clear();
}

// ---------------------------------------------------------------- panels

// Areas are drawn from the top of the stack down, each painted over by the next: no bands to clip.
function seriesFor(panel, list) {
  if (panel.stack) {
    return [{}].concat([...list].reverse().map(one => ({
      label: one.label, stroke: () => colour("page"), width: 0.6, points: { show: false },
      fill: plot => fillOf(plot.ctx, one),
    })));
  }
  // Where a bucket holds many samples, a fainter line shows the greatest of them.
  const line = (one, faint) => ({
    label: one.label, stroke: () => colour(one.ink) + (faint ? "66" : ""), width: faint ? 1 : 1.6, dash: one.dash, points: { show: false },
  });
  return [{}].concat(list.map(one => line(one, false)), list.filter(one => one.tops).map(one => line(one, true)));
}

const plainSeconds = t => +t.toFixed(3) + "";
function axes(unit, bottom, timeText = plainSeconds) {
  const common = { stroke: () => colour("soft"), grid: { stroke: () => colour("grid"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
  return [
    { ...common, show: true, size: bottom ? 28 : 0, gap: 4, values: (_, splits) => splits.map(t => bottom ? timeText(t) : "") },
    { ...common, size: AXIS_WIDTH, gap: 5, space: 30, incrs: unit.steps, values: (_, splits) => splits.map(value => unit.text(value).replace(/\.0+(?=\D)/, "")) },
  ];
}

// Each layer's name inside it, where it is thickest in view, if there is room.
function labelLayers(plot, list) {
  const { ctx } = plot;
  const ratio = devicePixelRatio;
  ctx.save();
  ctx.font = `600 ${11.5 * ratio}px system-ui, sans-serif`;
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  list.forEach(one => {
    const half = ctx.measureText(one.label).width / 2 + 3 * ratio;
    const spot = roomFor(plot, one, half);
    if (spot === null || spot.low - spot.high < 14 * ratio) return;
    const middle = (spot.high + spot.low) / 2;
    if (one.hatched) {
      ctx.fillStyle = colour(one.ink);
      ctx.fillRect(spot.x - half, middle - 8 * ratio, 2 * half, 16 * ratio);
    }
    ctx.fillStyle = colour("on-" + one.ink);
    ctx.fillText(one.label, spot.x, middle + ratio);
  });
  ctx.restore();
}

// The place in view where a text of this half width has the most room inside the layer, all along its width.
function roomFor(plot, one, half) {
  const t = plot.data[0], { bbox } = plot, { min, max } = plot.scales.x;
  const columns = [];
  for (let at = 0; at < t.length; at++) {
    if (t[at] < min || t[at] > max || one.own[at] === null || one.drawn[at] === null) continue;
    columns.push({
      x: plot.valToPos(t[at], "x", true),
      high: plot.valToPos(one.drawn[at], "y", true), low: plot.valToPos(one.drawn[at] - one.own[at], "y", true),
    });
  }
  const rooms = [];
  let first = 0;
  for (const { x } of columns) {
    if (x - half < bbox.left || x + half > bbox.left + bbox.width) continue;
    while (first < columns.length && columns[first].x < x - half) first++;
    let high = -Infinity, low = Infinity;
    for (let at = Math.max(first - 1, 0); at < columns.length; at++) {
      high = Math.max(high, columns[at].high);
      low = Math.min(low, columns[at].low);
      if (columns[at].x > x + half) break;
    }
    rooms.push({ x, high, low, room: low - high });
  }
  // The middle of the longest stretch in which there is nearly the most room.
  const most = Math.max(...rooms.map(one => one.room));
  let longest = 0, end = 0, run = 0;
  rooms.forEach((one, at) => {
    run = one.room >= most * 0.97 ? run + 1 : 0;
    if (run > longest) { longest = run; end = at; }
  });
  return rooms[end - (longest >> 1)] ?? null;
}

function nearest(t, value) {
  let low = 0, high = t.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (t[middle] < value) low = middle; else high = middle;
  }
  return Math.abs(t[high] - value) < Math.abs(t[low] - value) ? high : low;
}

// ---------------------------------------------------------------- timeline

// Panels with one time axis, one crosshair, marks and a table of values. `page` is what a page knows of its own:
//   view {from, to, at}, t() the times, marks(panel) [{t, label, words}] by time, of all panels without one, least() the
//   least width of the view, bounds() the ends of time, clock(seconds), memTotal(), data(panel, list) for uPlot,
//   zoom(from, to), reset(), and, where they differ from page to page: series(panel, list), axisTime(seconds),
//   top(panel, high), ready(plot), marked(marks), key(one, panel, ...), rowAt(time).
// A panel that is `signed` has values below 0; one with `ownMarks` shows the labels of its marks, as the first one does.
function timeline(page) {
  const { view } = page;
  let plots = [], cells = [];

  function options(panel, list, width, bottom, top) {
    return {
      width, height: panel.height + (bottom ? 28 : 7) + (top ? 22 : 5),
      padding: [top ? 22 : 5, 8, bottom ? 0 : 7, 0],
      legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: false, dist: 4 }, bind: { dblclick: () => () => { page.reset(); return null; } } },
      scales: { x: { time: false, range: () => [view.from, view.to] }, y: { range: (_plot, low, high) => rangeOf(panel, low ?? 0, high ?? 0) } },
      series: page.series?.(panel, list) ?? seriesFor(panel, list),
      axes: axes(UNITS[panel.unit], bottom, page.axisTime),
      hooks: {
        setSelect: [plot => {
          if (plot.select.width < 4) return;
          const from = plot.posToVal(plot.select.left, "x"), to = plot.posToVal(plot.select.left + plot.select.width, "x");
          plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          page.zoom(from, to);
        }],
        // The mouse itself, not the cursor's hook, which fires on every redraw as well.
        ready: [plot => {
          plot.over.addEventListener("mousemove", event => point(plot.posToVal(event.clientX - plot.over.getBoundingClientRect().left, "x"), plot));
          page.ready?.(plot);
        }],
        draw: [plot => {
          if (panel.id === "whole" || panel.id === "moved") labelLayers(plot, list);
          drawMarks(plot, panel);
          if (top) placeMarks(plot, panel);
        }],
      },
    };
  }

  function topOf(panel, high) {
    return panel.id === "whole" ? page.memTotal() : panel.least === 100 ? 100 : Math.max(panel.least, high * 1.06, page.top?.(panel, high) ?? 0);
  }

  // As far below 0 as above it where values have a sign.
  function rangeOf(panel, low, high) {
    if (!panel.signed) return [0, topOf(panel, high)];
    const top = topOf(panel, Math.max(-low, high));
    return [-top, top];
  }

  // The marks in view, or none where their lines would hide what they mark.
  function marksIn(plot, panel) {
    const inView = page.marks(panel).filter(mark => mark.t >= view.from && mark.t <= view.to);
    return inView.length * 10 > plot.over.clientWidth ? [] : inView;
  }

  function drawMarks(plot, panel) {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.strokeStyle = colour("ink");
    ctx.globalAlpha = 0.75;
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
    for (const mark of marksIn(plot, panel)) {
      const x = Math.round(plot.valToPos(mark.t, "x", true)) + 0.5;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    }
    ctx.restore();
  }

  // The labels are buttons, so that they can be reached without a mouse. Where they would lie on each other the lines
  // alone remain.
  function placeMarks(plot, panel) {
    for (const old of plot.over.querySelectorAll(".marker")) old.remove();
    let free = -Infinity;
    const list = marksIn(plot, panel);
    page.marked?.(list);
    for (const mark of list) {
      const left = plot.valToPos(mark.t, "x");
      if (left < free) continue;
      free = left + 18;
      const words = `${mark.words} at ${page.clock(mark.t)}`;
      const made = element("button", {
        class: "marker", type: "button", title: words, "aria-label": words,
        on: { click: () => point(mark.t), mousedown: event => event.stopPropagation() },
      }, mark.label);
      made.style.left = left + "px";
      plot.over.append(made);
    }
  }

  // Draws the panels anew, each below its title and the names of its series.
  function build(holder, panels, listOf) {
    const key = page.key ?? ((one, panel) => element("span", { class: "key" }, swatch(one, !panel.stack), one.label));
    for (const plot of plots) plot.destroy();
    holder.replaceChildren();
    plots = panels.map((panel, index) => {
      const list = listOf(panel);
      const names = panel.id === "whole" ? [] : list.map((one, at) => key(one, panel, index, at));
      const box = element("div", { class: "plot", "data-panel": panel.id });
      holder.append(element("div", { class: "plot-head" }, element("strong", {}, panel.title), ...names), box);
      const plot = new uPlot(options(panel, list, holder.clientWidth, index === panels.length - 1, index === 0 || panel.ownMarks), page.data(panel, list), box);
      plot.ctx.canvas.setAttribute("aria-hidden", "true");
      return plot;
    });
    return plots;
  }

  // Places the crosshair.
  function point(time, source) {
    if (page.t().length === 0) return;
    view.at = Math.min(Math.max(time, view.from), view.to);
    for (const plot of plots) {
      if (plot !== source) plot.setCursor({ left: plot.valToPos(view.at, "x"), top: 1 }, false);
    }
    fillReadout();
  }

  function step(direction) {
    const t = page.t();
    point(t[Math.min(Math.max(nearest(t, view.at ?? view.to) + direction, 0), t.length - 1)]);
  }

  // Time of the next mark, or of the one before; undefined where there is none.
  function nextMark(direction) {
    const times = page.marks().map(mark => mark.t), at = view.at ?? (direction > 0 ? view.from : view.to);
    return direction > 0 ? times.find(t => t > at + 1e-6) : times.filter(t => t < at - 1e-6).pop();
  }

  function toMark(direction) {
    const next = nextMark(direction);
    if (next >= view.from && next <= view.to) point(next);
  }

  // The keys of panels that have the focus.
  function keys(event) {
    const width = view.to - view.from;
    const actions = {
      ArrowLeft: () => step(event.shiftKey ? -10 : -1), ArrowRight: () => step(event.shiftKey ? 10 : 1),
      Home: () => point(view.from), End: () => point(view.to),
      "[": () => toMark(-1), "]": () => toMark(1),
      "+": () => page.zoom(view.at - width / 4, view.at + width / 4),
      "-": () => page.zoom(view.from - width / 2, view.to + width / 2),
      Escape: () => page.reset(),
    };
    if (actions[event.key] && !event.ctrlKey && !event.metaKey && !event.altKey) { event.preventDefault(); actions[event.key](); }
  }

  // Sets the ends of the view: within the ends of time, and not narrower than what can be told apart.
  function stretch(from, to) {
    const [first, last] = page.bounds(), least = page.least();
    if (to - from < least) { const middle = (from + to) / 2; from = middle - least / 2; to = middle + least / 2; }
    view.from = Math.max(first, from);
    view.to = Math.max(view.from + least, Math.min(last, to));
  }

  // The table of values: a body a panel, a row a series. One that is `bare` is not drawn, and so has no swatch; one that is
  // `optional` is left out while it is not known.
  function buildReadout(holder, panels, listOf) {
    cells = [];
    const bodies = panels.filter(panel => panel.heading).map(panel => {
      const list = listOf(panel);
      const bare = list.filter(one => one.bare), drawn = list.filter(one => !one.bare);
      const rows = (panel.stack ? drawn.reverse() : drawn).concat(bare).map(one => {
        const value = element("td"), delta = element("td");
        const row = element("tr", { "data-key": one.key }, element("th", { scope: "row" }, ...(one.bare ? [] : [swatch(one, !panel.stack)]), one.label), value, delta);
        cells.push({ one, unit: one.unit ?? panel.unit, value, delta, row });
        return row;
      });
      return element("tbody", { "data-group": panel.id }, element("tr", { class: "head" }, element("th", { colspan: 3, scope: "colgroup" }, panel.heading)), ...rows);
    });
    const head = id => element("th", { scope: "col", class: "number", id });
    holder.replaceChildren(element("table", { id: "readout" },
      element("caption", { id: "readout-time" }),
      element("thead", {}, element("tr", {}, element("td"), head("readout-at"), head("readout-since"))),
      ...bodies));
  }

  function fillReadout() {
    if (page.t().length === 0 || cells.length === 0) return;
    const rowAt = page.rowAt ?? (time => nearest(page.t(), time));
    const time = view.at ?? view.to, at = rowAt(time);
    const mark = page.marks().filter(one => one.t <= time + 1e-6).pop();
    const base = mark ? rowAt(mark.t) : 0;
    const write = (id, text) => { document.getElementById(id).textContent = text; };
    write("readout-time", page.clock(time) + (mark ? `, ${(time - mark.t).toFixed(2)} s after ${mark.words}` : ""));
    write("readout-at", view.at === null && view.follow ? "now" : "at crosshair");
    write("readout-since", mark ? `since ${mark.since ?? mark.label}` : "since start");
    const bodies = new Map();
    for (const { one, unit, value, delta, row } of cells) {
      const now = one.own[at] ?? null, before = one.own[base] ?? null;
      row.hidden = Boolean(one.optional) && now === null;
      bodies.set(row.parentNode, bodies.get(row.parentNode) || !row.hidden);
      value.textContent = now === null ? "\u2013" : UNITS[unit].text(now);
      delta.textContent = now === null || before === null ? "" : change(unit, now - before);
    }
    for (const [body, isSeen] of bodies) body.hidden = !isSeen;
  }

  return { options, build, buildReadout, fillReadout, point, step, nextMark, toMark, keys, stretch };
}

// Series come as first value and differences, in whole units; null is a gap.
function decode(differences, scale) {
  let value = 0;
  return differences.map(difference => difference === null ? null : (value += difference) * scale);
}

// The own values of each series of a stack that is drawn: what it adds to the sum below it.
function unstack(list) {
  list.forEach((one, index) => {
    const below = list[index - 1]?.drawn;
    one.own = below ? one.drawn.map((sum, at) => sum === null || below[at] === null ? null : sum - below[at]) : one.drawn;
  });
}

// What a stack draws, from the bottom up: sums, with a gap where none of the series is known. In a stack that is
// `strict`, one that is unknown makes a gap as well; in others it counts as nothing.
function stackUp(list, strict) {
  let below = list[0]?.own.map((_, at) => list[strict ? "some" : "every"](one => one.own[at] === null) ? null : 0);
  for (const one of list) {
    below = one.drawn = one.own.map((value, at) => below[at] === null ? null : below[at] + (value ?? 0));
  }
}

// The columns that uPlot draws of a panel.
function columnsOf(panel, t, list) {
  const columns = list.map(one => one.drawn);
  return [t, ...(panel.stack ? columns.reverse() : columns.concat(list.map(one => one.tops).filter(Boolean)))];
}

return { KIB, UNITS, change, element, swatch, forgetColours, seriesFor, timeline, decode, unstack, stackUp, columnsOf, nearest };
})();
