"use strict";
// Runs the page's script among stand-ins for the browser's objects; prints what an operator sees.
const fs = require("node:fs"), vm = require("node:vm");

const listeners = {}, timers = [], asked = [];
let now = 1_000_000;
let answer; // of the next fetch

class Element {
  constructor(dataset = {}) {
    Object.assign(this, { dataset, textContent: "", className: "", value: "", disabled: false });
    this.classes = new Set();
    this.classList = {
      add: (name) => this.classes.add(name),
      toggle: (name, is) => (is ? this.classes.add(name) : this.classes.delete(name)),
    };
  }
  isEqualNode(next) { this.dataset = next.dataset; return true; } // a renewal brings its data
  matches() { return false; }
  contains() { return false; }
  closest() { return this.dataset.signal ? this : null; }
  addEventListener() {}
  focus() {}
}

const parts = {
  live: new Element({ age: "2.0", title: "shop", state: "good", counts: "1 table" }),
  find: new Element(), age: new Element(), notice: new Element(), icon: new Element(), counts: new Element(),
};
const button = new Element({ signal: "snapshot", table: "dbo.a" });
button.textContent = "new snapshot";
const document = {
  hidden: false, title: "", activeElement: null,
  body: new Element(), documentElement: new Element(),
  getElementById: (id) => parts[id],
  querySelector: () => null, querySelectorAll: () => [],
  createElement: () => ({
    content: {},
    set innerHTML(html) {
      this.content.firstElementChild = { dataset: { age: /data-age="([^"]*)"/.exec(html)[1], title: "shop", state: "good", counts: "1 table" } };
    },
  }),
  addEventListener: (name, listener) => { listeners[name] = listener; },
};
const fetch = (path) => { asked.push(path); return answer(path); };
const text = (status, body) => async () => ({ ok: status < 400, status, text: async () => body });
const fresh = text(200, '<div data-age="0.5"></div>');
const refused = () => Promise.reject(new Error("Failed to fetch"));

vm.runInNewContext(fs.readFileSync(process.argv[2], "utf8"), {
  document, fetch, CSS: { escape: (name) => name }, AbortSignal, confirm: () => true,
  Date: { now: () => now }, setInterval: (call, ms) => timers.push({ call, ms }),
});
const [tick, renew] = timers.map((timer) => timer.call);
const seen = () => [parts.age.textContent, parts.age.className, parts.notice.textContent, document.body.classes.has("stale")];
const after = (seconds) => { now += seconds * 1000; tick(); return seen(); };
const renewed = async (next) => { answer = next; await renew(); return seen(); };
const settled = () => new Promise(setImmediate);

(async () => {
  const report = { loaded: seen(), every_ms: timers.map((timer) => timer.ms) };
  report.late = after(14), report.stale = after(45);
  for (const name of ["find", "button"]) {
    document.activeElement = name === "button" ? button : parts.find;
    report[`with_focus_on_${name}`] = await renewed(fresh);
    after(20);
  }
  report.refused = await renewed(text(401, "give the token\n"));
  report.unready = await renewed(text(503, "try again"));
  report.away = await renewed(refused);
  report.back = await renewed(fresh);

  let release;
  answer = () => new Promise((resolve) => { release = resolve; });
  const hanging = renew(), before = asked.length;
  await renew();
  report.asked_while_one_hangs = asked.length - before;
  release(await fresh()), await hanging;

  for (const [name, next] of [["lost", refused], ["rejected", text(400, "no such table")], ["taken", (path) => (path === "signal" ? text(202, "{}") : fresh)()]]) {
    answer = next;
    listeners.click({ target: button });
    await settled(), await settled();
    report[`snapshot_${name}`] = [parts.notice.textContent, button.disabled];
  }
  console.log(JSON.stringify(report));
})();
