"use strict";
// The page renews itself, finds tables and asks for snapshots; all of its HTML comes from the server.
const EVERY_MS = 5000, LIMIT_MS = 30000, LATE_S = 15, STALE_S = 60;
const [live, find, age, notice] = ["live", "find", "age", "notice"].map((id) => document.getElementById(id));
let seenAt = 0; // when the shown data was collected, by this browser's clock
let isAsking = false;

document.documentElement.classList.add("scripted");

function say(text, kind = "") {
  notice.textContent = text;
  notice.className = kind;
}

function shown() {
  seenAt = Date.now() - Number(live.dataset.age) * 1000;
  document.title = live.dataset.title;
  filter();
  tick();
}

function tick() {
  const seconds = Math.max(0, Math.round((Date.now() - seenAt) / 1000));
  age.textContent = `seen ${seconds} s ago`;
  age.className = seconds > STALE_S ? "bad" : seconds > LATE_S ? "warn" : "quiet";
  document.body.classList.toggle("stale", seconds > STALE_S); // its green is grey then
}

function filter() {
  const wanted = find.value.toLowerCase();
  for (const body of document.querySelectorAll("#tables tbody")) body.hidden = !body.dataset.name.includes(wanted);
}

// Makes one node like another and keeps what is equal: focus, selection and scroll places stay.
function patch(now, next) {
  if (now.isEqualNode(next)) return;
  const isAlike = now.nodeType === 1 && now.nodeName === next.nodeName
    && now.childNodes.length === next.childNodes.length && now.dataset.name === next.dataset.name;
  if (!isAlike) return now.replaceWith(next);
  for (const { name } of [...now.attributes]) if (!next.hasAttribute(name)) now.removeAttribute(name);
  for (const { name, value } of next.attributes) now.setAttribute(name, value);
  const children = [...next.childNodes];
  [...now.childNodes].forEach((child, place) => patch(child, children[place]));
}

function placeOf(element) {
  if (element?.dataset?.snapshot) return `button[data-snapshot="${CSS.escape(element.dataset.snapshot)}"]`;
  return element?.matches?.("#live a") ? `#live a[href="${CSS.escape(element.getAttribute("href"))}"]` : null;
}

async function answerOf(path, options) {
  const answer = await fetch(path, { ...options, signal: AbortSignal.timeout(LIMIT_MS) });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${answer.status} ${text.trim()}`);
  return text;
}

async function renew() {
  if (document.hidden || isAsking) return;
  isAsking = true;
  try {
    const next = document.createElement("template");
    next.innerHTML = await answerOf("/fragment", { cache: "no-store" });
    const place = placeOf(document.activeElement);
    patch(live, next.content.firstElementChild);
    if (place && !document.activeElement?.matches(place)) document.querySelector(place)?.focus();
    if (notice.className === "away") say("");
    shown();
  } catch (error) {
    say(`The page cannot be renewed: ${error.message}`, "away");
  } finally {
    isAsking = false;
  }
}

async function takeSnapshot(button) {
  const table = button.dataset.snapshot;
  if (!confirm(`Take a new snapshot of ${table}? Its rows are read from the source again and replace those in the lake.`)) return;
  button.disabled = true;
  try {
    const headers = { "Content-Type": "application/json" };
    await answerOf("/snapshot", { method: "POST", headers, body: JSON.stringify({ tables: [table] }) });
    say(`${table}: a new snapshot was requested.`);
  } catch (error) {
    say(`${table}: no snapshot was requested: ${error.message}`, "bad");
  } finally {
    button.disabled = false;
  }
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-snapshot]");
  if (button) takeSnapshot(button);
});

if (live) {
  find.addEventListener("input", filter);
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.target.matches("input, textarea")) return;
    event.preventDefault();
    find.focus();
  });
  document.addEventListener("visibilitychange", renew);
  shown();
  setInterval(tick, 1000);
  setInterval(renew, EVERY_MS);
}
