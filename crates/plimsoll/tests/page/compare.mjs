// Opens a comparison in headless Chromium and uses it, as a reader would. Usage: node compare.mjs FILE.html [SHOTS]
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { basename, resolve } from "node:path";
import { check, coloursOf, complaintsOf, end, fitsSoon, launch, within } from "./browser.mjs";

const file = resolve(process.argv[2]);
const shots = process.argv[3] ?? null;
const name = basename(file, ".html");
if (shots) mkdirSync(shots, { recursive: true });

const browser = await launch();
const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
const complaints = complaintsOf(page), requests = [];
page.on("request", request => { if (request.url() !== "file://" + file) requests.push(request.url()); });
await within(60, "opening the comparison", page.goto("file://" + file, { waitUntil: "load" }));
// Without its script every later check would wait in vain for what the script makes.
if (complaints.length > 0) {
  console.log(`FAIL the comparison complains as it opens: ${complaints.join("; ")}`);
  process.exit(1);
}

const data = await page.evaluate(() => JSON.parse(document.getElementById("data").textContent));
const shown = selector => page.$$eval(selector, list => list.filter(one => one.checkVisibility()).length);
const texts = selector => page.locator(selector).allTextContents();
const range = () => page.locator("#range").textContent();
const pressed = bar => page.$$eval(`#${bar} button[aria-pressed=true]`, list => list.map(one => one.value));

await check("charts are drawn, in place of the static drawings", async () => {
  const drawn = await coloursOf(page);
  // Two runs, a layer of both, and its difference.
  assert.equal(drawn.length, 4);
  assert.ok(drawn.every(colours => colours > 1), `an empty canvas: ${drawn}`);
  assert.equal(await shown("svg.timeline"), 0);
});

await check("groups, alignments and layers can be chosen", async () => {
  assert.ok(data.groups.length >= 2, `${data.groups.length} groups`);
  for (let group = data.groups.length - 1; group >= 0; group--) {
    await page.locator("#groups button").nth(group).click();
    assert.deepEqual(await pressed("groups"), [String(group)]);
    assert.equal(await page.locator("#plots .plot").count(), 4);
  }
  assert.deepEqual(await pressed("alignments"), ["start"]);
  assert.deepEqual(await pressed("layers"), ["target"]);
  const from = await range();
  const places = () => page.$$eval(".marker", list => list.filter(mark => mark.textContent === "2").map(mark => mark.style.left));
  assert.equal(new Set(await places()).size, 2);
  await page.click("#alignments button[value='2']");
  assert.deepEqual(await pressed("alignments"), ["2"]);
  assert.notEqual(await range(), from);
  // The mark by which the runs are aligned has the same place in both.
  const aligned = await places();
  assert.equal(aligned.length, 2, `${aligned.length} marks`);
  assert.equal(aligned[0], aligned[1]);
  await page.click("#layers button[value=compressed]");
  const { label } = data.layers.find(layer => layer.ink === "compressed");
  assert.ok((await texts(".plot-head strong")).includes(label), label);
  await page.click("#layers button[value=target]");
  await page.click("#alignments button[value=start]");
  assert.equal(await range(), from);
});

await check("events 1 to 4 of each run are marked", async () => {
  const marks = await texts(".marker");
  assert.deepEqual([...new Set(marks)].sort(), ["1", "2", "3", "4"]);
  assert.ok(marks.length >= 8, `${marks}`);
});

// The value of a cell in MiB.
const mib = text => {
  const found = /^(\u2212?)([\d.]+)(?: (B|KiB|MiB|GiB))?$/.exec(text);
  assert.ok(found, `no value: ${text}`);
  const [, sign, number, unit] = found;
  return (sign ? -1 : 1) * number * { B: 2 ** -20, KiB: 2 ** -10, MiB: 1, GiB: 1024 }[unit ?? "B"];
};

