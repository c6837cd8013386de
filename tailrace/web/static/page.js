"use strict";
// What the page does beyond its text: it renews itself, finds tables, and asks for snapshots.
const main = document.getElementById("main");
const every = Number(main.dataset.refresh || 0);
let wanted = "";

function show() {
  for (const button of document.querySelectorAll("button[data-snapshot]")) button.hidden = false;
  for (const body of document.querySelectorAll("#tables tbody")) {
    body.hidden = !body.dataset.name.includes(wanted);
  }
}

async function renew() {
  if (document.hidden || document.activeElement?.matches("button, #find:not(:placeholder-shown)")) return;
  try {
    const answer = await fetch("/fragment", { cache: "no-store" });
    if (!answer.ok) return;
    const focused = document.activeElement?.id;
    const scrolled = document.querySelector(".wide")?.scrollLeft ?? 0;
    main.innerHTML = await answer.text();
    const find = document.getElementById("find");
    if (find) find.value = wanted;
    const wide = document.querySelector(".wide");
    if (wide) wide.scrollLeft = scrolled;
    if (focused) document.getElementById(focused)?.focus();
    show();
    document.body.classList.remove("away");
  } catch {
    document.body.classList.add("away");
  }
}

main.addEventListener("input", (event) => {
  if (event.target.id !== "find") return;
  wanted = event.target.value.toLowerCase();
  show();
});

main.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-snapshot]");
  if (!button) return;
  const table = button.dataset.snapshot;
  if (!confirm(`Read ${table} anew? Its rows are read from the source and replace those of the lake.`)) return;
  button.disabled = true;
  const answer = await fetch("/snapshot", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ tables: [table] }),
  });
  button.textContent = answer.ok ? "asked" : (await answer.text()).trim();
  button.disabled = answer.ok;
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.target.matches("input, textarea")) return;
  const find = document.getElementById("find");
  if (find) { event.preventDefault(); find.focus(); }
});

show();
if (every) setInterval(renew, every * 1000);
