// Starts headless Chromium, and counts checks. Used by page.mjs, compare.mjs and live.mjs.
import assert from "node:assert/strict";
import { chromium } from "playwright-core";

export const launch = () => chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});

// Seconds that one check, and that the whole script may take on a busy machine. A page whose script does not run or does
// not end would keep every call that waits for it.
const CHECK_S = 120, SCRIPT_S = 900;

setTimeout(() => {
  console.log(`FAIL the script did not end within ${SCRIPT_S} s`);
  process.exit(1);
}, SCRIPT_S * 1000).unref();

// Settles as the promise does; rejects when that takes too long.
export function within(seconds, what, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} took more than ${seconds} s`)), seconds * 1000);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

let failures = 0;
export async function check(what, action) {
  try {
    const said = await within(CHECK_S, what, action());
    console.log(`ok   ${what}${said ? ": " + said : ""}`);
  } catch (error) {
    failures++;
    console.log(`FAIL ${what}: ${error.message}`);
  }
}

// The errors and warnings of a page, as they come.
export function complaintsOf(page) {
  const complaints = [];
  page.on("console", message => { if (["error", "warning"].includes(message.type())) complaints.push(message.text()); });
  page.on("pageerror", error => complaints.push(error.message));
  return complaints;
}

// The number of colours on each canvas: one that is empty has one.
export const coloursOf = page => page.$$eval(".plot canvas", list => list.map(canvas => {
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  const seen = new Set();
  for (let at = 0; at < pixels.length; at += 404) seen.add((pixels[at] << 16) | (pixels[at + 1] << 8) | pixels[at + 2]);
  return seen.size;
}));

// Waits until a page whose size has changed has drawn its charts anew, and checks that none reaches out of it.
export async function fitsSoon(page) {
  const widths = () => page.evaluate(() => {
    const root = document.documentElement;
    return [root.scrollWidth, ...[...document.querySelectorAll(".uplot canvas")].map(canvas => canvas.getBoundingClientRect().right - 1)]
      .map(content => Math.round(content - root.clientWidth));
  });
  for (let tries = 0; ; tries++) {
    const over = Math.max(...await widths());
    if (over <= 0) return;
    assert.ok(tries < 100, `content reaches ${over} px out of the page`);
    await page.waitForTimeout(100);
  }
}

export function end(name) {
  console.log(failures === 0 ? `${name}: all well` : `${name}: ${failures} failed`);
  process.exit(failures === 0 ? 0 : 1);
}
