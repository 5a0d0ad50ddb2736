// Opens the live page of `plimsoll watch --serve` in headless Chromium and uses it, as its reader would. The page is
// reached through a proxy, so that the connection can be cut. Usage: node live.mjs PLIMSOLL [SHOTS]
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync } from "node:fs";
import { connect, createServer } from "node:net";
import { createInterface } from "node:readline";
import { check, coloursOf, complaintsOf, end, launch } from "./browser.mjs";

const plimsoll = process.argv[2];
const shots = process.argv[3] ?? null;
if (shots) mkdirSync(shots, { recursive: true });

// Starts a monitor and gives the address that it prints.
async function watch(...options) {
  const child = spawn(plimsoll, ["watch", "--serve", "127.0.0.1:0", "--quiet", ...options], { stdio: ["ignore", "pipe", "inherit"] });
  const address = await new Promise((resolve, reject) => {
    createInterface({ input: child.stdout }).once("line", resolve);
    child.once("exit", code => reject(new Error(`plimsoll ended with ${code}`)));
  });
  const ended = new Promise(resolve => child.once("exit", resolve));
  return { url: new URL(address), stop: () => { child.kill("SIGINT"); return ended; } };
}

// A way to a port that can be cut. It writes the port it leads to into the requests' headers, as the server expects.
async function proxy(port) {
  const open = new Set();
  const server = createServer(client => {
    const upstream = connect(port, "127.0.0.1");
    const own = server.address().port;
    client.on("data", data => upstream.write(data.toString("latin1").replaceAll(`127.0.0.1:${own}`, `127.0.0.1:${port}`), "latin1"));
    upstream.on("data", data => client.write(data));
    for (const [one, other] of [[client, upstream], [upstream, client]]) {
      open.add(one);
      one.on("close", () => { open.delete(one); other.destroy(); });
      one.on("error", () => {});
    }
  });
  const listen = at => new Promise(resolve => server.listen(at, "127.0.0.1", resolve));
  await listen(0);
  const own = server.address().port;
  return {
    port: own,
    cut: () => new Promise(resolve => { server.close(resolve); for (const one of open) one.destroy(); }),
    restore: () => listen(own),
  };
}

const browser = await launch();

async function open(address) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 }, colorScheme: "light" });
  const complaints = complaintsOf(page);
  await page.goto(address, { waitUntil: "load" });
  return { page, complaints };
}

const range = page => page.locator("#range").textContent();
const connection = (page, state, timeout = 20000) => page.locator(`#connection[data-state=${state}]`).waitFor({ timeout });

const monitor = await watch("--allow-actions");
const way = await proxy(Number(monitor.url.port));
const { page, complaints } = await open(`http://127.0.0.1:${way.port}${monitor.url.pathname}${monitor.url.search}`);

await check("connects and draws every panel", async () => {
  await connection(page, "live");
  await page.waitForTimeout(3000);
  const drawn = await coloursOf(page);
  assert.equal(drawn.length, 6, `${drawn.length} panels`);
  assert.ok(drawn.every(colours => colours > 1), `an empty canvas: ${drawn}`);
  assert.match(await page.textContent("#values"), /10 Hz.*PSI memory.*some/);
});

await check("goes on by itself", async () => {
  const before = await range(page);
  await page.waitForTimeout(1500);
  assert.notEqual(await range(page), before);
});

await check("freeze holds the picture still", async () => {
  await page.click("#freeze");
  await page.waitForTimeout(500);
  const before = await range(page);
  await page.waitForTimeout(1200);
  assert.equal(await range(page), before);
  await page.click("#freeze");
  await page.waitForTimeout(600);
  assert.notEqual(await range(page), before);
});

async function box(panel) {
  const over = page.locator(`.plot[data-panel=${panel}] .u-over`);
  await over.scrollIntoViewIfNeeded();
  return over.boundingBox();
}

await check("a mark set by its button appears, and the table counts from it", async () => {
  await page.getByRole("button", { name: "Set mark 2" }).click();
  await page.locator(".marker", { hasText: "2" }).waitFor({ timeout: 5000 });
  await page.waitForFunction(() => document.getElementById("readout-since").textContent === "since 2");
});

// A label that would lie on the one before is left out, so marks are set apart.
const apart = () => page.waitForTimeout(2000);

await check("a note of markup stays a note", async () => {
  await apart();
  await page.fill("#note", "<img src=x onerror=window.broken=1>");
  await page.keyboard.press("Enter");
  await page.locator(".marker", { hasText: "m" }).waitFor({ timeout: 5000 });
  assert.match(await page.locator(".marker", { hasText: "m" }).getAttribute("title"), /<img src=x/);
  assert.equal(await page.locator("img").count(), 0);
  assert.equal(await page.evaluate(() => window.broken), undefined);
});

