// Opens a comparison in headless Chromium and uses it, as a reader would. Usage: node compare.mjs FILE.html [SHOTS]
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { basename, resolve } from "node:path";
import { check, complaintsOf, end, launch, within } from "./browser.mjs";

const file = resolve(process.argv[2]);
const shots = process.argv[3] ?? null;
const name = basename(file, ".html");
if (shots) mkdirSync(shots, { recursive: true });

const browser = await launch();
const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
const complaints = complaintsOf(page), requests = [];
page.on("request", request => { if (request.url() !== "file://" + file) requests.push(request.url()); });
await within(60, "opening the comparison", page.goto("file://" + file, { waitUntil: "load" }));

const shown = selector => page.$$eval(selector, list => list.filter(one => one.checkVisibility()).length);

await check("one alignment and one layer are shown, and others can be chosen", async () => {
  const groups = await page.locator("#timelines figure").count();
  assert.ok(groups >= 1, "no group has timelines");
  const expect = async (align, layer) => {
    assert.equal(await shown(".aligned"), groups);
    assert.equal(await shown(`.aligned[data-align="${align}"]`), groups);
    const layers = await shown(".of-layer");
    assert.ok(layers >= 1, "no layer is shown");
    assert.equal(await shown(`.of-layer[data-layer=${layer}]`), layers);
  };
  await expect(0, "target");
  await page.locator("input[name=align]").nth(1).check();
  await expect(1, "target");
  await page.locator("#layer-compressed").check();
  await expect(1, "compressed");
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
for (const width of [1280, 700]) {
  for (const scheme of ["light", "dark"]) {
    await check(`fits ${width} px, ${scheme}`, async () => {
      await page.setViewportSize({ width, height: 900 });
      await page.emulateMedia({ colorScheme: scheme });
      const [content, view] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
      assert.ok(content <= view, `${content} px of content in ${view} px`);
      if (shots) await page.screenshot({ path: `${shots}/${name}-${width}-${scheme}.png`, fullPage: true });
    });
  }
}

await check("nothing from outside runs or becomes an element", async () => {
  assert.equal(await page.evaluate(() => window.broken), undefined);
  assert.equal(await page.locator("img, iframe, object, embed, [onerror], [onload]").count(), 0);
});

await check("no complaint, no request", async () => {
  assert.deepEqual(complaints, []);
  assert.deepEqual(requests, []);
});

await browser.close();
end(name);
