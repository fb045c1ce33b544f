// Live parts: conditional polling, the spoken status, ticking clocks, copy buttons and confirmations.
(() => {
  // A poll says which state it already shows; the server answers 304 and nothing is swapped or announced.
  document.addEventListener("htmx:configRequest", (event) => {
    const etag = event.target.dataset?.etag;
    if (etag) event.detail.headers["If-None-Match"] = etag;
  });

  // The page follows an event stream, which says when there is something new; where no stream opens it asks now and then.
  // Not all open pages at the same moment: a thousand of them are a few answers a second.
  const SAFETY_S = 60 + 30 * Math.random();
  let source = null;
  let asking = 0;
  // What changes while an answer is under way is asked for once that has come: the answer replaces the element, and with
  // it whatever htmx would have queued there. The answer for an element that another submission has replaced never ends.
  let asked = null;
  let isStale = false;
  const refresh = () => {
    const live = document.querySelector("#live[data-stream]");
    if (!live) return;
    isStale = asked === live;
    if (!isStale) window.htmx.trigger(live, "refresh");
  };
  document.addEventListener("htmx:beforeRequest", (event) => { if (event.target.id === "live") asked = event.target; });
  document.addEventListener("htmx:afterRequest", (event) => {
    if (event.detail.requestConfig.elt !== asked) return;
    asked = null;
    if (isStale) setTimeout(refresh);
  });
  const leave = () => {
    source?.close();
    source = null;
    clearInterval(asking);
  };
  const follow = () => {
    const live = document.querySelector("#live[data-stream]");
    if (!live) { leave(); return; }
    // Addresses are signed anew with every answer; what is followed is the part of the address that fetches it.
    const what = live.getAttribute("hx-get");
    if (source?.what === what) return;
    leave();
    source = new EventSource(live.dataset.stream);
    source.what = what;
    source.addEventListener("changed", refresh);
    source.addEventListener("end", () => source?.close());
    const askEvery = (seconds) => {
      clearInterval(asking);
      asking = setInterval(refresh, seconds * 1000);
    };
    askEvery(SAFETY_S);
    source.addEventListener("open", () => askEvery(SAFETY_S));
    source.addEventListener("error", () => askEvery(live.dataset.pollS));
  };
  document.addEventListener("htmx:afterSettle", follow);
  document.addEventListener("DOMContentLoaded", follow);

  const title = document.title;
  const announce = () => {
    const state = document.getElementById("live")?.dataset.state;
    if (state) document.title = `${state} · ${title}`;
    const status = document.getElementById("live-status");
    const now = document.querySelector("[data-status]")?.dataset.status;
    if (status && now && status.textContent !== now) status.textContent = now;
  };
  document.addEventListener("htmx:afterSwap", announce);
  announce();

  const clock = (seconds) => {
    const minutes = Math.floor(seconds / 60);
    return minutes ? `${minutes} min ${seconds % 60} s` : `${seconds} s`;
  };
  const tick = () => {
    for (const element of document.querySelectorAll("time[data-since]")) {
      const elapsed = Math.max(0, Math.round((Date.now() - Date.parse(element.dataset.since)) / 1000));
      const text = clock(elapsed);
      if (element.textContent !== text) element.textContent = text;
    }
  };
  // A call that hangs ends at its limit, which counts down from when this page first saw the call begin.
  let call = "", begun = 0;
  const countDown = () => {
    const element = document.querySelector("[data-counts-down]");
    const limit = element?.dataset.countsDown.match(/may take (\d+) s/);
    if (!limit) return;
    if (call !== element.dataset.countsDown) [call, begun] = [element.dataset.countsDown, Date.now()];
    const left = Math.max(0, Number(limit[1]) - Math.round((Date.now() - begun) / 1000));
    element.textContent = `: ends in ${clock(left)} at most`;
  };
  setInterval(() => { tick(); countDown(); }, 1000);
  document.addEventListener("htmx:afterSwap", () => { tick(); countDown(); });
  tick();

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    await navigator.clipboard.writeText(document.querySelector(button.dataset.copy).textContent.trim());
    const label = button.textContent;
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = label; }, 1600);
  });

  // Sources are tables with a row per line; what is copied are the lines alone.
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy-lines]");
    if (!button) return;
    const cells = document.querySelectorAll(`${button.dataset.copyLines} tr[id] > td:last-child`);
    await navigator.clipboard.writeText(`${[...cells].map((cell) => cell.textContent).join("\n")}\n`);
    const label = button.querySelector("span");
    label.textContent = "Copied";
    setTimeout(() => { label.textContent = "Copy"; }, 1600);
  });
  // A line's number makes the address lead to it.
  document.addEventListener("click", (event) => {
    const row = event.target.closest(".source tr[id] > td:first-child")?.closest("tr[id]");
    if (row) location.hash = row.id;
  });
  // The lines that a verdict is about, in listings that were there before it.
  const markLines = () => {
    for (const mark of (document.getElementById("live")?.dataset.marks ?? "").split("\n")) {
      const [path, line, kind, why] = mark.split(":");
      const row = path && document.getElementById(`${path}-L${line}`);
      if (!row) continue;
      row.classList.add(kind === "waits" ? "is-waiting" : "is-marked");
      if (kind === "waits") row.lastElementChild.dataset.note = why;
    }
  };
  document.addEventListener("htmx:afterSettle", markLines);

  document.addEventListener("submit", (event) => {
    const question = event.submitter?.dataset.confirm ?? event.target.dataset.confirm;
    if (question && !window.confirm(question)) event.preventDefault();
  });

  // "/" leads to the search box from wherever nothing is being written.
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select, [contenteditable]")) return;
    const search = document.querySelector("[data-search-key]");
    if (!search?.offsetParent) return; // folded away on a phone
    event.preventDefault();
    search.focus();
  });

  // Filters apply as soon as a choice changes; the button stays for keyboards and for pages without scripts.
  // A password in plain letters while its author wants to see it; it is sent as a password.
  document.addEventListener("change", ({ target }) => {
    if (target.dataset.shows) document.querySelector(target.dataset.shows).type = target.checked ? "text" : "password";
  });
  document.addEventListener("submit", (event) => {
    for (const box of event.target.querySelectorAll("[data-shows]")) document.querySelector(box.dataset.shows).type = "password";
  });
  // Each arrow key on a closed list is a change: who chooses so asks for the page with the form's button.
  let byKey = false;
  document.addEventListener("keydown", ({ key }) => { byKey = key !== "Enter" && key !== " "; });
  document.addEventListener("pointerdown", () => { byKey = false; });
  document.addEventListener("change", (event) => {
    if (!event.target.matches("form[data-auto] select")) return;
    if (byKey) event.target.form.querySelector("button.without-js")?.classList.remove("without-js");
    else event.target.form.requestSubmit();
  });
})();
