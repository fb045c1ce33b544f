// Plots come drawn by the server. Once a reader points at one, touches it or reaches it by keyboard, Plotly draws its marks
// anew in the same frame, with the figure from the address in data-plot: it says what marks are, zooms, and opens what a mark
// stands for. Words, ticks and grid stay those of the picture. The library, which data-library names, is loaded then.
(() => {
  const address = document.currentScript.dataset.library;
  const probe = document.createElement("span");
  probe.hidden = true;
  const colour = (name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const figures = new WeakMap();
  const hidden = new WeakMap(); // by plot the series that readers have hidden

  // A trace names its tone in `meta.tone`, so that one figure serves light and dark.
  const toned = (trace) => {
    const tone = colour(trace.meta.tone);
    return {
      ...trace,
      marker: { ...trace.marker, color: tone, line: { ...trace.marker?.line, color: tone } },
      line: { ...trace.line, color: tone },
      ...(trace.fill ? { fillcolor: tone } : {}),
    };
  };
  const shownIn = (box) => (trace) => ({ ...toned(trace), visible: !hidden.get(box)?.has(trace.meta.series) });
  // A finger that drags over a plot wants to scroll the page.
  const isTouch = matchMedia("(pointer: coarse)").matches;
  const config = { displayModeBar: false, responsive: false, showTips: false, doubleClick: "autosize" };
  const picture = (box) => [...box.querySelectorAll(".plot-still svg")].find((svg) => svg.getBoundingClientRect().width);
  const layout = (given, still) => {
    const { width, height } = still.viewBox.baseVal;
    const [left, top, right, bottom] = still.dataset.frame.split(" ").map(Number);
    return {
      ...structuredClone(given),
      width,
      height,
      margin: { l: left, t: top, r: width - right, b: height - bottom, pad: 0 },
      font: { family: getComputedStyle(document.body).fontFamily, size: 13 },
      hoverlabel: { bgcolor: colour("surface-2"), bordercolor: colour("border-strong"), font: { color: colour("text") } },
      ...(isTouch ? { dragmode: false } : {}),
    };
  };

  // The part of the plane that is shown belongs to the address, so that the link restores it. The page at that address has
  // the picture of that part, with the ticks and labels that fit there.
  const showWindow = async (box, { xaxis, yaxis }) => {
    const isWhole = xaxis.autorange && yaxis.autorange;
    const shown = isWhole ? "" : [...xaxis.range, ...yaxis.range].map((end) => end.toFixed(3)).join(",");
    const change = (address) => {
      const url = new URL(address, location.href);
      if (shown) url.searchParams.set("window", shown);
      else url.searchParams.delete("window");
      return url.pathname + url.search + url.hash;
    };
    history.replaceState(history.state, "", change(location.href));
    for (const link of document.querySelectorAll("[data-view-link]")) link.href = change(link.href);
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById(box.id);
    if (!fresh) return;
    box.replaceWith(fresh);
    show(fresh);
  };

  const toggle = (box, series) => {
    const names = hidden.get(box) ?? new Set();
    hidden.set(box, names);
    if (!names.delete(series)) names.add(series);
    for (const each of box.querySelectorAll("[data-series]")) each.toggleAttribute("data-off", names.has(each.dataset.series));
    draw(box);
  };
  // Over each entry of the legend a button that hides its series: the picture itself is one image to those who hear it.
  const offerSeries = (box, still, outer) => {
    const known = new Map([...box.querySelectorAll(".plot-series")].map((button) => [button.value, button]));
    for (const entry of still.querySelectorAll("[data-series]")) {
      const { series } = entry.dataset;
      let button = known.get(series);
      if (!button) {
        button = document.createElement("button");
        Object.assign(button, { type: "button", className: "plot-series", value: series });
        button.setAttribute("aria-label", `Show ${series}`);
        button.addEventListener("click", () => toggle(box, series));
        box.append(button);
      }
      button.setAttribute("aria-pressed", String(!hidden.get(box)?.has(series)));
      const place = entry.getBoundingClientRect();
      button.style.left = `${place.left - outer.left - box.clientLeft}px`;
      button.style.top = `${place.top - outer.top - box.clientTop}px`;
      button.style.width = `${place.width}px`;
      button.style.height = `${place.height}px`;
    }
  };

  const draw = (box, how = "react") => {
    const still = picture(box);
    if (!still) return;
    let stage = box.querySelector(".plot-stage");
    const isNew = !stage;
    if (isNew) {
      stage = document.createElement("div");
      stage.className = "plot-stage";
      stage.setAttribute("role", "img");
      stage.setAttribute("aria-label", box.dataset.label);
      box.append(stage);
    }
    const { data, layout: given } = figures.get(box);
    const shown = layout(given, still);
    const [outer, inner] = [box, still].map((element) => element.getBoundingClientRect());
    stage.style.left = `${inner.left - outer.left - box.clientLeft}px`;
    stage.style.top = `${inner.top - outer.top - box.clientTop}px`;
    stage.style.width = `${shown.width}px`;
    stage.style.height = `${shown.height}px`;
    stage.style.transform = `scale(${inner.width / shown.width})`;
    offerSeries(box, still, outer);
    window.Plotly[how](stage, data.map(shownIn(box)), shown, config).then(() => box.setAttribute("data-drawn", ""));
    if (!isNew && how === "react") return; // a new plot forgets who listened to the old one
    stage.on("plotly_click", (event) => {
      const address = event.points[0]?.customdata?.[0];
      if (address) location.assign(address);
    });
    if ("plotWindow" in box.dataset) stage.on("plotly_relayout", () => showWindow(box, stage.layout));
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
  const figure = async (box) => {
    const answer = await fetch(box.dataset.plot);
    if (!answer.ok) throw new Error(`${answer.status} at ${box.dataset.plot}`);
    figures.set(box, await answer.json());
  };
  // Where the library or the figure does not come, the picture stays.
  const show = async (box) => {
    box.dataset.wanted = "";
    try {
      await Promise.all([library(), figure(box)]);
    } catch {
      box.setAttribute("data-failed", "");
      return;
    }
    draw(box);
    sizes.observe(box);
  };
  const wake = (event) => {
    const box = event.target.closest?.("[data-plot]");
    if (box && !("wanted" in box.dataset)) show(box);
  };
  const widths = new WeakMap();
  const sizes = new ResizeObserver((entries) => {
    for (const { target, contentRect } of entries) {
      const before = widths.get(target);
      widths.set(target, contentRect.width);
      if (before !== undefined && before !== contentRect.width) draw(target, "newPlot");
    }
  });
  const redraw = () => document.querySelectorAll("[data-plot][data-drawn]").forEach((box) => draw(box));
  const start = () => document.body.append(probe);
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
  for (const name of ["pointerover", "pointerdown", "focusin"]) document.addEventListener(name, wake);
  document.addEventListener("pkb:theme", redraw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
})();
