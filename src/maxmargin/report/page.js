"use strict";
// A click on the name of a column sorts its table: numbers from the largest on, texts from the first on.
const number = (text) => (text.trim() === "" ? NaN : Number(text.replace("∞", "Infinity")));
for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => {
    const head = button.parentElement;
    const body = head.closest("table").tBodies[0];
    const rows = [...body.rows].map((row) => [row.cells[head.cellIndex].textContent, row]);
    const numbers = rows.some(([text]) => !Number.isNaN(number(text)));
    const before = head.getAttribute("aria-sort");
    const up = before ? before === "descending" : !numbers;
    for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    rows.sort(([a], [b]) => {
      if (!numbers) return (up ? 1 : -1) * a.localeCompare(b);
      const [x, y] = [number(a), number(b)];
      if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
      return x === y ? 0 : (up ? 1 : -1) * (x < y ? -1 : 1);
    });
    body.append(...rows.map(([, row]) => row));
  });
}
