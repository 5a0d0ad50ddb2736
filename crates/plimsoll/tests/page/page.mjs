// Opens a report in headless Chromium and clicks through it, as a reader would. Usage: node page.mjs FILE.html [SHOTS]
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { basename, resolve } from "node:path";
import { check, coloursOf, complaintsOf, end, fitsSoon, launch, within } from "./browser.mjs";

const file = resolve(process.argv[2]);
const shots = process.argv[3] ?? null;
const name = basename(file, ".html");
if (shots) mkdirSync(shots, { recursive: true });

const browser = await launch();

// A page that records every complaint and every request that leaves the file.
async function open(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  const complaints = complaintsOf(page), requests = [];
  page.on("request", request => { if (request.url() !== "file://" + file) requests.push(request.url()); });
  // Of thread time it counts what passes from here on.
  const devtools = await context.newCDPSession(page);
  await devtools.send("Performance.enable", { timeDomain: "threadTicks" });
  await within(60, "opening the report", page.goto("file://" + file, { waitUntil: "load" }));
  // Without its script every later check would wait in vain for what the script makes.
  if (complaints.length > 0) {
    console.log(`FAIL the report complains as it opens: ${complaints.join("; ")}`);
    process.exit(1);
  }
  return { page, devtools, complaints, requests, close: () => context.close() };
}

const readout = page => page.locator("#readout td").allTextContents();
const range = page => page.locator("#range").textContent();

async function middleOf(page, panel) {
  const over = page.locator(`.plot[data-panel=${panel}] .u-over`);
  await over.scrollIntoViewIfNeeded();
  return over.boundingBox();
}

// CPU seconds of the page's main thread since it was opened.
async function cpuSeconds({ devtools }) {
  const { metrics } = await devtools.send("Performance.getMetrics");
  return metrics.find(metric => metric.name === "ThreadTime").value;
}

// CPU seconds of a fixed amount of the work that a report consists of: it reads two million numbers and draws 400,000
// line segments.
async function calibration(opened) {
  const before = await cpuSeconds(opened);
  await opened.page.evaluate(() => {
    const text = JSON.stringify(Array.from({ length: 100000 }, (_, at) => at * 1.1));
    const canvas = document.createElement("canvas");
    canvas.width = 800;
    canvas.height = 200;
    const context = canvas.getContext("2d");
    for (let round = 0; round < 20; round++) {
      const values = JSON.parse(text);
      context.beginPath();
      for (let at = 0; at < 20000; at++) context.lineTo(at / 25, values[at + round] % 200);
      context.stroke();
    }
  });
  return await cpuSeconds(opened) - before;
}

const main = await open();
const { page } = main;

// The promise is a second on a quiet machine. On a busy one the clock says how busy it is, so the CPU time counts, and
// that by the calibration's: machines differ. A report of an hour takes 3.3 to 3.9 calibrations, and 5.2 to 6.3 where its
// script draws all charts three times (measured beside two busy loops).
await check("opens with little work", async () => {
  const opening = await cpuSeconds(main);
  const unit = await calibration(main);
  const timing = await page.evaluate(() => performance.getEntriesByType("navigation")[0].toJSON());
  const said = `${(opening / unit).toFixed(1)} calibrations (${Math.round(opening * 1000)} ms of CPU time, ${Math.round(timing.loadEventEnd)} ms)`;
  assert.ok(unit > 0 && opening > 0, said);
  assert.ok(opening < 5 * unit, `${said} to load`);
  return said;
});

await check("charts are drawn", async () => {
  const drawn = await coloursOf(page);
  assert.ok(drawn.length >= 8, `${drawn.length} canvases`);
  assert.ok(drawn.every(colours => colours > 1), `an empty canvas: ${drawn}`);
});

await check("events 1 to 4 are marked", async () => {
  await page.locator("#groups button").nth(1).click();
  const numbers = await page.locator(".marker").allTextContents();
  assert.deepEqual([...new Set(numbers)].sort(), ["1", "2", "3", "4"]);
});

await check("the stack sums to MemTotal at every sample", async () => {
  const wrong = await page.evaluate(() => {
    const data = JSON.parse(document.getElementById("data").textContent);
    let wrong = 0, samples = 0;
    for (const timeline of data.timelines) {
      let top = 0;
      for (const difference of timeline.panels.whole.at(-1)?.v ?? []) {
        if (difference === null) continue;
        top += difference;
        samples++;
        if (Math.abs(top - data.memTotal) > 1) wrong++;
      }
    }
    return samples === 0 ? "no sample" : wrong;
  });
  assert.equal(wrong, 0);
});

