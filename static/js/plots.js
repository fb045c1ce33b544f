// Draws every <div data-plot="ID"> from the JSON in <script type="application/json" id="ID">, in the site's colours.
(() => {
  const probe = document.createElement("span");
  probe.hidden = true;
  const colour = (name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };

  // A trace names its tone in `meta.tone`, so that one figure serves light and dark.
  const toned = (trace) => {
    const tone = colour(trace.meta?.tone ?? "accent");
    return {
      ...trace,
      marker: { ...trace.marker, color: tone, line: { ...trace.marker?.line, color: tone } },
      line: { ...trace.line, color: tone },
      ...(trace.fill ? { fillcolor: tone } : {}),
      ...(trace.error_x ? { error_x: { ...trace.error_x, color: tone } } : {}),
      ...(trace.error_y ? { error_y: { ...trace.error_y, color: tone } } : {}),
    };
  };
  const axis = (given) => ({
    ...given,
    color: colour("text-muted"),
    gridcolor: colour("border"),
    linecolor: colour("border-strong"),
    zerolinecolor: colour("border"),
    automargin: true,
    title: { ...given.title, font: { size: 13 } },
  });
  const layout = (given) => {
    const result = {
      ...given,
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: colour("text") },
      hoverlabel: { bgcolor: colour("surface-2"), bordercolor: colour("border-strong"), font: { color: colour("text") } },
    };
    for (const key of Object.keys(given)) if (/^[xy]axis\d*$/.test(key)) result[key] = axis(given[key]);
    for (const shape of result.shapes ?? []) shape.line = { ...shape.line, color: colour("text-faint") };
    for (const note of result.annotations ?? []) note.font = { ...note.font, color: colour("text-muted") };
    return result;
  };

  const draw = () => {
    if (!window.Plotly) return;
    for (const box of document.querySelectorAll("[data-plot]")) {
      const figure = JSON.parse(document.getElementById(box.dataset.plot).textContent);
      window.Plotly.react(box, figure.data.map(toned), layout(figure.layout), { displayModeBar: false, responsive: true });
      box.setAttribute("role", "img");
    }
  };
  const start = () => {
    document.body.append(probe);
    draw();
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
  document.addEventListener("pkb:theme", draw);
  document.addEventListener("htmx:afterSwap", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
})();
