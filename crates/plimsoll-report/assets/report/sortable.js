// Makes the tables of a report sortable by a click on a head of their columns. Cells are sorted by data-sort or, without
// one, by their text.
(function () {
"use strict";

function sortable(table) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    button.addEventListener("click", () => sortBy(table, heads, column));
    head.replaceChildren(button);
  });
}

function sortBy(table, heads, column) {
  const descending = heads[column].getAttribute("aria-sort") === "ascending";
  const numeric = heads[column].classList.contains("number");
  const body = table.tBodies[0];
  const rows = [...body.rows].map(row => ({ row, key: row.cells[column].dataset.sort ?? row.cells[column].textContent }));
  rows.sort((a, b) => {
    // What is missing stays last, whichever way.
    if (a.key === "" || b.key === "") return (a.key === "") - (b.key === "");
    const order = numeric ? a.key - b.key : a.key.localeCompare(b.key, "en", { numeric: true });
    return descending ? -order : order;
  });
  body.append(...rows.map(one => one.row));
  heads.forEach((head, at) => at === column ? head.setAttribute("aria-sort", descending ? "descending" : "ascending") : head.removeAttribute("aria-sort"));
}

document.querySelectorAll("table.sortable").forEach(sortable);
})();
