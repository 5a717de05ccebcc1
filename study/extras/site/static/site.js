// Filters and sorts what the page shows already; without it the page has all of it.
"use strict";

const form = document.getElementById("filter");
const marked = [...document.querySelectorAll(".point, .sortable tbody tr")];

function apply() {
  const wanted = [...form.querySelectorAll("select")].filter((field) => field.value);
  let shown = 0;
  for (const item of marked) {
    const keep = wanted.every((field) => item.dataset[field.name] === field.value);
    item.classList.toggle("off", !keep);
    shown += keep && item.localName === "tr";
  }
  form.querySelector("output").textContent = `${shown} finding${shown === 1 ? "" : "s"} shown`;
}

if (form) {
  form.hidden = false;
  form.addEventListener("change", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.reset();
}

function valueOf(row, column) {
  const cell = row.cells[column];
  const text = cell.dataset.value ?? cell.textContent.trim();
  return text !== "" && Number.isFinite(Number(text)) ? Number(text) : text;
}

function compare(one, other) {
  if (typeof one === "number" && typeof other === "number") return one - other;
  return String(one).localeCompare(String(other), "en");
}

function sortBy(table, heads, column) {
  const down = heads[column].getAttribute("aria-sort") === "ascending";
  heads.forEach((head) => head.removeAttribute("aria-sort"));
  heads[column].setAttribute("aria-sort", down ? "descending" : "ascending");
  const rows = [...table.tBodies[0].rows];
  rows.sort((a, b) => compare(valueOf(a, column), valueOf(b, column)) * (down ? -1 : 1));
  table.tBodies[0].append(...rows);
}

for (const table of document.querySelectorAll(".sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", () => sortBy(table, heads, column));
    head.append(button);
  });
}