const PAGER_STATES = ["pager-active", "pager-modified", "pager-standby", "pager-standby-low", "pager-compressed", "pager-page-file", "pager-metadata"];
const isPaged = await page.evaluate(() => JSON.parse(document.getElementById("data").textContent).panels.some(panel => panel.id === "pager"));

// The states in the legend of the interactive chart, and the pixels that each state's colour has in it.
const pagerChart = states => page.evaluate(states => {
  const rows = [...document.querySelectorAll("#readout tbody[data-group=pager] tr:not(.head)")];
  const legend = rows.map(row => ({
    ink: row.querySelector(".swatch").style.getPropertyValue("--c"), label: row.querySelector("th").textContent, isSeen: row.checkVisibility(),
  }));
  const canvas = document.querySelector("#plots .plot[data-panel=pager] canvas");
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  const counts = new Map();
  for (let at = 0; at < pixels.length; at += 4) {
    const colour = (pixels[at] << 16) | (pixels[at + 1] << 8) | pixels[at + 2];
    counts.set(colour, (counts.get(colour) ?? 0) + 1);
  }
  const colourOf = state => parseInt(getComputedStyle(document.documentElement).getPropertyValue("--" + state).trim().slice(1), 16);
  return { legend, areas: states.map(state => counts.get(colourOf(state)) ?? 0), pixels: canvas.width * canvas.height };
}, states);

// The states in the key of the static drawing, which print shows, and the height of each one's area.
const pagerDrawing = states => page.evaluate(states => {
  const drawing = document.querySelector("svg.timeline");
  return states.map(state => {
    const areas = [...drawing.querySelectorAll("path.area")].filter(area => area.getAttribute("fill") === `var(--${state})`);
    const keys = [...drawing.querySelectorAll("rect")].filter(key => key.getAttribute("fill") === `var(--${state})`);
    return { state, keys: keys.length, heights: areas.map(area => area.getBBox().height) };
  });
}, states);

// A report named `pager` is that of a recording in which each state has pages, as the tests of the report make it.
if (name === "pager") {
  await check("each state of the pager has a legend entry and an area", async () => {
    const groups = await page.locator("#groups button").count();
    assert.ok(groups > 1, `${groups} groups`);
    let least = Infinity;
    for (let group = 0; group < groups; group++) {
      await page.locator("#groups button").nth(group).click();
      const { legend, areas, pixels } = await pagerChart(PAGER_STATES);
      // A stack stands in the legend from the top down.
      assert.deepEqual(legend.map(entry => entry.ink).reverse(), PAGER_STATES.map(state => `var(--${state})`));
      for (const { ink, label, isSeen } of legend) assert.ok(isSeen && label !== "", ink);
      assert.equal(new Set(legend.map(entry => entry.label)).size, PAGER_STATES.length);
      // Any state has at least 1/16 of the target's memory for a while: more than a line or an edge has.
      areas.forEach((area, at) => assert.ok(area > pixels / 1000, `${PAGER_STATES[at]}: ${area} of ${pixels} pixels in group ${group}`));
      least = Math.min(least, ...areas.map(area => area / pixels));
    }
    await page.emulateMedia({ media: "print" });
    for (const { state, keys, heights } of await pagerDrawing(PAGER_STATES)) {
      assert.equal(keys, 1, `${state}: ${keys} keys`);
      assert.ok(heights.length === 1 && heights[0] > 1, `${state}: areas of ${heights}`);
    }
    await page.emulateMedia({ media: "screen" });
    return `${(100 * least).toFixed(1)}% of the chart at least`;
  });
}

await check("the crosshair fills the table", async () => {
  const box = await middleOf(page, "moved");
  await page.mouse.move(box.x + box.width * 0.2, box.y + box.height / 2);
  const early = await readout(page);
  await page.mouse.move(box.x + box.width * 0.5, box.y + box.height / 2);
  const late = await readout(page);
  assert.ok(early.length > 20 && early.some(text => /MiB|GiB/.test(text)), "no values");
  assert.notDeepEqual(early, late);
  const lines = await page.$$eval(".plots .u-cursor-x", list => list.map(line => Math.round(new DOMMatrix(getComputedStyle(line).transform).m41)));
  assert.equal(new Set(lines.filter(x => x > 0)).size, 1, `crosshairs apart: ${lines}`);
});

