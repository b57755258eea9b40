"use strict";
(() => {
  const form = document.getElementById("filters");
  if (!form) return;
  const chosen = (name) => {
    const boxes = form.querySelectorAll(`[data-filter="${name}"] input:checked`);
    return new Set(Array.from(boxes, (box) => box.value));
  };
  // A series without a C, such as READ 8 B, is shown for every selection of C.
  const apply = () => {
    const transports = chosen("transport");
    const chunks = chosen("c");
    for (const figure of document.querySelectorAll("figure")) {
      const on = Array.from(figure.querySelectorAll(".series"), (series) => {
        const { transport, c } = series.dataset;
        return transports.has(transport) && (c === "" || chunks.has(c));
      });
      on.forEach((shown, at) => {
        for (const part of figure.querySelectorAll(`.k${at}`)) part.classList.toggle("off", !shown);
      });
      figure.querySelector(".empty").hidden = on.some((shown) => shown);
    }
  };
  form.addEventListener("change", apply);
  // The boxes are set back only after the event.
  form.addEventListener("reset", () => setTimeout(apply));
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
})();
