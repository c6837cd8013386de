"use strict";
// The page renews itself, finds tables and sends signals; all of its HTML comes from the server.
const EVERY_MS = 5000, LIMIT_MS = 30000, LATE_S = 15, STALE_S = 60;
const [live, find, age, notice, icon, counts] = ["live", "find", "age", "notice", "icon", "counts"].map((id) => document.getElementById(id));
const CONSEQUENCES = {
  snapshot: "Its rows are read from the source again and replace those in the lake.",
  pause_snapshot: "Its changes continue; no further row of its snapshot is read.",
  resume_snapshot: "Its snapshot continues where it was.",
  stop_snapshot: "Its changes continue, but it stays out of the lake's cuts until its next snapshot.",
  stop_table: "Its changes from now on are not published until its next snapshot.",
  pause: "Nothing is published until somebody resumes the publisher. Changes wait in the source, as long as it keeps them.",
  resume: "The publisher continues where it was.",
};
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
  counts.textContent = live.dataset.counts;
  filter();
  tick();
}

function tick() {
  const seconds = Math.max(0, Math.round((Date.now() - seenAt) / 1000));
  age.textContent = `seen ${seconds} s ago`;
  age.className = seconds > STALE_S ? "bad" : seconds > LATE_S ? "warn" : "quiet";
  document.body.classList.toggle("stale", seconds > STALE_S); // its green is grey then
  icon.href = `static/icon-${seconds > STALE_S ? "plain" : live.dataset.state}.svg`;
}

function filter() {
  const wanted = find.value.toLowerCase();
  for (const row of document.querySelectorAll("#tables [data-name][data-table]")) row.hidden = !row.dataset.name.includes(wanted);
  const folded = document.querySelector("#tables details.group");
  if (wanted && folded) folded.open = true;
}

// Makes one node like another and keeps what is equal: focus, selection, scroll places and what is open stay.
function patch(now, next) {
  if (now.isEqualNode(next)) return;
  const isAlike = now.nodeType === 1 && now.nodeName === next.nodeName && now.dataset.name === next.dataset.name;
  const isKeyed = isAlike && "keyed" in now.dataset && "keyed" in next.dataset;
  if (!isAlike || (!isKeyed && now.childNodes.length !== next.childNodes.length)) return now.replaceWith(next);
  for (const { name } of [...now.attributes]) if (!next.hasAttribute(name) && name !== "open") now.removeAttribute(name);
  for (const { name, value } of next.attributes) now.setAttribute(name, value);
  const children = [...next.childNodes];
  if (!isKeyed) return [...now.childNodes].forEach((child, place) => patch(child, children[place]));
  const known = new Map([...now.children].map((child) => [child.dataset.name, child]));
  children.forEach((child, place) => {
    const was = known.get(child.dataset.name);
    known.delete(child.dataset.name);
    if (now.children[place] !== (was ?? child)) now.insertBefore(was ?? child, now.children[place] ?? null);
    if (was) patch(was, child);
  });
  for (const gone of known.values()) gone.remove();
}

function placeOf(element) {
  const { signal, table } = element?.dataset ?? {};
  if (signal) return `button[data-signal="${signal}"]${table ? `[data-table="${CSS.escape(table)}"]` : ""}`;
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
    next.innerHTML = await answerOf("fragment", { cache: "no-store" });
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

async function send(button) {
  const { signal, table } = button.dataset;
  const what = `${button.textContent}${table ? `: ${table}` : ""}`;
  if (!confirm(`${what}?\n\n${CONSEQUENCES[signal]}`)) return;
  button.disabled = true;
  try {
    const headers = { "Content-Type": "application/json" };
    const body = JSON.stringify({ type: signal, ...(table ? { tables: [table] } : {}) });
    await answerOf("signal", { method: "POST", headers, body });
    say(`${what}: requested; the outcome is listed under Requests.`);
    if (live) renew();
  } catch (error) {
    say(`${what}: not requested: ${error.message}`, "bad");
  } finally {
    button.disabled = false;
  }
}

async function copy(button) {
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    say(`Copied: ${button.dataset.copy}`);
  } catch (error) {
    say(`Not copied: ${error.message}`, "warn");
  }
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-signal], button[data-copy]");
  for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
  if (button?.dataset.signal) send(button);
  else if (button) copy(button);
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