await check("drag zooms, reset shows all again", async () => {
  const before = await range(page);
  const box = await middleOf(page, "swap");
  await page.mouse.move(box.x + box.width * 0.3, box.y + 20);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.6, box.y + 20, { steps: 5 });
  await page.mouse.up();
  assert.notEqual(await range(page), before);
  await page.click("#reset");
  assert.equal(await range(page), before);
  await middleOf(page, "swap").then(box => page.mouse.dblclick(box.x + box.width / 2, box.y + 20));
  assert.equal(await range(page), before);
});

await check("the brush chooses a stretch of the run", async () => {
  await page.locator("#groups button").first().click();
  const before = await range(page);
  const box = await page.locator("#brush .u-over").boundingBox();
  await page.mouse.move(box.x + box.width * 0.25, box.y + 10);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.5, box.y + 10, { steps: 5 });
  await page.mouse.up();
  assert.notEqual(await range(page), before);
  await page.click("#reset");
  assert.equal(await range(page), before);
});

await check("every group and trial can be chosen", async () => {
  const groups = await page.locator("#groups button").count();
  for (let group = 1; group < groups; group++) {
    await page.locator("#groups button").nth(group).click();
    const trials = page.locator("#trials button");
    assert.ok(await trials.count() > 0, "no trial buttons");
    const first = await range(page);
    const chosen = await trials.evaluateAll(list => list.findIndex(button => button.getAttribute("aria-pressed") === "true"));
    const other = chosen === 0 ? (await trials.count()) - 1 : 0;
    if (other !== chosen) {
      await trials.nth(other).click();
      assert.notEqual(await range(page), first);
    }
    assert.equal(await page.locator(".event-table.chosen .states").count(), 1, "no table of states");
  }
});

await check("the scale of the memory panels can be chosen", async () => {
  const ofPager = isPaged ? 1 : 0;
  for (const [view, panels] of [["whole", 6], ["moved", 6], ["both", 7]]) {
    await page.click(`#views button[value=${view}]`);
    assert.equal(await page.locator("#plots .plot").count(), panels + ofPager, view);
  }
});

await check("the keyboard moves the crosshair and zooms", async () => {
  await page.locator("#plots").focus();
  await page.keyboard.press("Home");
  const start = await page.textContent("#readout-time");
  await page.keyboard.press("]");
  const marked = await page.textContent("#readout-time");
  assert.notEqual(start, marked);
  assert.match(marked, /after 1 /);
  const all = await range(page);
  await page.keyboard.press("+");
  assert.notEqual(await range(page), all);
  await page.keyboard.press("Escape");
  assert.equal(await range(page), all);
  await page.locator(".marker").nth(1).focus();
  await page.keyboard.press("Enter");
  assert.match(await page.textContent("#readout-time"), /after 2 /);
});

await check("tables sort both ways, by value", async () => {
  await page.click("#tab-table-phases");
  const head = page.locator("#table-phases th", { hasText: "Time" });
  const keys = () => page.$$eval("#table-phases tbody tr td:nth-child(3)", cells => cells.map(cell => +cell.dataset.sort));
  const written = await keys();
  await head.locator("button").click();
  const up = await keys();
  assert.equal(await head.getAttribute("aria-sort"), "ascending");
  await head.locator("button").click();
  const down = await keys();
  assert.equal(await head.getAttribute("aria-sort"), "descending");
  assert.deepEqual(up, [...written].sort((a, b) => a - b));
  assert.deepEqual(down, [...up].reverse().sort((a, b) => b - a));
  assert.notDeepEqual(up, down);
  await page.locator("#tab-table-phases").press("ArrowRight");
  assert.ok(await page.locator("#table-metrics").isVisible());
});

await check("nothing from outside runs or becomes an element", async () => {
  assert.equal(await page.evaluate(() => window.broken), undefined);
  assert.equal(await page.locator("img, iframe, object, embed, [onerror], [onload]").count(), 0);
  assert.equal(await page.locator("script").count(), 2);
});

for (const width of [1280, 700]) {
  for (const scheme of ["light", "dark"]) {
    await check(`fits ${width} px, ${scheme}`, async () => {
      await page.setViewportSize({ width, height: 900 });
      await page.emulateMedia({ colorScheme: scheme });
      await page.locator("#groups button").nth(1).click();
      await fitsSoon(page);
      if (shots) await page.screenshot({ path: `${shots}/${name}-${width}-${scheme}.png`, fullPage: true });
    });
  }
}

// A page that decodes pictures: the report's policy allows it no pictures.
const decoder = await (await browser.newContext()).newPage();

