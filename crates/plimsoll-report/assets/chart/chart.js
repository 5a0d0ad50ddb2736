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

function bytes(value) {
  if (value === 0) return "0";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let size = Math.abs(value), unit = 0;
  while (size >= 999.5 && unit < 4) { size /= 1024; unit++; }
  return (value < 0 ? "\u2212" : "") + significant(size) + " " + units[unit];
}

const UNITS = {
  "bytes": { scale: KIB, text: bytes, steps: powersOfTwo() },
  "bytes-per-second": { scale: KIB, text: v => v === 0 ? "0" : bytes(v) + "/s", steps: powersOfTwo() },
  "per-second": { scale: 1, text: v => Math.abs(v) >= 9999.5 ? significant(v / 1e3) + "k/s" : Math.round(v) + "/s" },
  "percent": { scale: 0.01, text: v => (v === 0 ? "0" : Math.abs(v) < 10 ? v.toFixed(1) : v.toFixed(0)) + "%" },
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

return { KIB, UNITS, bytes, change, element, colour, swatch, forgetColours, seriesFor, axes, labelLayers, nearest };
})();