await check("the keyboard sets marks, but not while a note is typed", async () => {
  await apart();
  await page.locator("#plots").focus();
  await page.keyboard.press("4");
  await page.locator(".marker", { hasText: "4" }).waitFor({ timeout: 5000 });
  await page.locator("#note").focus();
  await page.keyboard.press("3");
  await page.waitForTimeout(700);
  assert.equal(await page.inputValue("#note"), "3");
  assert.equal(await page.locator(".marker", { hasText: "3" }).count(), 0);
  await page.fill("#note", "");
});

await check("hovering fills the table", async () => {
  const area = await box("swap");
  await page.mouse.move(area.x + area.width - 30, area.y + 20);
  await page.waitForFunction(() => document.getElementById("readout-at").textContent === "at crosshair");
  const values = await page.$$eval("#readout tr[data-key]:not([hidden]) td:nth-child(2)", list => list.map(cell => cell.textContent));
  assert.ok(values.length > 20, `${values.length} values`);
  assert.ok(values.filter(text => /\d/.test(text)).length > 15, values.join(" "));
});

await check("a drag zooms and holds, a double click goes back", async () => {
  const area = await box("io");
  await page.mouse.move(area.x + area.width * 0.9, area.y + 20);
  await page.mouse.down();
  await page.mouse.move(area.x + area.width * 0.97, area.y + 20, { steps: 5 });
  await page.mouse.up();
  const zoomed = await range(page);
  assert.equal(await page.getAttribute("#live", "aria-pressed"), "false");
  await page.waitForTimeout(1000);
  assert.equal(await range(page), zoomed, "it moved");
  await page.mouse.dblclick(area.x + area.width / 2, area.y + 20);
  assert.equal(await page.getAttribute("#live", "aria-pressed"), "true");
  assert.notEqual(await range(page), zoomed);
});

await check("release is asked for first", async () => {
  await page.click("#release");
  await page.locator("#confirm[open]").waitFor({ timeout: 5000 });
  await page.click("#cancelled");
  assert.equal(await page.locator("#confirm[open]").count(), 0);
});

for (const width of [1280, 700]) {
  for (const scheme of ["light", "dark"]) {
    await check(`fits ${width} px, ${scheme}`, async () => {
      await page.setViewportSize({ width, height: 900 });
      await page.emulateMedia({ colorScheme: scheme });
      await page.waitForTimeout(600);
      const [content, view] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
      if (shots) await page.screenshot({ path: `${shots}/live-${width}-${scheme}.png` });
      assert.ok(content <= view, `${content} px of content in ${view} px`);
    });
  }
}
await page.setViewportSize({ width: 1280, height: 900 });

const harmless = complaints.length;
await check("no complaint so far", () => assert.deepEqual(complaints, []));

await check("says that it reconnects, and goes on with what it missed", async () => {
  await way.cut();
  await connection(page, "reconnecting");
  await page.waitForTimeout(2000);
  await way.restore();
  await connection(page, "live");
  await page.waitForTimeout(1000);
  assert.ok(await page.locator(".marker").count() > 0, "the marks are gone");
});

await check("says that the monitor ended", async () => {
  assert.equal(await monitor.stop(), 0);
  await connection(page, "ended");
  assert.match(await page.textContent("#connection"), /SIGINT/);
});

await check("no complaint but of the cut connection", () => {
  const others = complaints.slice(harmless).filter(text => !/net::ERR|Failed to load resource/.test(text));
  assert.deepEqual(others, []);
});
await page.close();

await check("without --allow-actions there is nothing to press", async () => {
  const quiet = await watch();
  const other = await open(quiet.url.href);
  await connection(other.page, "live");
  await other.page.waitForTimeout(500);
  assert.ok(await other.page.locator("#actions").isHidden());
  assert.deepEqual(other.complaints, []);
  await other.page.close();
  await quiet.stop();
});

await check("stacks the states of a pager once its target has one", async () => {
  const program = [plimsoll, "run", "compression", "--quiet", "--set", "subject=pager", "--set", "size=128M", "--set", "repeat=20", "--set", "class=ratio=2.5"];
  const target = await watch("--", ...program);
  const other = await open(target.url.href);
  await connection(other.page, "live");
  await other.page.locator(".plot[data-panel=pager]").waitFor({ timeout: 30000 });
  await other.page.waitForTimeout(3000);
  const panel = other.page.locator(".plot[data-panel=pager]");
  await panel.scrollIntoViewIfNeeded();
  if (shots) await other.page.screenshot({ path: `${shots}/live-pager.png`, fullPage: true });
  const keys = await other.page.$$eval("#readout tbody[data-group=pager] tr[data-key]:not([hidden])", rows => rows.map(row => row.dataset.key));
  assert.deepEqual(keys, ["metadata", "page-file", "compressed", "standby-low", "standby", "modified", "active"].map(state => "pager-" + state));
  const drawn = await coloursOf(other.page);
  assert.equal(drawn.length, 7, `${drawn.length} panels`);
  assert.ok(drawn.every(colours => colours > 1), `an empty canvas: ${drawn}`);
  assert.deepEqual(other.complaints, []);
  await other.page.close();
  await target.stop();
});

await way.cut();
await browser.close();
end("live page");
