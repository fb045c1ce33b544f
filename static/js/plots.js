// Plots come drawn by the server. Once a reader points at one, touches it or reaches it by keyboard, Plotly takes its
// place with the figure of the same chart, from the JSON in <script type="application/json" id="NAME">: it says what marks
// are, zooms, and opens what a mark stands for. The library, which this script's data-library names, is loaded then.
(() => {
  const address = document.currentScript.dataset.library;
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

  // A finger that drags over a plot wants to scroll the page.
  const isTouch = matchMedia("(pointer: coarse)").matches;
  const config = { displayModeBar: false, responsive: false, showTips: false };
  const read = (id) => {
    const figure = JSON.parse(document.getElementById(id).textContent);
    const shown = layout(figure.layout);
    shown.uirevision = id; // a change of colours keeps the zoom
    if (isTouch) shown.dragmode = false;
    return { data: figure.data.map(toned), layout: shown };
  };

  // The part of the plane that is shown belongs to the address, so that the link restores it.
  const rememberWindow = (box) => {
    const { xaxis, yaxis } = box.layout;
    const shown = xaxis.autorange && yaxis.autorange ? "" : [...xaxis.range, ...yaxis.range].map((end) => end.toFixed(3)).join(",");
    const change = (address) => {
      const url = new URL(address, location.href);
      if (shown) url.searchParams.set("window", shown);
      else url.searchParams.delete("window");
      return url.pathname + url.search + url.hash;
    };
    history.replaceState(history.state, "", change(location.href));
    for (const link of document.querySelectorAll("[data-view-link]")) link.href = change(link.href);
  };
  const wire = (box, stage) => {
    if (box.dataset.wired) return;
    box.dataset.wired = "yes";
    stage.on("plotly_click", (event) => {
      const address = event.points[0]?.customdata?.[0];
      if (address) location.assign(address);
    });
    if ("plotWindow" in box.dataset) stage.on("plotly_relayout", () => rememberWindow(stage));
  };

  const draw = (box, how = "react") => {
    const { data, layout: shown } = read(box.dataset.plot);
    let stage = box.querySelector(".plot-stage");
    if (!stage) {
      stage = document.createElement("div");
      stage.className = "plot-stage";
      stage.setAttribute("role", "img");
      stage.setAttribute("aria-label", box.dataset.label);
      box.append(stage);
    }
    shown.width = box.clientWidth - 2 * parseFloat(getComputedStyle(box).paddingLeft);
    for (const name of ["xaxis", "yaxis"]) {
      const held = stage.layout?.[name];
      if (how === "newPlot" && held?.autorange === false) shown[name].range = held.range; // keeps the zoom
    }
    if (box.clientWidth < 520 && shown.showlegend) shown.height += 60; // the legend takes more lines there
    window.Plotly[how](stage, data, shown, config).then(() => box.setAttribute("data-drawn", ""));
    wire(box, stage);
  };
  let loading = null;
  const library = () => {
    loading ??= new Promise((loaded, failed) => {
      const script = document.createElement("script");
      script.src = address;
      script.onload = loaded;
      script.onerror = failed;
      document.head.append(script);
    });
    return loading;
  };
  const show = (box) =>
    library().then(
      () => {
        draw(box);
        sizes.observe(box);
      },
      () => box.setAttribute("data-failed", ""),
    );
  const wake = (event) => {
    const box = event.target.closest?.("[data-plot]");
    if (box && !("wanted" in box.dataset)) {
      box.dataset.wanted = "";
      show(box);
    }
  };
  // Only a new plot puts its legend right at another width. The library's own watch follows the height as well, which
  // changes whenever a phone hides its address bar.
  const widths = new WeakMap();
  const sizes = new ResizeObserver((entries) => {
    for (const { target, contentRect } of entries) {
      const before = widths.get(target);
      widths.set(target, contentRect.width);
      if (before === undefined || before === contentRect.width) continue;
      delete target.dataset.wired; // a new plot forgets who listened to the old one
      draw(target, "newPlot");
    }
  });
  const boxes = () => document.querySelectorAll("[data-plot][data-drawn]");
  const redraw = () => boxes().forEach((box) => draw(box));
  const start = () => document.body.append(probe);
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
  for (const name of ["pointerover", "pointerdown", "focusin"]) document.addEventListener(name, wake);
  document.addEventListener("pkb:theme", redraw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
})();