// How much the pixels at the left and the right end of a strip of the report differ from the one in its middle.
async function shadesOf(clip) {
  const png = (await page.screenshot({ clip })).toString("base64");
  return decoder.evaluate(async png => {
    const bytes = Uint8Array.from(atob(png), letter => letter.charCodeAt(0));
    const bitmap = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
    const context = new OffscreenCanvas(bitmap.width, bitmap.height).getContext("2d");
    context.drawImage(bitmap, 0, 0);
    const at = x => context.getImageData(x, bitmap.height >> 1, 1, 1).data;
    const middle = at(bitmap.width >> 1);
    const shade = x => Math.max(...[0, 1, 2].map(channel => Math.abs(at(x)[channel] - middle[channel])));
    return { left: shade(2), right: shade(bitmap.width - 3) };
  }, png);
}

// A strip through the middle of a table's box, scrolled to its start or its end, without the table.
const stripOf = (box, end) => box.evaluate((box, end) => {
  for (const child of box.children) child.style.visibility = "hidden";
  box.scrollLeft = end ? box.scrollWidth : 0;
  box.scrollIntoView({ block: "center", behavior: "instant" });
  const { x, y, width, height } = box.getBoundingClientRect();
  return { hidden: box.scrollWidth - box.clientWidth, clip: { x, y: y + height / 2 - 1, width, height: 3 } };
}, end);

for (const scheme of ["light", "dark"]) {
  await check(`a shadow marks the edge behind which a table has more, ${scheme}`, async () => {
    // As narrow as a phone: there no table of phases fits.
    await page.setViewportSize({ width: 400, height: 900 });
    await page.emulateMedia({ colorScheme: scheme });
    const [marked, unmarked] = [40, 8];
    let scrolled = 0;
    for (const box of await page.locator(".scroll:visible", { has: page.locator("table") }).all()) {
      const start = await stripOf(box, false);
      const before = await shadesOf(start.clip);
      const after = await shadesOf((await stripOf(box, true)).clip);
      const said = `${start.hidden} px hidden, ${JSON.stringify({ before, after })}`;
      // The cover of the shadow is 40 px wide, and fades.
      if (start.hidden > 40) {
        scrolled++;
        assert.ok(before.right > marked && after.left > marked, said);
      }
      if (start.hidden > 40 || start.hidden === 0) assert.ok(before.left < unmarked && after.right < unmarked, said);
      if (start.hidden === 0) assert.ok(before.right < unmarked && after.left < unmarked, said);
      await box.evaluate(box => {
        for (const child of box.children) child.style.visibility = "";
        box.scrollLeft = 0;
      });
    }
    assert.ok(scrolled > 0, "no table is wider than the page");
    return `${scrolled} tables`;
  });
}
await decoder.context().close();
await page.setViewportSize({ width: 700, height: 900 });
await page.emulateMedia({ colorScheme: "light" });

if (shots) {
  await page.setViewportSize({ width: 1280, height: 900 });
  await page.emulateMedia({ colorScheme: "light" });
  const devtools = await page.context().newCDPSession(page);
  for (const type of ["protanopia", "deuteranopia", "tritanopia", "achromatopsia"]) {
    await devtools.send("Emulation.setEmulatedVisionDeficiency", { type });
    await page.screenshot({ path: `${shots}/${name}-${type}.png`, fullPage: true });
  }
  await devtools.send("Emulation.setEmulatedVisionDeficiency", { type: "none" });
}

await check("prints the static overview", async () => {
  await page.emulateMedia({ media: "print", colorScheme: "light" });
  assert.ok(await page.locator("svg.timeline").first().isVisible());
  assert.ok(await page.locator("#explorer").isHidden());
  if (shots) await page.pdf({ path: `${shots}/${name}.pdf`, format: "A4" });
});

await check("no complaint, no request", async () => {
  assert.deepEqual(main.complaints, []);
  assert.deepEqual(main.requests, []);
});
await main.close();

await check("says the same without script", async () => {
  const still = await open({ javaScriptEnabled: false });
  assert.equal(await still.page.locator("svg.timeline").count(), 1);
  assert.ok(await still.page.locator("svg.timeline").isVisible());
  const states = still.page.locator(".event-table .states");
  assert.ok(await states.count() >= 1 && await states.first().isVisible(), "no table of states");
  assert.equal(await still.page.locator("svg.bars").count(), 2);
  assert.ok(await still.page.locator("#table-metrics").isVisible());
  assert.ok(await still.page.locator("svg.timeline .disc").count() > 3, "no numbered events");
  assert.deepEqual(still.complaints, []);
  assert.deepEqual(still.requests, []);
  if (shots) await still.page.screenshot({ path: `${shots}/${name}-no-script.png`, fullPage: true });
  await still.close();
});

await browser.close();
end(name);
