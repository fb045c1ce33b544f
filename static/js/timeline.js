// Zoom of the picture of a recorded call. The server drew it; here another part of its inner coordinates is chosen, and
// the scale below it is written anew. Buttons, the wheel with Ctrl, dragging, and the keys + - and arrows do the same.
(() => {
  const NS = "http://www.w3.org/2000/svg";
  const LEAST_NS = 200;
  const seen = new WeakMap();

  const stateOf = (figure) => {
    const length = Number(figure.dataset.length);
    if (!seen.has(figure)) seen.set(figure, { start: 0, span: length });
    return { length, view: seen.get(figure) };
  };
  const written = (ns) => {
    const us = ns / 1000;
    return us < 1000 ? `${Number(us.toPrecision(4))} µs` : `${Number((us / 1000).toPrecision(4))} ms`;
  };
  const step = (span, most) => {
    const raw = span / most;
    const power = 10 ** Math.floor(Math.log10(raw));
    return [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((value) => value >= raw);
  };

  const redraw = (figure) => {
    const { view } = stateOf(figure);
    for (const plot of figure.querySelectorAll(".recording-plot")) {
      const [, , , height] = plot.getAttribute("viewBox").split(" ");
      plot.setAttribute("viewBox", `${view.start} 0 ${view.span} ${height}`);
      const outer = plot.ownerSVGElement;
      for (const old of outer.querySelectorAll(".recording-tick")) old.remove();
      const [x, y, width, tall] = ["x", "y", "width", "height"].map((name) => Number(plot.getAttribute(name)));
      const every = step(view.span, width > 500 ? 6 : 3);
      for (let at = Math.ceil(view.start / every) * every; at <= view.start + view.span; at += every) {
        const place = x + ((at - view.start) / view.span) * width;
        const line = document.createElementNS(NS, "path");
        line.setAttribute("d", `M${place} ${y}V${y + tall}`);
        line.setAttribute("stroke", "currentColor");
        line.setAttribute("class", "recording-tick t-border");
        const text = document.createElementNS(NS, "text");
        text.setAttribute("x", place);
        text.setAttribute("y", y + tall + 17);
        text.setAttribute("text-anchor", "middle");
        text.setAttribute("fill", "currentColor");
        text.setAttribute("class", "recording-tick t-text-muted");
        text.textContent = written(at);
        outer.insertBefore(line, plot);
        outer.insertBefore(text, plot);
      }
    }
  };
  const show = (figure, start, span) => {
    const { length, view } = stateOf(figure);
    view.span = Math.min(length, Math.max(LEAST_NS, span));
    view.start = Math.min(length - view.span, Math.max(0, start));
    redraw(figure);
  };
  const zoom = (figure, factor, share = 0.5) => {
    const { view } = stateOf(figure);
    show(figure, view.start + view.span * share * (1 - factor), view.span * factor);
  };
  const move = (figure, share) => {
    const { view } = stateOf(figure);
    show(figure, view.start + view.span * share, view.span);
  };
  const actions = {
    in: (figure) => zoom(figure, 0.5),
    out: (figure) => zoom(figure, 2),
    left: (figure) => move(figure, -0.25),
    right: (figure) => move(figure, 0.25),
    all: (figure) => show(figure, 0, Infinity),
  };
  const keys = { "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", 0: "all" };
  const around = (event) => event.target.closest?.("[data-timeline]");

  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("[data-zoom]");
    if (button) actions[button.dataset.zoom](button.closest("[data-timeline]"));
  });
  document.addEventListener("keydown", (event) => {
    const figure = around(event);
    if (!figure || event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    actions[keys[event.key]](figure);
  });
  document.addEventListener(
    "wheel",
    (event) => {
      const plot = event.target.closest?.(".recording-plot");
      if (!plot || !event.ctrlKey) return;
      event.preventDefault();
      const box = plot.getBoundingClientRect();
      zoom(around(event), event.deltaY < 0 ? 0.8 : 1.25, (event.clientX - box.left) / box.width);
    },
    { passive: false },
  );
  let dragged = null;
  document.addEventListener("pointerdown", (event) => {
    const plot = event.target.closest?.(".recording-plot");
    if (plot && event.button === 0) dragged = { figure: around(event), at: event.clientX, plot };
  });
  document.addEventListener("pointermove", (event) => {
    if (!dragged) return;
    const width = dragged.plot.getBoundingClientRect().width;
    if (!width || event.clientX === dragged.at) return;
    move(dragged.figure, (dragged.at - event.clientX) / width);
    dragged.at = event.clientX;
  });
  document.addEventListener("pointerup", () => (dragged = null));
})();
