// Draws every <div data-plot="ID"> from the JSON in <script type="application/json" id="ID">, in the site's colours, once
// it comes near the window; the library, which this script's data-library names, is loaded for the first one.
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
  const wire = (box) => {
    if (box.dataset.wired) return;
    box.dataset.wired = "yes";
    box.on("plotly_click", (event) => {
      const address = event.points[0]?.customdata?.[0];
      if (address) location.assign(address);
    });
    if ("plotWindow" in box.dataset) box.on("plotly_relayout", () => rememberWindow(box));
  };

  const draw = (box, how = "react") => {
    const { data, layout: shown } = read(box.dataset.plot);
    shown.width = parseFloat(getComputedStyle(box).width);
    for (const name of ["xaxis", "yaxis"]) {
      const held = box.layout?.[name];
      if (how === "newPlot" && held?.autorange === false) shown[name].range = held.range; // keeps the zoom
    }
    if (box.clientWidth < 520) shown.height += 100; // the legend takes a line per entry there
    window.Plotly[how](box, data, shown, config).then(() => box.setAttribute("data-drawn", ""));
    wire(box);
    box.setAttribute("role", "img");
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
  const near = new IntersectionObserver(
    (entries) => {
      for (const { target } of entries.filter((entry) => entry.isIntersecting)) {
        near.unobserve(target);
        show(target);
      }
    },
    { rootMargin: "500px" },
  );
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
  const boxes = () => document.querySelectorAll("[data-plot]");
  const watch = () => boxes().forEach((box) => near.observe(box));
  const redraw = () => boxes().forEach((box) => box.dataset.wired && draw(box));

  // Saves a plot as it is shown, on the page's own ground: a picture has no page behind it.
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-plot-save]");
    if (!button || !window.Plotly) return;
    const box = document.querySelector(`[data-plot="${button.dataset.plotOf}"]`);
    const ground = colour("surface");
    const picture = { data: box.data, layout: { ...box.layout, paper_bgcolor: ground, plot_bgcolor: ground } };
    const format = button.dataset.plotSave;
    window.Plotly.downloadImage(picture, { format, filename: box.dataset.plotName, width: 1200, height: 800, scale: format === "png" ? 2 : 1 });
  });
  const start = () => {
    document.body.append(probe);
    watch();
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
  document.addEventListener("pkb:theme", redraw);
  document.addEventListener("htmx:afterSwap", watch);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  addEventListener("beforeprint", () => window.Plotly && boxes().forEach((box) => draw(box)));
})();
