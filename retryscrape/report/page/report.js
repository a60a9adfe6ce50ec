"use strict";
(() => {
  const table = document.getElementById("residue");
  if (!table) return;
  const rows = Array.from(table.tBodies[0].rows);
  const texts = rows.map((row) => row.textContent.toLowerCase());
  const words = document.getElementById("words");
  const selects = Array.from(document.querySelectorAll(".filters select"));
  const shown = document.getElementById("shown");
  const apply = () => {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    rows.forEach((row, at) => {
      const fits =
        wanted.every((word) => texts[at].includes(word)) &&
        selects.every((select) => !select.value || row.dataset[select.name] === select.value);
      row.hidden = !fits;
      count += fits ? 1 : 0;
    });
    shown.textContent = count.toLocaleString("en") + " shown";
  };
  [words, ...selects].forEach((input) => input.addEventListener("input", apply));
  document.querySelector(".filters").hidden = false;
  apply();
})();