await check("the crosshair fills the table, and the difference is that of the values", async () => {
  const over = page.locator("#plots .u-over").first();
  await over.scrollIntoViewIfNeeded();
  const box = await over.boundingBox();
  const values = group => page.$$eval(`#readout tbody[data-group=${group}] tr:not(.head)`, rows => rows.map(row => row.cells[1].textContent));
  let most = 0, differs = 0;
  for (const share of [0.2, 0.4, 0.6]) {
    await page.mouse.move(box.x + box.width * share, box.y + box.height / 2);
    const [first, second] = (await values("overlay")).map(mib), [difference] = (await values("difference")).map(mib);
    // Each value has three digits.
    assert.ok(Math.abs(second - first - difference) <= 0.02 * Math.max(first, second) + 0.01, `${second} - ${first} = ${difference}`);
    most = Math.max(most, first, second);
    differs = Math.max(differs, Math.abs(difference));
  }
  assert.ok(most > 1 && differs > 1, `${most} MiB, of which the runs differ in ${differs}`);
  assert.match(await page.textContent("#readout-time"), / s after A: [1-4] /);
});

await check("drag zooms, reset and Escape show all again", async () => {
  const before = await range();
  const over = page.locator("#plots .u-over").first();
  const escape = async () => {
    await page.locator("#plots").focus();
    await page.keyboard.press("Escape");
  };
  for (const show of [() => page.click("#reset"), escape]) {
    await over.scrollIntoViewIfNeeded();
    const box = await over.boundingBox();
    await page.mouse.move(box.x + box.width * 0.3, box.y + 20);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.6, box.y + 20, { steps: 5 });
    await page.mouse.up();
    assert.notEqual(await range(), before);
    await show();
    assert.equal(await range(), before);
  }
});

await check("the table sorts both ways, by value", async () => {
  const head = page.locator("#table th.number").first();
  const column = await head.evaluate(cell => cell.cellIndex + 1);
  const keys = () => page.$$eval(`#table tbody tr td:nth-child(${column})`, cells => cells.map(cell => +cell.dataset.sort));
  await head.locator("button").click();
  const up = await keys();
  await head.locator("button").click();
  const down = await keys();
  assert.deepEqual(up, [...up].sort((a, b) => a - b));
  assert.deepEqual(down, [...up].reverse().sort((a, b) => b - a));
  assert.notDeepEqual(up, down);
});

// The drawings of a pair were wider than their columns, and reached out of the page.
async function fits(page, width, scheme, suffix) {
  await page.setViewportSize({ width, height: 900 });
  await page.emulateMedia({ colorScheme: scheme });
  await fitsSoon(page);
  if (shots) await page.screenshot({ path: `${shots}/${name}-${width}-${scheme}${suffix}.png`, fullPage: true });
}

for (const width of [1280, 700]) {
  for (const scheme of ["light", "dark"]) {
    await check(`fits ${width} px, ${scheme}`, () => fits(page, width, scheme, ""));
  }
}

await check("nothing from outside runs or becomes an element", async () => {
  assert.equal(await page.evaluate(() => window.broken), undefined);
  assert.equal(await page.locator("img, iframe, object, embed, [onerror], [onload]").count(), 0);
  assert.equal(await page.locator("script").count(), 2);
});

await check("prints the static drawings", async () => {
  await page.emulateMedia({ media: "print", colorScheme: "light" });
  assert.equal(await shown("#timelines svg.timeline"), 2 * data.groups.length);
  assert.ok(await page.locator("#explorer").isHidden());
  await page.emulateMedia({ media: "screen" });
});

await check("no complaint, no request", async () => {
  assert.deepEqual(complaints, []);
  assert.deepEqual(requests, []);
});

await check("has a drawing of each run and the difference without script", async () => {
  const context = await browser.newContext({ javaScriptEnabled: false });
  const still = await context.newPage();
  await still.goto("file://" + file, { waitUntil: "load" });
  assert.equal(await still.locator("#timelines figure").count(), data.groups.length);
  assert.equal(await still.locator("#timelines svg.timeline").count(), 2 * data.groups.length);
  assert.equal(await still.locator("#timelines svg.xy").count(), data.groups.length);
  assert.ok(await still.locator("#timelines svg.timeline").first().isVisible());
  assert.ok(await still.locator("#explorer").isHidden());
  for (const width of [1280, 700]) await fits(still, width, "light", "-no-script");
  await context.close();
});

await browser.close();
end(name);
