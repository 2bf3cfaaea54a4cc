"use strict";
(() => {
  const table = document.getElementById("instances");
  const rows = [...table.tBodies];
  const text = document.getElementById("text");
  const benchmark = document.getElementById("benchmark");
  const verdicts = [...document.querySelectorAll(".verdicts")];
  const count = document.getElementById("count");
  const opener = (row) => row.querySelector(".open");
  const visible = () => [...table.tBodies].filter((row) => !row.hidden);

  function filter() {
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = new Set(verdicts.filter((box) => box.checked).map((box) => box.value));
    for (const row of rows) {
      const { verdict, name, benchmark: own } = row.dataset;
      const fits = chosen.has(verdict) && words.every((word) => name.includes(word));
      row.hidden = !fits || Boolean(benchmark && benchmark.value && benchmark.value !== own);
    }
    count.textContent = `${visible().length} of ${rows.length} shown`;
  }

  function key(row, column, kind) {
    const value = row.rows[0].cells[column].dataset.key;
    return kind === "text" ? value : value === "" ? -Infinity : Number(value);
  }

  function sort(button) {
    const heading = button.parentElement;
    const { column, kind } = button.dataset;
    const up = heading.getAttribute("aria-sort") !== "ascending";
    for (const other of heading.parentElement.cells) other.setAttribute("aria-sort", "none");
    heading.setAttribute("aria-sort", up ? "ascending" : "descending");
    const keyed = rows.map((row, place) => ({ row, place, key: key(row, column, kind) }));
    keyed.sort((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0) * (up ? 1 : -1) || a.place - b.place);
    table.append(...keyed.map((entry) => entry.row));
  }

  function toggle(button) {
    const detail = document.getElementById(button.getAttribute("aria-controls"));
    detail.hidden = !detail.hidden;
    button.setAttribute("aria-expanded", String(!detail.hidden));
  }

  async function copy(button) {
    const code = button.parentElement.querySelector("code");
    try {
      await navigator.clipboard.writeText(code.textContent);
    } catch {
      getSelection().selectAllChildren(code);
      document.execCommand("copy");
    }
    button.textContent = "Copied";
  }

  function move(step) {
    const shown = visible();
    const at = shown.indexOf(document.activeElement.closest("#instances > tbody"));
    const next = shown[at < 0 ? 0 : Math.min(Math.max(at + step, 0), shown.length - 1)];
    if (next) opener(next).focus();
  }

  function typed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const inText = document.activeElement === text;
    if (event.key === "/" && !inText) text.focus();
    else if (event.key === "Escape" && inText) { text.value = ""; filter(); }
    else if (event.key === "ArrowDown" && document.activeElement.tagName !== "SELECT") move(1);
    else if (event.key === "ArrowUp" && document.activeElement.tagName !== "SELECT") move(-1);
    else return;
    event.preventDefault();
  }

  table.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.dataset.column !== undefined) sort(button);
    else if (button.classList.contains("open")) toggle(button);
    else if (button.classList.contains("copy")) copy(button);
  });
  document.getElementById("controls").addEventListener("submit", (event) => event.preventDefault());
  text.addEventListener("input", filter);
  for (const box of verdicts) box.addEventListener("change", filter);
  if (benchmark) benchmark.addEventListener("change", filter);
  document.addEventListener("keydown", typed);
  const wanted = location.hash && document.querySelector(`[aria-controls="${CSS.escape(location.hash.slice(1))}"]`);
  if (wanted) toggle(wanted);
  filter();
})();
